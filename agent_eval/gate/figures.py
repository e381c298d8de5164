"""Whether cost or latency moved: tested before anything is said, and held against a limit."""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import log
from typing import Literal, NamedTuple

from agent_eval.contracts.gate import FigureChange
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Reruns
from agent_eval.gate.procedure import ALPHA
from agent_eval.gate.question import Counts
from agent_eval.gate.student import p_of_rise
from agent_eval.text.numbers import allowed, percent

FEWEST_CASES = 8
"""Cases below which nothing is said of cost or latency: their spread is not known."""

Name = Literal["cost_usd", "latency_ms"]
_NAMES: dict[Name, tuple[str, str]] = {
    "cost_usd": ("Cost", "max_cost_increase"),
    "latency_ms": ("Latency", "max_latency_increase"),
}


class _Test(NamedTuple):
    """A figure of the cases that both runs know it of: totals, and the one-sided p value that it rose."""

    cases: int
    baseline: float
    candidate: float
    p_value: float

    @property
    def ratio(self) -> float:
        return self.candidate / self.baseline

    def is_beyond(self, limit: float | None) -> bool:
        return limit is not None and self.ratio > 1 + limit and self.p_value <= ALPHA


def figures_in_doubt(counts: Counts, policy: GatePolicy) -> bool:
    """Whether cost or latency seems to break its limit, so that both sides are to be measured at one hour."""
    return any(
        test.is_beyond(_limit(name, policy))
        for name in _NAMES
        if (test := _of_runs(name, counts)) is not None
    )


def figure_changes(
    counts: Counts, policy: GatePolicy, reruns: Reruns | None, *, may_rerun: bool
) -> list[FigureChange]:
    """Say of cost and latency whether they rose, and whether that breaks a limit.

    A rise is said where the paired one-sided t test on the logarithms of the cases has p <= 0.05, for which
    the cases' own differences do not matter. A limit L breaks where the total rose by more than L as well,
    and does so again where both sides are run once more in turn: the hour of a provider is no change of the
    agent.

    Args:
        counts: Of the run and of its baseline.
        policy: With the limits.
        reruns: What the job ran again.
        may_rerun: Whether it could; recorded traces are held against the limit as they are.
    """
    return [
        _change(name, test, _limit(name, policy), reruns, may_rerun=may_rerun)
        for name in _NAMES
        if (test := _of_runs(name, counts)) is not None
    ]


def _change(
    name: Name, test: _Test, limit: float | None, reruns: Reruns | None, *, may_rerun: bool
) -> FigureChange:
    word, key = _NAMES[name]
    rose = test.p_value <= ALPHA and test.ratio > 1
    answer: Literal["rose", "not-shown", "breaks-limit", "open"] = "rose" if rose else "not-shown"
    by = f"{percent(abs(test.ratio - 1))} over {test.cases} cases"
    reason = (
        f"{word} rose by {by}." if rose else f"{word} did not rise by more than chance ({test.cases} cases)."
    )
    if limit is not None and test.is_beyond(limit):
        again = _of_reruns(name, reruns) if reruns is not None else None
        if not may_rerun or (again is not None and again.is_beyond(limit)):
            answer = "breaks-limit"
            reason = f"{word} rose by {by}, above {key} {allowed(limit)}."
        elif again is None:
            answer = "open"
            reason = f"{word} rose by {by}, above {key} {allowed(limit)}, and was not measured again."
        else:
            moved = f"{'rose' if again.ratio > 1 else 'fell'} by {percent(abs(again.ratio - 1))}"
            reason = f"{word} rose by {by}; measured again beside the base it {moved}."
    return FigureChange(
        name=name,
        cases=test.cases,
        baseline=test.baseline,
        candidate=test.candidate,
        ratio=test.ratio,
        p_value=test.p_value,
        limit=limit,
        answer=answer,
        reason=reason,
    )


def _limit(name: Name, policy: GatePolicy) -> float | None:
    return policy.max_cost_increase if name == "cost_usd" else policy.max_latency_increase


def _of_runs(name: Name, counts: Counts) -> _Test | None:
    """Test a figure of the run against that of its baseline; None where too few cases have it in both."""
    baseline = counts.baseline or next(iter(counts.runs), None)
    if baseline is None:
        return None
    same = {
        case_id
        for case_id, row in counts.own.cases.items()
        if (before := baseline.cases.get(case_id)) is not None and before.definition == row.definition
    }
    return _tested(_by_case(name, baseline, same), _by_case(name, counts.own, same))


def _by_case(name: Name, run: RunRecord, case_ids: Set[str]) -> dict[str, float]:
    """What each case took; 0 where that is not known."""
    return {case_id: getattr(run.cases[case_id], name) or 0.0 for case_id in case_ids}


def _of_reruns(name: Name, reruns: Reruns) -> _Test | None:
    base, change = reruns.figures.get("base"), reruns.figures.get("change")
    if base is None or change is None:
        return None
    return _tested(getattr(base, name), getattr(change, name))


def _tested(before: Mapping[str, float], now: Mapping[str, float]) -> _Test | None:
    cases = sorted(case_id for case_id in before.keys() & now.keys() if before[case_id] > 0 < now[case_id])
    if len(cases) < FEWEST_CASES:
        return None
    rises = [log(now[case_id] / before[case_id]) for case_id in cases]
    return _Test(
        len(cases),
        sum(before[case_id] for case_id in cases),
        sum(now[case_id] for case_id in cases),
        p_of_rise(rises),
    )
