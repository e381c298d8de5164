"""Expected calls against actual ones: which is which, and what keeps the rest from matching."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agent_eval.contracts import Trace
from agent_eval.judges.base import clipped, listed, named, quoted
from agent_eval.judges.matching.arguments import MalformedArguments, read_arguments
from agent_eval.judges.matching.re2 import InvalidPattern, compile_glob, compile_pattern

Fits = Callable[[int, int], bool]
"""Whether expected call number i could be actual call number j."""


def in_any_order(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """A largest set of pairs, whatever their order, as {expected: actual}.

    Maximum bipartite matching by shortest augmenting paths (Hopcroft and Karp 1973 use many at a time;
    traces are short, so one at a time will do). A greedy choice can miss a pair that this finds: one
    actual call may fit two expected ones, of which only one has an alternative.
    """
    options = [[j for j in range(actual) if fits(i, j)] for i in range(expected)]
    taken_by: dict[int, int] = {}
    for start in range(expected):
        _augment(start, options, taken_by)
    return {i: j for j, i in sorted(taken_by.items(), key=lambda pair: pair[1])}


def _augment(start: int, options: list[list[int]], taken_by: dict[int, int]) -> None:
    """Give `start` a partner, moving others to their alternatives where that frees one."""
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        i = waiting.popleft()
        for j in options[i]:
            if j in came_from:
                continue
            came_from[j] = i
            if j not in taken_by:
                _reassign(j, came_from, taken_by)
                return
            waiting.append(taken_by[j])


def _reassign(free: int, came_from: dict[int, int], taken_by: dict[int, int]) -> None:
    partner_of = {i: j for j, i in taken_by.items()}
    j: int | None = free
    while j is not None:
        i = came_from[j]
        j_before = partner_of.get(i)
        taken_by[j] = i
        j = j_before


def in_order(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """A largest set of pairs that keeps the order of both sides, as {expected: actual}.

    The longest common subsequence with `fits` for equality, by dynamic programming.
    """
    fit = [[fits(i, j) for j in range(actual)] for i in range(expected)]
    best = [[0] * (actual + 1) for _ in range(expected + 1)]
    for i in range(expected - 1, -1, -1):
        for j in range(actual - 1, -1, -1):
            taken = best[i + 1][j + 1] + 1 if fit[i][j] else 0
            best[i][j] = max(taken, best[i + 1][j], best[i][j + 1])
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


def in_place(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """The pairs at the same position on both sides, as {expected: actual}."""
    return {i: i for i in range(min(expected, actual)) if fits(i, i)}


Mode = Literal["exact", "in_order", "any_order", "subset", "superset"]

MAX_EXPECTED_CALLS = 500
"""Calls one case may expect."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ArgumentRules(_Strict):
    """How arguments are compared; see `matching.Rules`. Set for a case, or for one call."""

    match: Literal["exact", "partial"] | None = None
    """`partial` allows more members than expected, at every level; null asks the judge's config."""
    tolerance: float | None = Field(default=None, ge=0)
    """By how much numbers may differ, absolutely."""
    ignore: list[str] = Field(default_factory=list)
    """Globs of places that are not compared: `request_id`, `*.created_at`, `items.*.id`."""
    patterns: dict[str, str] = Field(default_factory=dict)
    """RE2 patterns by place, instead of equality."""
    defaults: dict[str, Any] = Field(default_factory=dict)
    """Arguments that may be left out when they would have this value."""

    @field_validator("patterns")
    @classmethod
    def _usable(cls, patterns: dict[str, str]) -> dict[str, str]:
        for glob, pattern in patterns.items():
            _refuse_unusable(compile_glob, glob)
            _refuse_unusable(compile_pattern, pattern)
        return patterns

    @field_validator("ignore")
    @classmethod
    def _usable_globs(cls, globs: list[str]) -> list[str]:
        for glob in globs:
            _refuse_unusable(compile_glob, glob)
        return globs


def _refuse_unusable(compiled: Callable[[str], Any], text: str) -> None:
    try:
        compiled(text)
    except InvalidPattern as problem:
        raise ValueError(f"{quoted(text)}: {problem}; {problem.remedy}") from None


class ExpectedCall(ArgumentRules):
    """One call. Without `arguments` any will do; `{}` means none."""

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] | None = None


