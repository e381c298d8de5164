"""What was not read or was cut off: no judge of it passes there, and what it fails stays failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case, Outcome, Trace
from agent_eval.judges.catalog import judge_case, load_judges
from tests.unit.importers.importing import of_value
from tests.unit.judges.traces import asks, make_case, says, uses

ASKED = {"role": "user", "content": "Remove order 7."}
CALL = {"id": "c1", "type": "function", "function": {"name": "delete_order", "arguments": '{"id": 7}'}}


def case_of(tmp_path: Path, expected: dict[str, Any]) -> Case:
    """A case whose only call stands in a field that no importer reads."""
    messages = [ASKED, {"role": "assistant", "content": "Order 7 is gone.", "laterCalls": [CALL]}]
    (case,) = of_value("framework", {"messages": messages}, tmp_path).cases
    return Case.model_validate(case | expected)


@pytest.mark.parametrize(
    ("judge", "expected", "outcome"),
    [
        ("policy", {"policy": {"forbidden_tools": ["delete_order"]}}, Outcome.INCONCLUSIVE),
        ("policy", {"policy": {"required_tools": ["find_order"]}}, Outcome.FAILED),
        ("final_output", {"expected_output": "Order 7 is gone."}, Outcome.INCONCLUSIVE),
        ("regex", {"regex_patterns": ["gone"]}, Outcome.INCONCLUSIVE),
        ("regex", {"regex_patterns": ["sorry"]}, Outcome.FAILED),
        ("regex", {}, Outcome.SKIPPED),
        ("replay_contract", {}, Outcome.PASSED),
    ],
)
def test_a_judge_of_what_was_done_passes_nothing_that_was_not_read(
    judge: str, expected: dict[str, Any], outcome: Outcome, tmp_path: Path
) -> None:
    case = case_of(tmp_path, expected)
    verdict = judge_case(load_judges([judge]), case, Trace(case.trace))[-1]
    assert verdict.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert verdict.reason.startswith("a tool call of delete_order (input.json: messages[1].laterCalls[0]")


PART = '{"order": 7}'
CUT = {"stop_reason": "length"}
OF_ANSWERS = {
    "regex": {"regex_patterns": ["order"]},
    "json_schema": {"json_schema": {"required": ["order"]}},
    "final_output": {"expected_output": PART},
}
OF_CALLS = {
    "policy": {"policy": {"forbidden_tools": ["delete_order"]}},
    "tool_contract": {"tool_contracts": {"find_order": {"required_args": ["id"]}}},
    "trajectory_match": {"metadata": {"trajectory_match": {"calls": [{"tool": "find_order"}]}}},
}
FOUND = uses("find_order", {"id": 7})


@pytest.mark.parametrize("judge", sorted(OF_ANSWERS))
@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (CUT, 'the answer was cut off (event 3): it stopped for "length"; but for that: '),
        ({"attributes": {"gen_ai.response.finish_reasons": ["refusal"]}}, "the answer was refused (event 3)"),
        ({"block_reason": "moderation"}, "the answer was blocked (event 3)"),
        ({}, ""),
    ],
    ids=["cut", "refused", "blocked", "whole"],
)
def test_no_judge_of_answers_passes_one_that_was_cut_off(
    judge: str, stop: dict[str, Any], reason: str
) -> None:
    case = make_case(asks("?"), FOUND, says(PART, **stop), **OF_ANSWERS[judge])
    verdict = judge_case(load_judges([judge]), case, case.recorded)[-1]
    assert (verdict.outcome, verdict.passed) == ((Outcome.ERROR, False) if stop else (Outcome.PASSED, True))
    assert verdict.reason.startswith(reason)


@pytest.mark.parametrize("judge", sorted(OF_CALLS))
def test_what_was_called_before_an_answer_that_was_cut_off_is_judged_as_it_is(judge: str) -> None:
    case = make_case(asks("?"), FOUND, says(PART, **CUT), **OF_CALLS[judge])
    contract, verdict = judge_case(load_judges([judge]), case, case.recorded)
    assert (contract.outcome, verdict.outcome) == (Outcome.ERROR, Outcome.PASSED)


@pytest.mark.parametrize(
    ("events", "expected", "outcome"),
    [
        ([says(PART, **CUT)], {"regex_patterns": ["sorry"]}, Outcome.FAILED),
        ([says(PART, **CUT), says(PART)], OF_ANSWERS["regex"], Outcome.PASSED),
        ([says(PART, **CUT), FOUND], OF_ANSWERS["regex"], Outcome.ERROR),
    ],
    ids=["what is missing fails", "answered again", "answered no more"],
)
def test_only_a_last_answer_that_would_pass_is_an_error(
    events: list[Any], expected: dict[str, Any], outcome: Outcome
) -> None:
    case = make_case(asks("?"), *events, **expected)
    assert judge_case(load_judges(["regex"]), case, case.recorded)[-1].outcome is outcome


def test_an_answer_in_the_middle_of_a_conversation_is_compared_whole_or_not_at_all() -> None:
    turns = [{"input": "one", "expected_output": PART}, {"input": "two", "expected_output": PART}]
    case = make_case(asks("one"), says(PART, **CUT), asks("two"), says(PART), turns=turns)
    verdict = judge_case(load_judges(["final_output"]), case, case.recorded)[-1]
    assert verdict.outcome is Outcome.ERROR
    assert (
        'turn 1: there is no whole output to compare: the answer was cut off for "length"' in verdict.reason
    )
