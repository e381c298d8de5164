"""Whether the agent made the tool calls the case expects."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from pydantic import Field

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    clipped,
    listed,
    named,
    read_expectation,
)
from agent_eval.judges.matching.tool_calls import (
    CallMatch,
    CallRules,
    ExpectedTrajectory,
    MadeCall,
    Mode,
    Problem,
    made_calls,
)
from agent_eval.text.numbers import count

FIELD = "trajectory_match"
"""Where a case says what it expects: this member of its metadata."""


class TrajectoryMatchConfig(JudgeConfig):
    """What holds for cases that do not say it themselves."""

    mode: Mode = "any_order"
    """
    `exact`: these calls in this order and no others. `in_order`: these in this order, others between.
    `any_order`: these in any order and no others. `superset`: these in any order, and others.
    `subset`: no others, but not necessarily all of these.
    """
    match: Literal["exact", "partial"] = "exact"
    """Whether arguments have to be all there are, or may have more members, at every level."""
    tolerance: float = Field(default=0.0, ge=0)
    """By how much numbers in arguments may differ, absolutely."""
    ignore_failed_calls: bool = False
    """Leave out calls whose result carries an error."""


class TrajectoryMatchJudge(BaseJudge[TrajectoryMatchConfig]):
    """Compares the tool calls of the trace with those in the case's `metadata.trajectory_match`.

    Each expected call uses up one actual call, by optimal assignment. A call whose arguments are no object
    matches nothing. The score is the harmonic mean of precision and recall (recall alone where other
    calls are allowed, precision alone for `subset`), 0 when a forbidden call or a wrong count occurs.
    """

    judge_id = "trajectory_match"
    Config = TrajectoryMatchConfig

    def check_case(self, case: Case) -> None:
        """Refuse an expectation that is malformed."""
        read_expectation(case, FIELD, ExpectedTrajectory)

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        wanted = read_expectation(case, FIELD, ExpectedTrajectory)
        if wanted is None or (wanted.calls is None and not wanted.forbidden and not wanted.counts):
            return self.skipped(case, f"the case's metadata expects no tool calls in {FIELD}")
        made = made_calls(trace, ignore_failed=self.config.ignore_failed_calls)
        rules = CallRules(wanted, self.config.match, self.config.tolerance)
        rule_breaks = [*_forbidden(wanted, made, rules), *_miscounted(wanted, made)]
        if wanted.calls is None:
            return self._verdict_on(case, made, rule_breaks, None)
        match = CallMatch.of(rules, wanted.mode or self.config.mode, wanted.calls, made)
        return self._verdict_on(case, made, rule_breaks, match)

    def _verdict_on(
        self, case: Case, made: list[MadeCall], rule_breaks: list[Problem], match: CallMatch | None
    ) -> Verdict:
        problems = rule_breaks + (match.problems() if match else [])
        figures = match.summary() if match else count(len(made), "tool call")
        evidence = {
            **(match.figures() if match else {"actual_calls": len(made)}),
            "problem_count": len(problems),
            "problems": [text for text, _ in problems[:EVIDENCE_LIMIT]],
        }
        if not problems:
            return self.passed(case, f"the tool calls are as expected ({figures})", evidence=evidence)
        malformed = [call.problem for call in made if call.problem is not None]
        return self.failed(
            case,
            f"{listed((clipped(text, 120) for text, _ in problems), limit=2)} ({figures})",
            malformed[0].failure if malformed else FailureKind.CONTRACT_VIOLATION,
            score=match.score if match and not rule_breaks else 0.0,
            refs=[idx for _, idx in problems if idx is not None],
            evidence=evidence,
        )


def _forbidden(wanted: ExpectedTrajectory, made: list[MadeCall], rules: CallRules) -> list[Problem]:
    in_part = CallRules(wanted.model_copy(update={"match": None}), "partial", rules.tolerance)
    return [
        (f"{named(call.tool)} must not be called like that (event {actual.idx})", actual.idx)
        for call in wanted.forbidden
        for actual in made
        # Malformed arguments are no excuse where any arguments are forbidden.
        if in_part.fits(call, actual)
        or (actual.arguments is None and actual.tool == call.tool and not call.arguments)
    ]


def _miscounted(wanted: ExpectedTrajectory, made: list[MadeCall]) -> list[Problem]:
    counts = Counter(call.tool for call in made)
    problems: list[Problem] = []
    for tool, allowed in sorted(wanted.counts.items()):
        words = f"{named(tool)} was called {count(counts[tool], 'time')}, expected"
        if counts[tool] < allowed.min:
            problems.append((f"{words} at least {allowed.min}", None))
        elif allowed.max is not None and counts[tool] > allowed.max:
            problems.append((f"{words} at most {allowed.max}", None))
    return problems
