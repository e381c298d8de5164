"""Compare the tool calls that a case expects with those that the agent made.

- `ExpectedTrajectory` is what a case expects, `actual_calls` what a trace has.
- `CallRules` compares one expected call with one actual call.
- `CallMatch` pairs expected with actual calls and describes what did not match. `pair_in_any_order`,
  `pair_in_order` and `pair_in_place` are the ways to pair.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from agent_eval.contracts import Trace
from agent_eval.errors import FailureKind
from agent_eval.judges.base import StrictModel, VisibleText, display_name, listed
from agent_eval.judges.matching.arguments import MalformedArguments, read_arguments
from agent_eval.judges.matching.re2 import Globs, compile_glob, compile_pattern, refuse_unusable
from agent_eval.judges.matching.values import Rules, differences

Mode = Literal["exact", "in_order", "any_order", "subset", "superset"]

OTHERS_ALLOWED = ("in_order", "superset")
"""Modes that allow calls beside the expected ones."""

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
    patterns: dict[str, str] = Field(default_factory=dict)
    """RE2 patterns by place, instead of equality."""
    defaults: dict[str, Any] = Field(default_factory=dict)
    """Arguments that may be left out if they would have this value."""

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


@dataclass(frozen=True, slots=True)
class ActualCall:
    """A call that the agent made. `arguments` is None if they are malformed; `problem` then says how."""

    tool: str
    idx: int
    arguments: dict[str, Any] | None
    problem: MalformedArguments | None = None


UNRECORDED = MalformedArguments("that are not recorded", FailureKind.MISSING_OUTPUT)
"""Problem of arguments that the trace does not have; nothing is wrong with them."""


def actual_calls(
    trace: Trace, *, ignore_failed: bool, named: Container[str] | None = None
) -> list[ActualCall]:
    """Return the calls of a trace in order.

    `ignore_failed` leaves out calls whose result carries an error. `named` are tools that a case names: calls
    of the `final_output_tool` are left out if it is not among them; None leaves out none.
    """
    answers_by = trace.final_output_tool if named is not None else None
    calls = []
    for pair in trace.calls:
        if pair.call is None or (ignore_failed and pair.error is not None):
            continue
        if pair.tool == answers_by and named is not None and pair.tool not in named:
            continue
        if pair.call.content_recorded is False and pair.arguments is None:
            calls.append(ActualCall(pair.tool, pair.call.idx, None, UNRECORDED))
            continue
        try:
            calls.append(ActualCall(pair.tool, pair.call.idx, read_arguments(pair.arguments)))
        except MalformedArguments as problem:
            calls.append(ActualCall(pair.tool, pair.call.idx, None, problem))
    return calls


def all_uses(trace: Trace) -> list[ActualCall]:
    """Return every use of a tool: the calls, also those that failed, and results whose call is missing."""
    orphans = [
        ActualCall(pair.tool, pair.result.idx, None, UNRECORDED)
        for pair in trace.calls
        if pair.call is None and pair.result is not None
    ]
    return [*actual_calls(trace, ignore_failed=False), *orphans]


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
        """Describe up to three ways in which the arguments differ from the expected ones."""
        rules = self._rules_for(expected)
        if expected.arguments is None:
            if not rules.patterns:
                return []
            rules = replace(rules, partial=True)
        return list(islice(differences(expected.arguments or {}, actual.arguments or {}, rules), 3))

    def _rules_for(self, expected: ExpectedCall) -> Rules:
        """Combine the rules: those of the call win over its case's, those over the judge's; lists add up."""
        case = self.case
        tolerances = (expected.tolerance, case.tolerance, self.tolerance)
        return Rules(
            partial=(expected.match or case.match or self.match) == "partial",
            tolerance=next(value for value in tolerances if value is not None),
            ignore=(*case.ignore, *expected.ignore),
            patterns={**case.patterns, **expected.patterns},
            defaults={**case.defaults, **expected.defaults},
        )


@dataclass(frozen=True, slots=True)
class CallMatch:
    """Expected calls paired with actual ones.

    `pairs` maps positions in `expected` to positions in `actual`.
    """

    rules: CallRules
    mode: str
    expected: Sequence[ExpectedCall]
    actual: Sequence[ActualCall]
    pairs: dict[int, int]

    @classmethod
    def find(
        cls, rules: CallRules, mode: str, expected: Sequence[ExpectedCall], actual: Sequence[ActualCall]
    ) -> CallMatch:
        """Find the largest set of pairs that the mode allows."""

        def fits(i: int, j: int) -> bool:
            return rules.fits(expected[i], actual[j])

        find_pairs = {"exact": pair_in_place, "in_order": pair_in_order}.get(mode, pair_in_any_order)
        return cls(rules, mode, expected, actual, find_pairs(len(expected), len(actual), fits))

    @property
    def precision(self) -> float:
        """Share of the actual calls that were expected; 1 without actual calls."""
        return len(self.pairs) / len(self.actual) if self.actual else 1.0

    @property
    def recall(self) -> float:
        """Share of the expected calls that were made; 1 without expected calls."""
        return len(self.pairs) / len(self.expected) if self.expected else 1.0

    @property
    def score(self) -> float:
        """Recall if other calls are allowed, precision for `subset`, else the harmonic mean of both."""
        if self.mode in OTHERS_ALLOWED:
            return self.recall
        if self.mode == "subset":
            return self.precision
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def summary(self) -> str:
        """Return precision, recall and mode in words."""
        return f"precision {self.precision:.2f}, recall {self.recall:.2f}, {self.mode}"

    def figures(self) -> dict[str, Any]:
        """Return the figures of the match as evidence for a verdict."""
        return {
            "mode": self.mode,
            "expected_calls": len(self.expected),
            "actual_calls": len(self.actual),
            "matched_calls": len(self.pairs),
            "precision": round(self.precision, 4),
            "recall": round(self.recall, 4),
        }

    def problems(self) -> list[Problem]:
        """Describe every call that did not match: for a call of the right tool, what is wrong with it."""
        matched = set(self.pairs.values())
        unmatched = [call for position, call in enumerate(self.actual) if position not in matched]
        problems: list[Problem] = []
        for position, expected in enumerate(self.expected):
            if position in self.pairs:
                continue
            same_tool = next((call for call in unmatched if call.tool == expected.tool), None)
            if same_tool is not None:
                unmatched.remove(same_tool)
                problems.append(self._near_miss(expected, same_tool))
            elif self.mode != "subset":
                problems.append((f"{display_name(expected.tool)} was not called as expected", None))
        if self.mode not in OTHERS_ALLOWED:
            for call in unmatched:
                words = f"{display_name(call.tool)} was called unexpectedly (event {call.idx})"
                problems.append((words, call.idx))
        return problems

    def _near_miss(self, expected: ExpectedCall, actual: ActualCall) -> Problem:
        tool = display_name(actual.tool)
        if actual.problem is not None:
            words = f"{tool} was called with arguments {actual.problem}"
        elif mismatches := self.rules.mismatches(expected, actual):
            words = f"{tool} was called with other arguments: {listed(mismatches)}"
        else:
            words = f"{tool} was called out of order"
        return f"{words} (event {actual.idx})", actual.idx


Fits = Callable[[int, int], bool]
"""Whether expected call number i could be actual call number j."""


def pair_in_any_order(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """Find a largest set of pairs regardless of order, as {expected: actual}.

    Maximum bipartite matching by shortest augmenting paths (Hopcroft and Karp 1973 augment along many
    paths at a time; traces are short, so one at a time will do). A greedy choice can miss a pair that this
    finds: one actual call may fit two expected ones, of which only one has an alternative.

    Example:
        >>> fitting = {(0, 0), (0, 1), (1, 0)}
        >>> pair_in_any_order(2, 2, lambda i, j: (i, j) in fitting)
        {0: 1, 1: 0}
    """
    options = [[j for j in range(actual) if fits(i, j)] for i in range(expected)]
    expected_of: dict[int, int] = {}
    for start in range(expected):
        _augment(start, options, expected_of)
    return {i: j for j, i in sorted(expected_of.items(), key=lambda pair: pair[1])}


def _augment(start: int, options: list[list[int]], expected_of: dict[int, int]) -> None:
    """Find a partner for `start`, moving others to their alternatives if that frees one."""
    reached_from: dict[int, int] = {}
    queue = deque([start])
    while queue:
        i = queue.popleft()
        for j in options[i]:
            if j in reached_from:
                continue
            reached_from[j] = i
            if j not in expected_of:
                _reassign(j, reached_from, expected_of)
                return
            queue.append(expected_of[j])


def _reassign(free: int, reached_from: dict[int, int], expected_of: dict[int, int]) -> None:
    """Flip the pairs along the path that ends at `free`, which gains one pair."""
    actual_of = {i: j for j, i in expected_of.items()}
    j: int | None = free
    while j is not None:
        i = reached_from[j]
        previous = actual_of.get(i)
        expected_of[j] = i
        j = previous


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
