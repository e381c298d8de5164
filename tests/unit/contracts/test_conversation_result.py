"""Scores of conversations, by the rules of the format's specification."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts.conversation_result import (
    ConversationResult,
    EvaluationResult,
    SuiteResult,
    score_of,
    with_scores,
)


def evaluation(outcome: Any = "passed", weight: float = 1, **more: Any) -> EvaluationResult:
    return EvaluationResult(criterion="c", outcome=outcome, reason="r", weight=weight, **more)


def conversation(name: str, *evaluations: EvaluationResult, **more: Any) -> ConversationResult:
    passed = all(each.passed for each in evaluations)
    outcome = "passed" if passed else "failed"
    known = {"passed": passed, "outcome": outcome, "score": score_of(evaluations), **more}
    return ConversationResult(name=name, evaluations=list(evaluations), **known)


def scored(*tests: ConversationResult) -> SuiteResult:
    return with_scores(SuiteResult(suite="S", run_id="r", started_at="now", tests=list(tests)))


@pytest.mark.parametrize(
    ("evaluations", "score"),
    [
        ([evaluation(weight=2), evaluation("failed", weight=1)], 200 / 3),
        ([evaluation(weight=0.5), evaluation("failed", weight=1.5)], 25.0),
        ([evaluation("failed", weight=0), evaluation()], 100.0),
        ([evaluation(), evaluation("inconclusive"), evaluation("error"), evaluation("failed")], 25.0),
        ([evaluation(), evaluation("failed", advisory=True)], 100.0),
        ([evaluation(weight=0)], None),
        ([], None),
    ],
)
def test_a_test_scores_its_weighted_share_of_passed_evaluations(
    evaluations: list[EvaluationResult], score: float | None
) -> None:
    assert score_of(evaluations) == (None if score is None else pytest.approx(score))


def test_the_suite_scores_the_mean_of_its_tests_whatever_their_weights() -> None:
    result = scored(
        conversation("a", evaluation(weight=10)),
        conversation("b", evaluation("failed", weight=1)),
        conversation("c", evaluation(weight=3), evaluation("failed", weight=1)),
    )
    assert result.score == pytest.approx((100 + 0 + 75) / 3)


def test_a_test_that_ends_in_an_error_is_out_of_the_score_and_in_the_pass_rate() -> None:
    result = scored(
        conversation("fine", evaluation()),
        conversation("error", evaluation("failed"), is_error=True),
        conversation("wanted error", evaluation(strict="escalated_due_to_error"), is_error=True),
    )
    assert (result.score, result.error_tests) == (100.0, 2)
    assert result.pass_rate == pytest.approx(2 / 3)
    assert result.passed_tests == 2


def test_a_test_that_could_not_be_evaluated_is_counted_apart() -> None:
    down = conversation("down", passed=False, outcome="error", score=None)
    result = scored(down, conversation("fine", evaluation()))
    assert (result.score, result.not_evaluated, result.pass_rate) == (100.0, 1, 0.5)
    assert scored(down).score is None


def test_loops_are_conversations_of_their_own() -> None:
    result = scored(conversation("a", evaluation(), loop=1), conversation("a", evaluation("failed"), loop=2))
    assert (result.score, result.pass_rate) == (50.0, 0.5)


def test_breakdowns_are_by_category_logic_and_tag() -> None:
    result = scored(
        conversation("a", evaluation(weight=3, category="tone", aui_logic=["R1", "R2", "R1"]),
                     evaluation("failed", category="safety", aui_logic=["R1"]), tags=["x", "x", "y"]),
        conversation("b", evaluation("failed", category="tone"), evaluation(), tags=["y"]),
        conversation("c", evaluation(category="tone"), is_error=True, tags=["y"]),
        conversation("d", evaluation("failed", category="advised", advisory=True), score=None),
    )  # fmt: skip

    def rows(groups: Any) -> list[tuple[str, int, int, float]]:
        return [(group.name, group.passed, group.total, group.score) for group in groups]

    assert rows(result.by_category) == [("safety", 0, 1, 0.0), ("tone", 2, 3, 80.0)]
    assert rows(result.by_aui_logic) == [("R1", 1, 2, 75.0), ("R2", 1, 1, 100.0)]
    assert rows(result.by_tag) == [("x", 0, 1, 75.0), ("y", 1, 3, 62.5)]
