"""The `trajectory_match` judge: compare the agent's tool calls with those that the case expects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, Literal

from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, JudgeConfig, clipped, display_name, listed
from agent_eval.judges.matching.tool_calls import (
    UNRECORDED,
    ActualCall,
    CallMatch,
    CallRules,
    ExpectedCall,
    ExpectedTrajectory,
    Mode,
    Problem,
    actual_calls,
    all_uses,
)
from agent_eval.judges.reading import read_expectation, read_model
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

    The calls of each turn are compared with the turn's `expected_tool_calls`, by the same mode and rules. A
    call of the case's `final_output_tool` is the agent's answer, and counts only where it is expected.

    Each expected call matches at most one actual call; the assignment is the best possible. A call whose
    arguments are not an object matches nothing. The score is the harmonic mean of precision and recall
    (recall alone if other calls are allowed, precision alone for `subset`), and 0 on a forbidden call or
    a wrong count.
    """

    judge_id = "trajectory_match"
    reads = frozenset({"metadata.trajectory_match", "turns.expected_tool_calls"})
    Config = TrajectoryMatchConfig

    @override
    def check_case(self, case: Case) -> None:
        read_expectation(case, FIELD, ExpectedTrajectory)
        _calls_by_turn(case)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        expected = read_expectation(case, FIELD, ExpectedTrajectory) or ExpectedTrajectory()
        by_turn = _calls_by_turn(case)
        if not (expected.calls is not None or expected.forbidden or expected.counts or by_turn):
            return self.skipped(case, f"the case's metadata expects no tool calls in {FIELD}")
        if nothing_done := self.nothing_done(case, trace):
            return nothing_done
        named = {call.tool for calls in [expected.calls or [], *by_turn.values()] for call in calls}
        read = partial(actual_calls, ignore_failed=self.config.ignore_failed_calls, named=named)
        actual = read(trace)
        rules = CallRules(expected, self.config.match, self.config.tolerance)
        rule_breaks = [*_forbidden(expected, all_uses(trace), rules), *_miscounted(expected, actual)]
        mode = expected.mode or self.config.mode
        matches = []
        if expected.calls is not None:
            matches.append(TurnMatch(None, CallMatch.find(rules, mode, expected.calls, actual)))
        turns = {turn.number: turn.trace for turn in trace.turns} if by_turn else {}
        for number, calls in by_turn.items():
            of_turn = read(turns[number]) if number in turns else []
            match = CallMatch.find(rules, mode, calls, of_turn)
            matches.append(TurnMatch(number, match, happened=number in turns))
        forbidden = {call.tool for call in expected.forbidden if not call.arguments}
        unrecorded = {
            call.idx for call in actual if call.problem is UNRECORDED and call.tool not in forbidden
        }
        return self._verdict_on(case, actual, rule_breaks, matches, unrecorded)

    def _verdict_on(
        self,
        case: Case,
        actual: list[ActualCall],
        rule_breaks: list[Problem],
        matches: list[TurnMatch],
        unrecorded: set[int],
    ) -> Verdict:
        problems = rule_breaks + [problem for match in matches for problem in match.problems()]
        figures = _summary(actual, matches)
        evidence = {
            **_figures(actual, matches),
            "problem_count": len(problems),
            "problems": [text for text, _ in problems[:EVIDENCE_LIMIT]],
        }
        if not problems:
            return self.passed(case, f"the tool calls are as expected ({figures})", evidence=evidence)
        if unrecorded and all(idx in unrecorded for _, idx in problems):
            words = f"{listed((clipped(text, 120) for text, _ in problems), limit=2)} ({figures})"
            return self.inconclusive(case, words, refs=unrecorded, evidence=evidence)
        malformed = [call.problem for call in actual if call.problem is not None]
        return self.failed(
            case,
            f"{listed((clipped(text, 120) for text, _ in problems), limit=2)} ({figures})",
            malformed[0].failure if malformed else FailureKind.CONTRACT_VIOLATION,
            score=fmean(match.score for match in matches) if matches and not rule_breaks else 0.0,
            refs=[idx for _, idx in problems if idx is not None],
            evidence=evidence,
        )


def _calls_by_turn(case: Case) -> dict[int, list[ExpectedCall]]:
    """Return the calls that the case expects in its turns, by the turn's number from 1."""
    return {
        number: [
            read_model(
                ExpectedCall,
                call.model_dump(exclude_unset=True),
                case=case,
                field=f"turns[{number - 1}].expected_tool_calls[{position}]",
            )
            for position, call in enumerate(turn.expected_tool_calls)
        ]
        for number, turn in enumerate(case.turns, 1)
        if turn.expected_tool_calls is not None
    }


@dataclass(frozen=True, slots=True)
class TurnMatch:
    """How the calls of a turn match those expected of it; `turn` is None for the calls of a whole trace."""

    turn: int | None
    match: CallMatch
    happened: bool = True

    @property
    def score(self) -> float:
        """The score of the match; 0 for a turn that the conversation did not reach."""
        return self.match.score if self.happened else 0.0

    def problems(self) -> list[Problem]:
        """Describe what did not match, with the number of the turn."""
        if self.turn is None:
            return self.match.problems()
        if not self.happened:
            return [(f"turn {self.turn}: the conversation ended before it", None)]
        return [(f"turn {self.turn}: {words}", idx) for words, idx in self.match.problems()]


def _summary(actual: list[ActualCall], matches: list[TurnMatch]) -> str:
    """Return the figures of the match in words: of the whole trace, or how many turns are as expected."""
    if not matches:
        return count(len(actual), "tool call")
    if len(matches) == 1 and matches[0].turn is None:
        return matches[0].match.summary()
    of_turns = [match for match in matches if match.turn is not None]
    right = sum(not match.problems() for match in of_turns)
    return f"{right} of {count(len(of_turns), 'turn')} as expected, {of_turns[0].match.mode}"


def _figures(actual: list[ActualCall], matches: list[TurnMatch]) -> dict[str, Any]:
    """Return the figures of the match as evidence: of the whole trace, and of each turn."""
    whole = next((match.match.figures() for match in matches if match.turn is None), None)
    turns = [{"turn": match.turn, **match.match.figures()} for match in matches if match.turn is not None]
    figures = whole or {"actual_calls": len(actual)}
    return {**figures, "turns": turns[:EVIDENCE_LIMIT]} if turns else figures


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
