"""The `trajectory_match` judge: compare the agent's tool calls with those that the case expects.

`CallRules` compares one expected call with one actual call, and `match_calls` pairs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from statistics import fmean
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    StrictModel,
    VisibleText,
    clipped,
    display_name,
    listed,
)
from agent_eval.judges.matching.re2 import Globs, compile_glob, compile_pattern, refuse_unusable
from agent_eval.judges.matching.values import Fits, Rules, differences, pair_in_any_order
from agent_eval.judges.reading import MalformedArguments, read_arguments, read_expectation, read_model
from agent_eval.text.numbers import count

FIELD = "trajectory_match"
"""Member of a case's metadata that holds its expectation, an `ExpectedTrajectory`."""

Mode = Literal["exact", "in_order", "any_order", "subset", "superset"]

MAX_EXPECTED_CALLS = 500
"""Maximum number of calls that one case may expect."""

Problem = tuple[str, int | None]
"""One sentence, and the index of the event that shows the problem."""


class ArgumentRules(StrictModel):
    """How a suite wants arguments compared, for a case or for one call; see `Rules`."""

    match: Literal["exact", "partial"] | None = None
    """`partial` allows more members than expected, at every level; null uses the judge's configuration."""
    tolerance: float | None = Field(default=None, ge=0)
    """Largest absolute difference between numbers that count as equal."""
    ignore: Globs = Field(default_factory=list)
    """Globs of places that are not compared: `request_id`, `*.created_at`, `items.*.id`."""
    unordered: Globs = Field(default_factory=list)
    """Globs of places whose lists may have their items in any order: `tags`, `*.items`."""
    patterns: dict[str, str] = Field(default_factory=dict)
    """RE2 patterns by place, instead of equality."""

    @field_validator("patterns")
    @classmethod
    def _usable_patterns(cls, patterns: dict[str, str]) -> dict[str, str]:
        for glob, pattern in patterns.items():
            refuse_unusable(compile_glob, glob)
            refuse_unusable(compile_pattern, pattern)
        return patterns


class ExpectedCall(ArgumentRules):
    """One call that a case expects. Without `arguments` any arguments match; `{}` matches none."""

    tool: VisibleText
    arguments: dict[str, Any] | None = None


