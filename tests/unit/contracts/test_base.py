"""Digests, unknown fields, and what makes two cases the same question."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import Case, Suite, SuiteHeader, canonical_json, digest, unknown_fields
from agent_eval.errors import AgentEvalError, ExitCode, InvalidInput, StorageError

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_the_digest_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    assert digest(dict(reversed(value.items()))) == digest(value)
    assert canonical_json({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'.encode()


def test_unknown_fields_are_kept_and_listed_by_path() -> None:
    case = {
        "case_id": "c", "hint": 2, "policy": {"x": 3}, "tool_contracts": {"t": {"y": 4}},
        "trace": [{"idx": 0, "actor": "a", "type": "m", "z": 5}], "metadata": {"free": 6},
    }  # fmt: skip
    suite = Suite.model_validate({"dataset_id": "d", "extra": 1, "cases": [case]})
    assert sorted(unknown_fields(suite)) == [
        "$.cases[0].hint", "$.cases[0].policy.x", "$.cases[0].tool_contracts.t.y", "$.cases[0].trace[0].z",
        "$.extra",
    ]  # fmt: skip
    assert suite.to_json()["cases"][0]["hint"] == 2


def test_names_of_earlier_versions_are_read() -> None:
    contract = {"required": ["x"], "forbidden": ["y"]}
    old = {"case_id": "c", "expected": 1, "regex": ["a"], "tool_contracts": {"t": contract}}
    case = Case.model_validate(old)
    assert (case.expected_output, case.regex_patterns) == (1, ["a"])
    assert (case.tool_contracts["t"].required_args, case.tool_contracts["t"].forbidden_args) == (["x"], ["y"])


@pytest.mark.parametrize(
    ("header", "version"),
    [
        ({"schema_version": "1.1.0"}, "1.1.0"),
        ({"metadata": {"schema_version": "1.0.0"}}, "1.0.0"),
        ({"metadata": {"schema_version": 1}}, None),
        ({}, None),
    ],
)
def test_a_suite_states_its_version_at_the_top_or_in_its_metadata(
    header: dict[str, Any], version: str | None
) -> None:
    assert SuiteHeader.model_validate({"dataset_id": "d", **header}).version == version


def test_an_error_says_what_where_and_what_to_do() -> None:
    error = InvalidInput("suite.json: not JSON", remedy="Fix line 3.", file="suite.json", line=3, field=None)
    assert error.to_json() == {
        "error": {"code": "validation_error", "message": "suite.json: not JSON",
                  "details": {"file": "suite.json", "line": 3, "remedy": "Fix line 3."}},
    }  # fmt: skip
    assert error.exit_code == ExitCode.WRONG_REQUEST
    assert StorageError("disk full").exit_code == ExitCode.NOT_EVALUABLE
    assert AgentEvalError("x").remedy == ""
