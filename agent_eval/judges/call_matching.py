"""Expected calls against actual ones: which is which, and what keeps the rest from matching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from agent_eval.contracts import Trace
from agent_eval.judges.arguments import MalformedArguments, read_arguments
from agent_eval.judges.assignment import in_any_order, in_order, in_place
from agent_eval.judges.expected_calls import ArgumentRules, ExpectedCall, rules_for
from agent_eval.judges.matching import differences
from agent_eval.judges.wording import listed, named

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
