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
    compile_schema_pattern,
    is_found,
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
    return compile_schema_pattern(pattern).search(text) is not None


@pytest.mark.parametrize(
    ("pattern", "matches", "differs"),
    [
        (r"^\u00e9$", ["é"], ["e"]),
        (r"^\u{1f600}$", ["😀"], ["x"]),
        (r"^\\u00e9$", [r"\u00e9"], ["é"]),
        (r"^[\s,\u00a0]+$", [", \u00a0"], ["a"]),
        (r"^a\.b\\$", ["a.b\\"], ["axb\\"]),
        (r"end$", ["end"], ["end\n"]),
    ],
)
def test_the_escapes_of_javascript_are_read(pattern: str, matches: list[str], differs: list[str]) -> None:
    assert [text for text in matches if not found(pattern, text)] == []
    assert [text for text in differs if found(pattern, text)] == []


@given(st.text())
def test_any_text_is_compiled_or_refused_and_never_crashes(pattern: str) -> None:
    with suppress(InvalidPattern):
        compile_schema_pattern(pattern)


@given(st.text())
def test_an_escaped_text_finds_itself(text: str) -> None:
    assert found(re.sub(r"([\\^$.|?*+()\[\]{}/])", r"\\\1", text), text)
