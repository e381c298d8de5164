"""The `trajectory_match` judge: compare the agent's tool calls with those that the case expects."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    clipped,
    display_name,
    listed,
    read_expectation,
)
from agent_eval.judges.matching.tool_calls import (
    ActualCall,
    CallMatch,
    CallRules,
    ExpectedTrajectory,
    Mode,
    Problem,
    actual_calls,
    all_uses,
)
from agent_eval.text.numbers import count

FIELD = "trajectory_match"
"""Member of a case's metadata that holds its expectation, an `ExpectedTrajectory`."""


class TrajectoryMatchConfig(JudgeConfig):
    """Defaults for cases whose metadata does not set these keys."""

    mode: Mode = "any_order"
    """
    `exact`: these calls in this order and no others. `in_order`: these in this order, others between.
    `any_order`: these in any order and no others. `superset`: these in any order, and others.
    `subset`: no others, but not necessarily all of these.
    """
    match: Literal["exact", "partial"] = "exact"
    """`partial` lets actual arguments have more members than expected, at every level."""
    tolerance: float = Field(default=0.0, ge=0)
    """Largest absolute difference between numbers in arguments that count as equal."""
    ignore_failed_calls: bool = False
    """Whether to leave out calls whose result carries an error."""


class TrajectoryMatchJudge(BaseJudge[TrajectoryMatchConfig]):
    """Compares the tool calls of the trace with those in the case's `metadata.trajectory_match`.

    Each expected call matches at most one actual call; the assignment is the best possible. A call whose
    arguments are not an object matches nothing. The score is the harmonic mean of precision and recall
    (recall alone if other calls are allowed, precision alone for `subset`), and 0 on a forbidden call or
    a wrong count.

    Example:
        >>> from agent_eval.contracts import Case, Event, Trace
        >>> expected = {"calls": [{"tool": "refund", "arguments": {"amount": 5}}]}
        >>> case = Case(case_id="refund", metadata={"trajectory_match": expected})
        >>> call = Event(idx=0, actor="agent", type="tool_call", tool="refund", input={"amount": 6})
        >>> print(TrajectoryMatchJudge().evaluate(case, Trace([call])).reason.split(" (event")[0])
        refund was called with other arguments: amount is 6 instead of 5
    """

    judge_id = "trajectory_match"
    reads = frozenset({"metadata.trajectory_match"})
    Config = TrajectoryMatchConfig

    @override
    def check_case(self, case: Case) -> None:
        read_expectation(case, FIELD, ExpectedTrajectory)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        expected = read_expectation(case, FIELD, ExpectedTrajectory)
        if expected is None or (expected.calls is None and not expected.forbidden and not expected.counts):
            return self.skipped(case, f"the case's metadata expects no tool calls in {FIELD}")
        if nothing_done := self.nothing_done(case, trace):
            return nothing_done
        actual = actual_calls(trace, ignore_failed=self.config.ignore_failed_calls)
        rules = CallRules(expected, self.config.match, self.config.tolerance)
        rule_breaks = [*_forbidden(expected, all_uses(trace), rules), *_miscounted(expected, actual)]
        if expected.calls is None:
            return self._verdict_on(case, actual, rule_breaks, None)
        match = CallMatch.find(rules, expected.mode or self.config.mode, expected.calls, actual)
        return self._verdict_on(case, actual, rule_breaks, match)

    def _verdict_on(
        self, case: Case, actual: list[ActualCall], rule_breaks: list[Problem], match: CallMatch | None
    ) -> Verdict:
        problems = rule_breaks + (match.problems() if match else [])
        figures = match.summary() if match else count(len(actual), "tool call")
        evidence = {
            **(match.figures() if match else {"actual_calls": len(actual)}),
            "problem_count": len(problems),
            "problems": [text for text, _ in problems[:EVIDENCE_LIMIT]],
        }
        if not problems:
            return self.passed(case, f"the tool calls are as expected ({figures})", evidence=evidence)
        malformed = [call.problem for call in actual if call.problem is not None]
        return self.failed(
            case,
            f"{listed((clipped(text, 120) for text, _ in problems), limit=2)} ({figures})",
            malformed[0].failure if malformed else FailureKind.CONTRACT_VIOLATION,
            score=match.score if match and not rule_breaks else 0.0,
            refs=[idx for _, idx in problems if idx is not None],
            evidence=evidence,
        )


def _forbidden(expected: ExpectedTrajectory, actual: list[ActualCall], rules: CallRules) -> list[Problem]:
    partial_rules = CallRules(expected.model_copy(update={"match": None}), "partial", rules.tolerance)
    problems: dict[int, Problem] = {}
    for forbidden in expected.forbidden:
        for call in actual:
            whatever_arguments = not forbidden.arguments and call.tool == forbidden.tool
            if partial_rules.fits(forbidden, call) or (whatever_arguments and call.arguments is None):
                words = f"{display_name(call.tool)} must not be called like that (event {call.idx})"
                problems[call.idx] = words, call.idx
            elif call.tool == forbidden.tool and call.problem is not None:
                # The tool may have understood what cannot be read here.
                words = f"{display_name(call.tool)} may have been called as it must not be (event {call.idx})"
                words += f", with arguments {call.problem}"
                problems.setdefault(call.idx, (words, call.idx))
    return list(problems.values())


def _miscounted(expected: ExpectedTrajectory, actual: list[ActualCall]) -> list[Problem]:
    counts = Counter(call.tool for call in actual)
    problems: list[Problem] = []
    for tool, allowed in sorted(expected.counts.items()):
        words = f"{display_name(tool)} was called {count(counts[tool], 'time')}, expected"
        if counts[tool] < allowed.min:
            problems.append((f"{words} at least {allowed.min}", None))
        elif allowed.max is not None and counts[tool] > allowed.max:
            problems.append((f"{words} at most {allowed.max}", None))
    return problems
