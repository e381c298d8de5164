"""Patterns as JSON Schema writes them mean the same on RE2."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.judges.matching.re2 import InvalidPattern, compile_pattern
from agent_eval.judges.matching.schema_keywords import to_re2


def found(pattern: str, text: str) -> bool:
    return compile_pattern(to_re2(pattern)).search(text) is not None


@pytest.mark.parametrize(
    ("pattern", "matches", "differs"),
    [
        (r"^\s$", ["\t", "\v", "\u00a0", "\ufeff", "\u2029", "\u3000"], ["a", "\u200b", ""]),
        (r"^\S$", ["a", "\u200b", "é"], ["\v", "\u00a0"]),
        (r"^[\s,]+$", [", \u00a0"], ["a"]),
        (r"^[^\s]$", ["a"], [" ", "\u2003"]),
        (r"^[^\S]$", [" ", "\u2003"], ["a"]),
        (r"^.$", ["a", "😀"], ["\n", "\r", "\u2028"]),
        (r"^[.]$", ["."], ["a"]),
        (r"^\u00e9$", ["é"], ["e"]),
        (r"^\u{1f600}$", ["😀"], ["x"]),
        (r"^\ud83d\ude00$", ["😀"], ["x"]),
        (r"^\cA$", ["\x01"], ["A"]),
        (r"^\0$", ["\x00"], ["0"]),
        (r"^\p{Letter}+$", ["aé"], ["1"]),
        (r"^\P{Letter}+$", ["1"], ["a"]),
        (r"^\p{gc=Decimal_Number}\p{Script=Greek}$", ["1α"], ["1a"]),
        (r"^[^]$", ["\n", "a"], [""]),
        (r"[]", [], ["", "a"]),
        (r"^[a[:]$", ["[", ":", "a"], ["b"]),
        (r"^[[]$", ["["], ["a"]),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^a\.b\\$", ["a.b\\"], ["axb\\"]),
        (r"end$", ["end"], ["end\n"]),
    ],
)
def test_the_dialects_mean_the_same(pattern: str, matches: list[str], differs: list[str]) -> None:
    assert [text for text in matches if not found(pattern, text)] == []
    assert [text for text in differs if found(pattern, text)] == []


@given(st.text())
def test_any_text_is_translated_or_refused_and_never_crashes(pattern: str) -> None:
    with suppress(InvalidPattern):
        compile_pattern(to_re2(pattern))


@given(st.text())
def test_an_escaped_text_finds_itself(text: str) -> None:
    assert found(re.sub(r"([\\^$.|?*+()\[\]{}/])", r"\\\1", text), text)
