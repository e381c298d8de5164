"""`schema migrate`: old suites become current ones, and nothing is lost."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS
from agent_eval.errors import InvalidInput
from agent_eval.suites.migrate import migrate, migrate_to
from agent_eval.suites.validate import validate_suite

OLD: dict[str, Any] = {
    "dataset_id": "d",
    "metadata": {"schema_version": "0.1.0", "owner": "qa"},
    "team": "x",
    "cases": [{"case_id": "a", "expected": {"total": 3}, "regex": ["^x"],
        "tool_contracts": {"t": {"required": ["id"], "forbidden": ["all"], "note": 1}, "odd": 3},
        "trace": [{"actor": "agent", "type": "message"}, {"actor": "agent", "type": "message"}], "own": [1]}],
}  # fmt: skip


def test_old_names_become_current_ones_and_the_rest_stays() -> None:
    before = copy.deepcopy(OLD)
    migrated = migrate(OLD)
    assert before == OLD
    contracts = {"t": {"required_args": ["id"], "forbidden_args": ["all"], "note": 1}, "odd": 3}
    case = {"case_id": "a", "expected_output": {"total": 3}, "regex_patterns": ["^x"], "own": [1]}
    trace = [{"idx": number, "actor": "agent", "type": "message"} for number in (0, 1)]
    assert migrated == {
        "dataset_id": "d",
        "metadata": {"schema_version": "1.2.0", "owner": "qa"},
        "team": "x",
        "cases": [{**case, "tool_contracts": contracts, "trace": trace}],
    }


def test_migrated_suite_passes_strict_validation(tmp_path: Path) -> None:
    old = copy.deepcopy(OLD)
    del old["team"], old["cases"][0]["own"], old["cases"][0]["tool_contracts"]["odd"]
    del old["cases"][0]["tool_contracts"]["t"]["note"]
    path = tmp_path / "s.json"
    path.write_text(json.dumps(migrate(old)))
    assert validate_suite(path, strict=True, require_version="1.2.0").passed


@pytest.mark.parametrize(
    ("payload", "changed"),
    [
        ({"schema_version": "1.0.0", "cases": []}, {"schema_version": "1.2.0"}),
        ({"cases": [{"trace": [{"idx": 7}, {}]}]}, {}),
        ({"cases": [{"expected": 1, "expected_output": 1}]}, {"cases": [{"expected_output": 1}]}),
    ],
    ids=["version at the top", "numbered events", "two names with one value"],
)
def test_what_else_is_raised_and_what_stays(payload: dict[str, Any], changed: dict[str, Any]) -> None:
    assert migrate(payload) == {**payload, "metadata": {"schema_version": "1.2.0"}, **changed}


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"dataset_id": "d"}, "cases must be an array, not null"),
        ({"cases": [], "metadata": []}, r"metadata must be an object, not \[\]"),
        ({"cases": [3]}, r"cases\[0\] must be an object, not 3"),
        ({"cases": [], "metadata": {"schema_version": "7"}}, 'schema version "7" cannot be migrated'),
        ({"cases": [], "schema_version": 7}, "schema version 7 cannot be migrated"),
        ({"cases": {"a": {}}, "schema_version": "7"}, 'schema version "7" cannot be migrated'),
        ({"cases": [{"regex": ["a"], "regex_patterns": ["b"]}]}, r"cases\[0\] has both regex and"),
        (
            {"cases": [{"tool_contracts": {"a b": {"required": ["a"], "required_args": []}}}]},
            r'cases\[0\]\.tool_contracts\["a b"\] has both required',
        ),
    ],
)
def test_what_cannot_be_migrated_is_refused(payload: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        migrate(payload)
    assert caught.value.remedy


_names = st.sampled_from(["expected", "expected_output", "regex", "input", "tool_contracts", "extra"])
_values = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=4)
_contracts = st.dictionaries(
    st.text(max_size=3), st.dictionaries(st.sampled_from(["required", "x"]), st.lists(st.text()))
)


@given(st.lists(st.dictionaries(_names, _values | _contracts, max_size=4), max_size=3))
def test_migrating_twice_changes_nothing(cases: list[dict[str, Any]]) -> None:
    try:
        once = migrate({"dataset_id": "d", "cases": cases})
    except InvalidInput:
        return
    assert migrate(once) == once


def suite(event: dict[str, Any] | None = None, **case: Any) -> dict[str, Any]:
    message = {"idx": 0, "ts": "2025-01-01T00:00:00Z", "actor": "agent", "type": "message", "output": "Hi"}
    made = {"case_id": "a", "expected_output": 3, "regex_patterns": ["x"], **case}
    made["tool_contracts"] = {"t": {"required_args": ["id"], "forbidden_args": []}}
    made["trace"] = [{**message, **(event or {})}]
    return {"dataset_id": "d", "metadata": {"schema_version": "1.2.0"}, "cases": [made]}


@pytest.mark.parametrize("version", READABLE_SCHEMA_VERSIONS)
def test_a_suite_that_every_version_can_hold_survives_the_way_back_and_forth(version):
    back = migrate_to(suite(), version)
    assert back["metadata"]["schema_version"] == version
    assert migrate(back) == suite()
    empty = migrate_to(suite({"usage": None}, turns=[], final_output_tool=None), version)
    assert empty["cases"][0]["turns"] == [], "what is empty is not lost"


def test_earlier_versions_get_the_names_that_they_know():
    (case,) = migrate_to(suite(), "1.0.0")["cases"]
    assert (case["expected"], case["regex"]) == (3, ["x"])
    assert case["tool_contracts"] == {"t": {"required": ["id"], "forbidden": []}}


@pytest.mark.parametrize(
    ("event", "case", "version", "lost"),
    [
        ({"call_id": "c"}, {}, "1.0.0", "trace[0].call_id"),
        ({"usage": {"input_tokens": 1}}, {}, "1.1.0", "trace[0].usage"),
        ({"type": "reasoning"}, {}, "1.1.0", "trace[0].type reasoning"),
        ({"ts": None}, {}, "1.0.0", "trace[0] without ts"),
        ({}, {"turns": [{"input": "a"}]}, "1.1.0", "turns"),
        ({}, {"trials": [{"trace": []}]}, "1.0.0", "trials"),
    ],
)
def test_what_an_earlier_version_cannot_hold_is_named_and_refused(event, case, version, lost):
    with pytest.raises(InvalidInput) as refused:
        migrate_to(suite(event, **case), version)
    assert f"cases[0].{lost}" in refused.value.message


def test_an_unknown_version_is_refused():
    with pytest.raises(InvalidInput, match="cannot be written"):
        migrate_to(suite(), "2.0.0")
