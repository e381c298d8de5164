"""JSON as it is written: the same bytes for the same value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.storage.json import dumps, parse

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def test_keys_are_sorted_on_one_line() -> None:
    assert dumps({"b": 1, "a": ["ü", None]}) == '{"a":["ü",null],"b":1}'.encode()


def test_indented_for_people_with_a_newline_at_the_end() -> None:
    assert dumps({"b": 1, "a": []}, indent=True) == b'{\n  "a": [],\n  "b": 1\n}\n'


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        dumps({"a": object()})


@given(VALUES, st.booleans())
def test_what_is_written_reads_back_the_same(value: Any, indent: bool) -> None:
    assert parse(dumps(value, indent=indent), source="x") == value
