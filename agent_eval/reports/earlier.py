"""What decisions of earlier versions say, in fields that decisions no longer have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.contracts import GateDecision, GateStatus
from agent_eval.contracts.gate import CaseAnswer, JudgedCase
from agent_eval.contracts.reruns import TrialCounts

_ANSWERS: dict[str, CaseAnswer] = {
    "confirmed": "broke",
    "inconclusive": "open",
    "cleared": "passes-again",
    "not-yours": "fails-on-main",
}
"""What they called the answers, in their field `confirmed`."""


def cases_of_earlier_version(decision: GateDecision) -> list[JudgedCase]:
    """Read the cases that an earlier version ran again; empty where it ran none."""
    rows = (decision.model_extra or {}).get("confirmed")
    return [
        JudgedCase(
            case_id=row["case_id"],
            answer=_ANSWERS[row["verdict"]],
            on_main=_counts(row, "history_passed", "history_scored"),
            first=TrialCounts(passed=0, trials=0),
            base=_counts(row, "base_passed", "base_trials"),
            change=_counts(row, "candidate_passed", "candidate_trials"),
            reason=row["reason"] if isinstance(row.get("reason"), str) else "",
        )
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("case_id"), str) and row.get("verdict") in _ANSWERS
    ]


def set_aside_by_earlier_version(decision: GateDecision) -> set[str]:
    """Ids of regressed cases that the policy of an earlier version did not count."""
    extra = decision.model_extra or {}
    listed = [extra.get("tracked_case_ids"), extra.get("expected_fail_case_ids")]
    return {
        case_id
        for ids in listed
        for case_id in (ids if isinstance(ids, list) else ())
        if isinstance(case_id, str)
    }


def sentence_of_earlier_version(decision: GateDecision) -> str:
    """Say how a decision ended that has no sentence of its own."""
    lines = (decision.model_extra or {}).get("explanation")
    if isinstance(lines, list) and lines and isinstance(lines[0], str):
        return lines[0]
    if decision.failures:
        return decision.failures[0]
    words = {
        GateStatus.PASSED: "Passed.",
        GateStatus.NO_BASELINE: "There is no baseline to compare with.",
    }
    return words.get(decision.gate_status, "The gate gave no reason.")


def _counts(row: Mapping[str, Any], passed: str, trials: str) -> TrialCounts:
    numbers = row.get(passed), row.get(trials)
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        return TrialCounts(passed=0, trials=0)
    return TrialCounts(passed=numbers[0], trials=numbers[1])
