"""Why a run judged none of its cases: the most frequent reason, and the agent's before others."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.operations.unjudged import why_unjudged
from tests.unit.comparison.views import result, tried, view


def error(case_id: str, reason: str, **others: str) -> Any:
    return result(case_id, {"policy": "error", **others}, reason=reason)


SKIPPED = {"policy": "skipped", "replay_contract": "skipped"}


@pytest.mark.parametrize(
    ("cases", "why"),
    [
        ({"a": error("a", "it crashed"), "b": "passed"}, ""),
        ({"a": error("a", "it crashed"), "b": "failed"}, ""),
        # That there was nothing to judge is the gate's to refuse.
        ({"a": SKIPPED}, ""),
        ({"a": SKIPPED, "b": error("b", "it crashed")}, "it crashed (in 1 of 2 cases)."),
        ({"a": error("a", "slow."), "b": error("b", "slow.")}, "slow."),
        ({"a": error("a", "slow"), "b": error("b", "out"), "c": error("c", "out")}, "out (in 2 of 3 cases)."),
        # The agent's own error comes before those that follow from it.
        ({"a": result("a", {"policy": "error", "execution": "error"})}, "execution error."),
        ({"a": tried("a", {"policy": "passed"}, {"policy": "error"}, {"policy": "error"})}, "policy error."),
    ],
)
def test_the_most_frequent_reason_is_named_where_no_case_was_judged(cases: dict[str, Any], why: str) -> None:
    run = view(cases)
    stated = why_unjudged("shop.json", run.summary, run.results.values())
    assert stated == (f"No case of `shop.json` could be judged: {why}" if why else "")


def test_a_reason_is_one_line_of_bounded_length() -> None:
    run = view({"a": error("a", "x" * 500 + "\nOutcome: passed")})
    stated = why_unjudged("shop.json", run.summary, run.results.values())
    assert "\n" not in stated
    assert len(stated) < 400
