"""`schema migrate --target-version`: back to an earlier version, where nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS
from agent_eval.errors import InvalidInput
from agent_eval.suites.migrate import migrate, migrate_to


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


def test_what_is_empty_is_not_lost():
    back = migrate_to(suite({"usage": None}, turns=[], final_output_tool=None), "1.1.0")
    assert back["cases"][0]["turns"] == []


def test_an_unknown_version_is_refused():
    with pytest.raises(InvalidInput, match="cannot be written"):
        migrate_to(suite(), "2.0.0")
