from __future__ import annotations

from typing import Any

import pytest

from agent_eval.errors import InvalidInput
from tests.unit.judges.traces import answers, asks, calls, findings, judge, says, uses


def test_without_rules_there_is_nothing_to_judge() -> None:
    assert findings(judge("policy", says())) == ("skipped", None)


def test_kept_rules_pass() -> None:
    verdict = judge(
        "policy", uses("search"), policy={"required_tools": ["search"], "forbidden_tools": ["rm"]}
    )
    assert findings(verdict) == ("passed", None)


def test_a_forbidden_tool_is_named_with_its_events() -> None:
    verdict = judge("policy", says(), uses("rm"), calls("rm"), policy={"forbidden_tools": ["rm", "dd"]})
    assert findings(verdict) == ("failed", "policy_violation")
    assert verdict.reason == "forbidden tool rm used (events 1, 2 and 3)"
    assert verdict.evidence_refs == [1, 2, 3]
    assert verdict.score == 0.5
    assert verdict.hard


def test_a_result_of_a_forbidden_tool_counts_without_its_call() -> None:
    assert not judge("policy", answers("rm"), policy={"forbidden_tools": ["rm"]}).passed


def test_a_required_tool_must_be_called() -> None:
    verdict = judge("policy", answers("search"), policy={"required_tools": ["search", "book"]})
    assert verdict.reason == "required tools book and search never called"
    assert verdict.evidence == {"forbidden_used": [], "required_missing": ["book", "search"]}


def test_names_match_exactly() -> None:
    rules = {"required_tools": ["search"], "forbidden_tools": ["Search", "search "]}
    assert judge("policy", uses("search"), policy=rules).passed


def test_both_kinds_stand_in_one_sentence() -> None:
    verdict = judge("policy", uses("rm"), policy={"required_tools": ["ls"], "forbidden_tools": ["rm"]})
    assert verdict.reason == "forbidden tool rm used (events 0 and 1); required tool ls never called"


def test_a_message_that_names_a_tool_is_no_use_of_it() -> None:
    assert judge("policy", says("x", tool="rm"), policy={"forbidden_tools": ["rm"]}).passed


def test_a_hostile_tool_name_is_quoted_and_cut() -> None:
    name = "rm\n::error::" + "x" * 5000
    verdict = judge("policy", calls(name), policy={"forbidden_tools": [name]})
    assert "\n" not in verdict.reason
    assert len(verdict.reason) < 150


@pytest.mark.parametrize("events", [asks("Delete it."), asks("Delete it.") + says(" ")])
def test_an_agent_that_did_nothing_keeps_no_rule(events: list[dict[str, Any]]) -> None:
    verdict = judge("policy", events, policy={"forbidden_tools": ["delete"]})
    assert findings(verdict) == ("error", "missing_output")


@pytest.mark.parametrize("name", ["required_tools", "forbidden_tools"])
def test_a_tool_without_a_name_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        judge("policy", says(), policy={name: ["search", ""]})
    assert caught.value.details["field"] == f"policy.{name}[1]"
