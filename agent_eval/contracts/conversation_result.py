"""Scores of conversations: of each evaluation, each test and the suite, with breakdowns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from pydantic import Field

from agent_eval.contracts.base import SCHEMA_VERSION, Contract

Scored = TypeVar("Scored", "EvaluationResult", "ConversationResult")
EvaluationOutcome = Literal["passed", "failed", "inconclusive", "error"]


class EvaluationResult(Contract):
    """Outcome of one criterion on one conversation.

    `strict` is its kind, null for a criterion that a model judged. `turns` are the turns that decided.
    """

    criterion: str
    strict: str | None = None
    outcome: EvaluationOutcome
    reason: str
    weight: float = 1.0
    category: str | None = None
    aui_logic: list[str] = Field(default_factory=list)
    turns: list[int] = Field(default_factory=list)
    advisory: bool = False

    @property
    def passed(self) -> bool:
        """Whether the criterion is met."""
        return self.outcome == "passed"


class TurnResult(Contract):
    """What the user and the agent said in one turn; `raw` is the agent's response as it came."""

    number: int
    user: str
    agent: str
    simulated: bool = False
    expectation: str | None = None
    workflows: list[str] = Field(default_factory=list)
    raw: list[Any] = Field(default_factory=list)


class ConversationResult(Contract):
    """One conversation of a test: its turns, evaluations and score.

    `loop` counts the conversations of a test from 1. `score` is from 0 to 100, null where nothing was
    evaluated. `is_error` says that the agent answered with an error, which leaves the conversation out of the
    suite's score. `passed` is what a gate counts.
    """

    name: str
    loop: int = 1
    tags: list[str] = Field(default_factory=list)
    passed: bool
    outcome: str
    score: float | None = None
    is_error: bool = False
    end: str | None = None
    problem: str = ""
    turns: list[TurnResult] = Field(default_factory=list)
    evaluations: list[EvaluationResult] = Field(default_factory=list)


class GroupScore(Contract):
    """Evaluations or tests with something in common: how many passed, and their score from 0 to 100."""

    name: str
    passed: int
    total: int
    score: float | None


class SuiteResult(Contract):
    """Result of a suite of conversations.

    `score` is the mean of the conversations' scores, from 0 to 100, without those that ended in an error of
    the agent (`error_tests`) and those that could not be evaluated (`not_evaluated`); null without any.
    `pass_rate`, from 0 to 1, counts them all; a gate decides by it.
    """

    kind: Literal["conversation_results"] = "conversation_results"
    schema_version: str = SCHEMA_VERSION
    suite: str
    run_id: str
    started_at: str
    agent: dict[str, Any] = Field(default_factory=dict)
    judge: dict[str, Any] = Field(default_factory=dict)
    pack: str | None = None
    loops: int = 1
    score: float | None = None
    pass_rate: float | None = None
    passed_tests: int = 0
    error_tests: int = 0
    not_evaluated: int = 0
    by_category: list[GroupScore] = Field(default_factory=list)
    by_aui_logic: list[GroupScore] = Field(default_factory=list)
    by_tag: list[GroupScore] = Field(default_factory=list)
    judging: dict[str, float] = Field(default_factory=dict)
    tests: list[ConversationResult]


def score_of(evaluations: Iterable[EvaluationResult]) -> float | None:
    """Return the weighted share of evaluations that passed, from 0 to 100; None without any weight.

    Advisory ones do not count. One that could not be decided did not pass.
    """
    counted = [each for each in evaluations if not each.advisory]
    total = sum(each.weight for each in counted)
    return sum(each.weight for each in counted if each.passed) / total * 100 if total else None


def with_scores(result: SuiteResult) -> SuiteResult:
    """Complete a result whose conversations are known with all that follows from them."""
    tests = result.tests
    evaluations = [each for test in tests for each in test.evaluations if not each.advisory]
    return result.model_copy(
        update={
            "score": _mean_score(tests),
            "pass_rate": sum(test.passed for test in tests) / len(tests) if tests else None,
            "passed_tests": sum(test.passed for test in tests),
            "error_tests": sum(test.is_error for test in tests),
            "not_evaluated": sum(test.score is None and not test.is_error for test in tests),
            "by_category": _grouped(
                evaluations, lambda each: [each.category] if each.category else [], score_of
            ),
            "by_aui_logic": _grouped(evaluations, lambda each: each.aui_logic, score_of),
            "by_tag": _grouped(tests, lambda test: test.tags, _mean_score),
        }
    )


def _mean_score(tests: Iterable[ConversationResult]) -> float | None:
    scores = [test.score for test in tests if test.score is not None and not test.is_error]
    return sum(scores) / len(scores) if scores else None


def _grouped(
    items: Iterable[Scored],
    names_of: Callable[[Scored], Iterable[str]],
    score: Callable[[list[Scored]], float | None],
) -> list[GroupScore]:
    groups: dict[str, list[Scored]] = {}
    for item in items:
        for name in dict.fromkeys(names_of(item)):
            groups.setdefault(name, []).append(item)
    return [
        GroupScore(name=name, passed=sum(each.passed for each in of), total=len(of), score=score(of))
        for name, of in sorted(groups.items())
    ]
