"""Patterns: what needs no engine is found as an engine would find it."""

from __future__ import annotations

import re
from contextlib import suppress
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import InvalidInput
from agent_eval.judges.matching.re2 import (
    InvalidPattern,
    check_pattern,
    compile_glob,
    compile_pattern,
    is_found,
    to_re2,
)

_alphabet = st.sampled_from("ab-0 /\\.+*?()|[]{}^$é\n\x00")


@given(st.text(_alphabet, max_size=4), st.text(_alphabet, max_size=12))
def test_pattern_is_found_where_the_engine_finds_it(pattern: str, text: str) -> None:
    try:
        expected = compile_pattern(pattern).search(text.encode()) is not None
    except InvalidPattern:
        with pytest.raises(InvalidPattern):
            is_found(pattern, text.encode())
        with pytest.raises(InvalidInput):
            check_pattern(pattern, case_id="c", field="f")
    else:
        assert is_found(pattern, text.encode()) == expected
        check_pattern(pattern, case_id="c", field="f")


def test_plain_text_that_is_too_long_is_refused_like_any_pattern() -> None:
    with pytest.raises(InvalidInput, match="20001 characters"):
        check_pattern("a" * 20_001, case_id="c", field="f")


@given(st.text("ab*?[]!.\\", max_size=12), st.text("ab[]!.\\\n", max_size=12))
def test_a_glob_matches_as_file_names_are_matched(glob: str, text: str) -> None:
    assert (compile_glob(glob).search(text) is not None) == fnmatchcase(text, glob)


def test_a_set_of_a_glob_may_be_a_range_and_must_make_sense() -> None:
    assert compile_glob("item[0-9].id").search("item7.id") is not None
    assert compile_glob("item[!0-9]").search("item7") is None
    with pytest.raises(InvalidPattern):
        compile_glob("[z-a]")


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