class Count(StrictModel):
    """How often a tool may be called, both ends included."""

    min: int = Field(default=0, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is less than min {self.min}")
        return self


class ExpectedTrajectory(ArgumentRules):
    """All that a case expects of its tool calls.

    `calls: []` expects no calls; `calls: null` expects nothing about them.
    """

    mode: Mode | None = None
    """null uses the judge's configuration."""
    calls: list[ExpectedCall] | None = Field(default=None, max_length=MAX_EXPECTED_CALLS)
    forbidden: list[ExpectedCall] = Field(default_factory=list, max_length=MAX_EXPECTED_CALLS)
    """Calls that must not happen; their arguments match partially unless they set `match`."""
    counts: dict[str, Count] = Field(default_factory=dict)
    """Number of calls by tool; a whole number is both minimum and maximum."""

    @field_validator("counts", mode="before")
    @classmethod
    def _exact_counts(cls, counts: Any) -> Any:
        if not isinstance(counts, dict):
            return counts
        return {
            tool: {"min": count, "max": count} if type(count) is int else count
            for tool, count in counts.items()
        }


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
        read = partial(actual_calls, named=named)
        actual = read(trace)
        rules = CallRules(expected, self.config.match, self.config.tolerance)
        broken_rules = _broken_rules(expected, trace, actual, rules)
        match = partial(match_calls, rules, expected.mode or self.config.mode)
        whole = [] if expected.calls is None else [match(expected.calls, actual)]
        turns = {turn.number: read(turn.trace) for turn in trace.turns} if by_turn else {}
        of_turns = [match(calls, turns.get(number), number) for number, calls in by_turn.items()]
        matches = whole + of_turns
        problems = broken_rules + [problem for each in matches for problem in each.problems]
        rows = [{"turn": each.turn, **each.figures} for each in of_turns[:EVIDENCE_LIMIT]]
        evidence = {
            **(whole[0].figures if whole else {"actual_calls": len(actual)}),
            **({"turns": rows} if rows else {}),
            "problem_count": len(problems),
            "problems": [text for text, _ in problems[:EVIDENCE_LIMIT]],
        }
        figures = count(len(actual), "tool call")
        if of_turns:
            right = sum(not each.problems for each in of_turns)
            figures = f"{right} of {count(len(of_turns), 'turn')} as expected, {of_turns[0].mode}"
        elif whole:
            figures = f"precision {whole[0].precision:.2f}, recall {whole[0].recall:.2f}, {whole[0].mode}"
        if not problems:
            return self.passed(case, f"the tool calls are as expected ({figures})", evidence=evidence)
        words = f"{listed((clipped(text, 120) for text, _ in problems), limit=2)} ({figures})"
        forbidden = {call.tool for call in expected.forbidden if not call.arguments}
        unrecorded = {
            call.idx for call in actual if call.problem is UNRECORDED and call.tool not in forbidden
        }
        if unrecorded and all(idx in unrecorded for _, idx in problems):
            return self.inconclusive(case, words, refs=unrecorded, evidence=evidence)
        malformed = [call.problem for call in actual if call.problem is not None]
        return self.failed(
            case,
            words,
            malformed[0].failure if malformed else FailureKind.CONTRACT_VIOLATION,
            score=fmean(each.score for each in matches) if matches and not broken_rules else 0.0,
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


def _broken_rules(
    expected: ExpectedTrajectory, trace: Trace, actual: list[ActualCall], rules: CallRules
) -> list[Problem]:
    """Describe forbidden uses of tools and wrong counts.

    Forbidden are calls, also those that failed, and results whose call is missing.
    """
    uses = actual_calls(trace)
    uses += [
        ActualCall(pair.tool, pair.result.idx, None, UNRECORDED)
        for pair in trace.calls
        if pair.call is None and pair.result is not None
    ]
    partial_rules = CallRules(expected.model_copy(update={"match": None}), "partial", rules.tolerance)
    by_event: dict[int, Problem] = {}
    for forbidden in expected.forbidden:
        for call in uses:
            whatever_arguments = not forbidden.arguments and call.tool == forbidden.tool
            if partial_rules.fits(forbidden, call) or (whatever_arguments and call.arguments is None):
                words = f"{display_name(call.tool)} must not be called like that (event {call.idx})"
                by_event[call.idx] = words, call.idx
            elif call.tool == forbidden.tool and call.problem is not None:
                # The tool may have understood what cannot be read here.
                words = f"{display_name(call.tool)} may have been called as it must not be (event {call.idx})"
                words += f", with arguments {call.problem}"
                by_event.setdefault(call.idx, (words, call.idx))
    problems = list(by_event.values())
    counts = Counter(call.tool for call in actual)
    for tool, allowed in sorted(expected.counts.items()):
        words = f"{display_name(tool)} was called {count(counts[tool], 'time')}, expected"
        if counts[tool] < allowed.min:
            problems.append((f"{words} at least {allowed.min}", None))
        elif allowed.max is not None and counts[tool] > allowed.max:
            problems.append((f"{words} at most {allowed.max}", None))
    return problems


@dataclass(frozen=True, slots=True)
class ActualCall:
    """A call that the agent made. `arguments` is None if they are malformed; `problem` then says how."""

    tool: str
    idx: int
    arguments: dict[str, Any] | None
    problem: MalformedArguments | None = None


UNRECORDED = MalformedArguments("that are not recorded", FailureKind.MISSING_OUTPUT)
"""Problem of arguments that the trace does not have; nothing is wrong with them."""


def actual_calls(trace: Trace, *, named: Container[str] | None = None) -> list[ActualCall]:
    """Return the calls of a trace in order.

    `named` are tools that a case names: calls of the `final_output_tool` are left out if it is not among
    them; None leaves out none.
    """
    calls = []
    for pair in trace.calls:
        is_answer = named is not None and pair.tool == trace.final_output_tool and pair.tool not in named
        if pair.call is None or is_answer:
            continue
        arguments, problem = None, None
        if pair.call.content_recorded is False and pair.arguments is None:
            problem = UNRECORDED
        else:
            try:
                arguments = read_arguments(pair.arguments)
            except MalformedArguments as malformed:
                problem = malformed
        calls.append(ActualCall(pair.tool, pair.call.idx, arguments, problem))
    return calls


@dataclass(frozen=True, slots=True)
class CallRules:
    """Compares one expected call with one actual call, by the rules of the call, its case and the judge."""

    case: ArgumentRules
    match: str
    tolerance: float

    def fits(self, expected: ExpectedCall, actual: ActualCall) -> bool:
        """Whether an actual call is the expected one. Malformed arguments fit nothing."""
        any_arguments = expected.arguments is None and not expected.patterns
        return (
            expected.tool == actual.tool
            and (actual.arguments is not None or (actual.problem is UNRECORDED and any_arguments))
            and not self.mismatches(expected, actual)
        )

    def mismatches(self, expected: ExpectedCall, actual: ActualCall) -> list[str]:
        """Describe up to three ways in which the arguments differ from the expected ones.

        The rules of the call win over its case's, and those over the judge's; lists add up.
        """
        case = self.case
        tolerances = (expected.tolerance, case.tolerance, self.tolerance)
        rules = Rules(
            partial=(expected.match or case.match or self.match) == "partial",
            tolerance=next(value for value in tolerances if value is not None),
            ignore=(*case.ignore, *expected.ignore),
            unordered=(*case.unordered, *expected.unordered),
            patterns={**case.patterns, **expected.patterns},
        )
        if expected.arguments is None:
            if not rules.patterns:
                return []
            rules = replace(rules, partial=True)
        return list(islice(differences(expected.arguments or {}, actual.arguments or {}, rules), 3))


@dataclass(frozen=True, slots=True)
class CallMatch:
    """How expected calls match the actual ones, of a turn of the conversation or (None) of the whole trace.

    `precision` is the share of the actual calls that were expected, 1 without any; `recall` that of the
    expected calls that were made.
    """

    turn: int | None
    mode: str
    precision: float
    recall: float
    score: float
    figures: dict[str, Any]
    problems: list[Problem]


def match_calls(
    rules: CallRules,
    mode: str,
    expected: Sequence[ExpectedCall],
    actual: Sequence[ActualCall] | None,
    turn: int | None = None,
) -> CallMatch:
    """Pair as many calls as the mode allows; `actual` is None for a turn that the conversation did not reach.

    The score is recall if other calls are allowed, precision for `subset`, else the harmonic mean of both.
    """
    calls = actual or ()
    find_pairs = {"exact": pair_in_place, "in_order": pair_in_order}.get(mode, pair_in_any_order)
    pairs = find_pairs(len(expected), len(calls), lambda i, j: rules.fits(expected[i], calls[j]))
    precision = len(pairs) / len(calls) if calls else 1.0
    recall = len(pairs) / len(expected) if expected else 1.0
    mean = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    score = recall if mode in _ALLOWS_OTHERS else precision if mode == "subset" else mean
    figures = {
        "mode": mode,
        "expected_calls": len(expected),
        "actual_calls": len(calls),
        "matched_calls": len(pairs),
        "precision": round(precision, 4),
        "recall": round(recall, 4),
    }
    where = "" if turn is None else f"turn {turn}: "
    if actual is None:
        problems: list[Problem] = [(f"{where}the conversation ended before it", None)]
        return CallMatch(turn, mode, precision, recall, 0.0, figures, problems)
    missing = [call for position, call in enumerate(expected) if position not in pairs]
    paired = set(pairs.values())
    others = [call for position, call in enumerate(calls) if position not in paired]
    problems = [(f"{where}{words}", idx) for words, idx in _mismatched(rules, mode, missing, others)]
    return CallMatch(turn, mode, precision, recall, score, figures, problems)


_ALLOWS_OTHERS = ("in_order", "superset")
"""Modes in which calls beside the expected ones are allowed."""


def _mismatched(
    rules: CallRules, mode: str, missing: Sequence[ExpectedCall], others: list[ActualCall]
) -> Iterator[Problem]:
    """Describe every call that did not match: for a call of the right tool, what is wrong with it."""
    for expected in missing:
        near = next((call for call in others if call.tool == expected.tool), None)
        if near is None:
            if mode != "subset":
                yield f"{display_name(expected.tool)} was not called as expected", None
            continue
        others.remove(near)
        how = "out of order"
        if near.problem is not None:
            how = f"with arguments {near.problem}"
        elif mismatches := rules.mismatches(expected, near):
            how = f"with other arguments: {listed(mismatches)}"
        yield f"{display_name(near.tool)} was called {how} (event {near.idx})", near.idx
    for call in () if mode in _ALLOWS_OTHERS else others:
        yield f"{display_name(call.tool)} was called unexpectedly (event {call.idx})", call.idx


def pair_in_order(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """Find a largest set of pairs that keeps the order of both sides, as {expected: actual}.

    The longest common subsequence with `fits` for equality, by dynamic programming.
    """
    fit = [[fits(i, j) for j in range(actual)] for i in range(expected)]
    best = [[0] * (actual + 1) for _ in range(expected + 1)]
    for i in range(expected - 1, -1, -1):
        for j in range(actual - 1, -1, -1):
            with_pair = best[i + 1][j + 1] + 1 if fit[i][j] else 0
            best[i][j] = max(with_pair, best[i + 1][j], best[i][j + 1])
    pairs: dict[int, int] = {}
    i = j = 0
    while i < expected and j < actual:
        if fit[i][j] and best[i][j] == best[i + 1][j + 1] + 1:
            pairs[i] = j
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def pair_in_place(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """Return the pairs at the same position on both sides, as {expected: actual}."""
    return {i: i for i in range(min(expected, actual)) if fits(i, i)}