class Count(_Strict):
    """How often a tool is called, both ends included."""

    min: int = Field(default=0, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is less than min {self.min}")
        return self


class ExpectedTrajectory(ArgumentRules):
    """Everything a case expects of its tool calls. `calls: []` expects none; null says nothing of them."""

    mode: Mode | None = None
    """null asks the judge's config."""
    calls: list[ExpectedCall] | None = Field(default=None, max_length=MAX_EXPECTED_CALLS)
    forbidden: list[ExpectedCall] = Field(default_factory=list, max_length=MAX_EXPECTED_CALLS)
    """Calls that must not happen; their arguments are compared in part unless they say otherwise."""
    counts: dict[str, Count] = Field(default_factory=dict)

    @field_validator("counts", mode="before")
    @classmethod
    def _exact_counts(cls, counts: Any) -> Any:
        if not isinstance(counts, dict):
            return counts
        return {
            tool: {"min": count, "max": count} if type(count) is int else count
            for tool, count in counts.items()
        }


def rules_for(call: ExpectedCall, case: ArgumentRules, match: str, tolerance: float) -> Rules:
    """The rules of one call: its own, else its case's, else the given ones; lists add up."""
    own = call.match or case.match or match
    allowed = next((value for value in (call.tolerance, case.tolerance) if value is not None), tolerance)
    return Rules(
        partial=own == "partial",
        tolerance=allowed,
        ignore=(*case.ignore, *call.ignore),
        patterns={**case.patterns, **call.patterns},
        defaults={**case.defaults, **call.defaults},
    )


Problem = tuple[str, int | None]
"""One sentence, and the index of the event that shows it."""

OTHERS_ALLOWED = ("in_order", "superset")
"""Modes in which calls beside the expected ones are no problem."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call the agent made; `arguments` is None where they are malformed, and `problem` says how."""

    tool: str
    idx: int
    arguments: dict[str, Any] | None
    problem: MalformedArguments | None = None


def made_calls(trace: Trace, *, ignore_failed: bool) -> list[MadeCall]:
    """The calls of a trace in order; without those whose result carries an error, when asked to."""
    made = []
    for pair in trace.calls:
        if pair.call is None or (ignore_failed and pair.error is not None):
            continue
        try:
            made.append(MadeCall(pair.tool, pair.call.idx, read_arguments(pair.arguments)))
        except MalformedArguments as problem:
            made.append(MadeCall(pair.tool, pair.call.idx, None, problem))
    return made


@dataclass(frozen=True, slots=True)
class CallRules:
    """How calls of one case are compared: what the case says, then what the judge's config says."""

    case: ArgumentRules
    match: str
    tolerance: float

    def fits(self, call: ExpectedCall, made: MadeCall) -> bool:
        """Whether an actual call is an expected one. Malformed arguments fit nothing."""
        return call.tool == made.tool and made.arguments is not None and not self.why_not(call, made)

    def why_not(self, call: ExpectedCall, made: MadeCall) -> list[str]:
        """Up to three ways in which the arguments are not the expected ones."""
        rules = rules_for(call, self.case, self.match, self.tolerance)
        if call.arguments is None:
            if not rules.patterns:
                return []
            rules = replace(rules, partial=True)
        return list(islice(differences(call.arguments or {}, made.arguments or {}, rules), 3))


_PAIRING: dict[str, Callable[..., dict[int, int]]] = {"exact": in_place, "in_order": in_order}


@dataclass(frozen=True, slots=True)
class CallMatch:
    """Which expected call is which actual one, under a mode."""

    rules: CallRules
    mode: str
    expected: Sequence[ExpectedCall]
    made: Sequence[MadeCall]
    pairs: dict[int, int]

    @classmethod
    def of(
        cls, rules: CallRules, mode: str, expected: Sequence[ExpectedCall], made: Sequence[MadeCall]
    ) -> CallMatch:
        """Find the largest set of pairs the mode allows."""

        def fits(i: int, j: int) -> bool:
            return rules.fits(expected[i], made[j])

        pairs = _PAIRING.get(mode, in_any_order)(len(expected), len(made), fits)
        return cls(rules, mode, expected, made, pairs)

    @property
    def precision(self) -> float:
        """Share of the actual calls that were expected; 1 without actual calls."""
        return len(self.pairs) / len(self.made) if self.made else 1.0

    @property
    def recall(self) -> float:
        """Share of the expected calls that were made; 1 without expected calls."""
        return len(self.pairs) / len(self.expected) if self.expected else 1.0

    @property
    def score(self) -> float:
        """Recall where others are allowed, precision for `subset`, else the harmonic mean of both."""
        if self.mode in OTHERS_ALLOWED:
            return self.recall
        if self.mode == "subset":
            return self.precision
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def summary(self) -> str:
        """The figures in words."""
        return f"precision {self.precision:.2f}, recall {self.recall:.2f}, {self.mode}"

    def figures(self) -> dict[str, Any]:
        """The figures as evidence."""
        return {
            "mode": self.mode,
            "expected_calls": len(self.expected),
            "actual_calls": len(self.made),
            "matched_calls": len(self.pairs),
            "precision": round(self.precision, 4),
            "recall": round(self.recall, 4),
        }

    def problems(self) -> list[Problem]:
        """What keeps the calls from matching; a call of the right tool is told by what is wrong with it."""
        taken = set(self.pairs.values())
        free = [made for position, made in enumerate(self.made) if position not in taken]
        found: list[Problem] = []
        for position, call in enumerate(self.expected):
            if position in self.pairs:
                continue
            near = next((made for made in free if made.tool == call.tool), None)
            if near is not None:
                free.remove(near)
                found.append(self._almost(call, near))
            elif self.mode != "subset":
                found.append((f"{named(call.tool)} was not called as expected", None))
        if self.mode not in OTHERS_ALLOWED:
            found += [
                (f"{named(made.tool)} was called unexpectedly (event {made.idx})", made.idx) for made in free
            ]
        return found

    def _almost(self, call: ExpectedCall, made: MadeCall) -> Problem:
        if made.problem is not None:
            words = f"{named(made.tool)} was called with arguments {made.problem}"
        elif found := self.rules.why_not(call, made):
            words = f"{named(made.tool)} was called with other arguments: {listed(found)}"
        else:
            words = f"{named(made.tool)} was called out of order"
        return f"{words} (event {made.idx})", made.idx


@dataclass(frozen=True, slots=True)
class Rules:
    """How to compare. Places are written `a.b.0.c` and may be globs: `*.id`, `items.*`.

    `partial`: objects may have more members than expected, at every level.
    `tolerance`: numbers may differ by this much, absolutely.
    `ignore`: places that are not compared.
    `patterns`: RE2 patterns by place; the value there (a string, else its JSON text) must show it.
    `defaults`: members that may be left out, on either side, when the other has this value.
    """

    partial: bool = False
    tolerance: float = 0.0
    ignore: tuple[str, ...] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def ignored(self, place: str) -> bool:
        """Whether a place is not compared."""
        return any(_is_at(glob, place) for glob in self.ignore)

    def pattern_at(self, place: str) -> str | None:
        """The pattern for a place, if there is one."""
        return next((text for glob, text in self.patterns.items() if _is_at(glob, place)), None)


def _is_at(glob: str, place: str) -> bool:
    # Names of members may hold lone surrogates, which RE2 cannot read and no glob asks for.
    return glob == place or compile_glob(glob).search(place.encode("utf-8", "replace")) is not None


def differences(expected: Any, actual: Any, rules: Rules, place: str = "") -> Iterator[str]:
    """Every way in which a value is not the expected one, in bounded words; nothing when it is.

    `True` is not `1`, and `1` is `1.0`. Lists are compared item by item and must be of equal length.
    """
    if place and rules.ignored(place):
        return
    pattern = rules.pattern_at(place)
    if pattern is not None:
        if compile_pattern(pattern).search(_text(actual)) is None:
            yield f"{_said(place)} {quoted(actual)} does not match {quoted(pattern)}"
    elif isinstance(expected, dict) and isinstance(actual, dict):
        yield from _members(expected, actual, rules, place)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{_said(place)} has {len(actual)} items instead of {len(expected)}"
        else:
            for position, (wanted, given) in enumerate(zip(expected, actual, strict=True)):
                yield from differences(wanted, given, rules, _below(place, str(position)))
    elif not same_scalar(expected, actual, rules.tolerance):
        yield f"{_said(place)} is {quoted(actual)} instead of {quoted(expected)}"


def _members(expected: dict[str, Any], actual: dict[str, Any], rules: Rules, place: str) -> Iterator[str]:
    for name, wanted in expected.items():
        below = _below(place, name)
        if name in actual:
            yield from differences(wanted, actual[name], rules, below)
        elif not rules.ignored(below) and not _is_default(wanted, below, rules):
            yield f"{_said(below)} is missing"
    for name, given in actual.items():
        below = _below(place, name)
        if name in expected or rules.ignored(below) or _is_default(given, below, rules):
            continue
        if rules.pattern_at(below) is not None:
            yield from differences(None, given, rules, below)
        elif not rules.partial:
            yield f"{_said(below)} is {quoted(given)} and was not expected"
    for name in rules.patterns:
        # A pattern asks for its member to be there, unless it is a glob.
        if not place and name.isidentifier() and name not in actual and name not in expected:
            yield f"{_said(name)} is missing"


def _is_default(value: Any, place: str, rules: Rules) -> bool:
    return place in rules.defaults and not any(differences(rules.defaults[place], value, Rules()))


def same_scalar(expected: Any, actual: Any, tolerance: float = 0.0) -> bool:
    """Whether two values that are not both objects or both arrays are the same JSON value."""
    if _is_number(expected) and _is_number(actual):
        return expected == actual or bool(abs(expected - actual) <= tolerance)
    return type(expected) is type(actual) and bool(expected == actual)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _said(place: str) -> str:
    return clipped(place, 60) if place else "the value"
