"""Hold a run against the limits of a policy or of thresholds alone, its cost and latency against the base's.

To the letter, or for an agent that can vary where it is significant: a rate that one noisy run misses by
chance says nothing of the agent. Every rate is a number of cases over a number of cases, or of trials where
cases have several, and every limit a decimal; both are exact fractions here, as binary floats are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, floor, log
from typing import Literal, NamedTuple

from agent_eval.contracts import Comparison, NewCases, RuleResult, RunReference, Thresholds
from agent_eval.contracts.gate import FigureChange
from agent_eval.contracts.history import CaseRecord, RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Reruns
from agent_eval.errors import NothingMeasured
from agent_eval.gate.procedure import ALPHA, Counts
from agent_eval.gate.statistics import at_most_by_chance, p_of_rise, sign_flip
from agent_eval.text.numbers import allowed, apart, count, distance, percent

ABSOLUTE = ("min_pass_rate", "max_hard_fail_rate")
"""Limits that need no baseline."""

FEWEST_CASES = 8
"""Cases below which nothing is said of cost or latency: their spread is not known."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the limits are held against; a case with several trials counts by their share.

    Attributes:
        cases: Cases of the run, without `new_cases`, which the baseline does not have and which never block.
        compared: Cases that both runs have.
        moved: Candidate less baseline, in passed cases.
        hard_fails: Hard fails of each compared case, before and now.
        new_hard_fails: The regressed cases that did not fail hard before.
        blames: Whether these two count cases that the procedure blames, which it can say of none compared.
    """

    cases: int
    passed: Fraction
    hard_failed: Fraction
    new_cases: int = 0
    has_baseline: bool = False
    compared: int = 0
    moved: Fraction = Fraction(0)
    hard_fails: Sequence[tuple[Fraction, Fraction]] = ()
    regressed: int = 0
    new_hard_fails: int = 0
    blames: bool = False

    @property
    def pass_rate_change(self) -> float | None:
        """Candidate minus baseline pass rate over the compared cases; None where there are none."""
        return float(self.moved / self.compared) if self.compared else None


def measure_counts(
    own: RunRecord,
    baseline: RunRecord | None,
    *,
    quarantined: frozenset[str] = frozenset(),
    broken: frozenset[str] = frozenset(),
) -> Measured:
    """Measure a run by its counts, for a policy.

    Cases in quarantine count in no total; `broken` are those that the procedure blames the change for.
    """
    rows = {name: row for name, row in own.cases.items() if name not in quarantined and row.trials}
    pairs = {
        name: (before, row)
        for name, row in rows.items()
        if baseline is not None
        and (before := baseline.cases.get(name)) is not None
        and before.definition == row.definition
        and before.trials
    }
    # A run of new cases alone is measured by them.
    counting = [row for name, row in rows.items() if name in pairs] or list(rows.values())
    return Measured(
        cases=len(counting),
        passed=sum(map(_passed, counting), Fraction(0)),
        hard_failed=sum(map(_hard, counting), Fraction(0)),
        new_cases=len(rows) - len(counting),
        has_baseline=baseline is not None,
        compared=len(pairs),
        moved=sum((_passed(now) - _passed(before) for before, now in pairs.values()), Fraction(0)),
        hard_fails=[(_hard(before), _hard(now)) for before, now in pairs.values()],
        regressed=len(broken),
        new_hard_fails=sum(
            _hard(now) > 0 == _hard(before) for name, (before, now) in pairs.items() if name in broken
        ),
        blames=baseline is not None,
    )


def _passed(row: CaseRecord) -> Fraction:
    return Fraction(row.passed, row.trials)


def _hard(row: CaseRecord) -> Fraction:
    return Fraction(row.hard_failed, row.trials)


def measure_run(run: RunReference) -> Measured:
    """Measure a whole run as its summary says; raises `NothingMeasured` where it has no case."""
    summary = run.summary
    if summary.total_cases < 1:
        raise NothingMeasured(
            f"run {run.run_id!r} has no case; nothing measured is not a pass",
            remedy="Evaluate a suite with at least one case.",
        )
    return Measured(
        cases=summary.total_cases,
        passed=Fraction(summary.passed_cases),
        hard_failed=Fraction(summary.hard_fail_cases),
    )


def measure(comparison: Comparison, *, waived: frozenset[str] = frozenset()) -> Measured:
    """Measure a comparison that follows from its packs: the candidate's whole run, and the compared cases.

    Waived cases count neither as regressed nor as newly hard-failing. New cases never block; but all cases
    count where the candidate has no others, as in a first run, and where cases of the baseline are gone: a
    new case may be one of them under another name. Raises `NothingMeasured` where the candidate has no case.
    """
    run, new = measure_run(comparison.candidate), comparison.new_cases or NewCases()
    if new.cases == run.cases or comparison.cases.removed:
        new = NewCases()
    changed = sum(row.candidate_passed - row.baseline_passed for row in comparison.case_regressions)
    compared, hard = comparison.cases.compared, comparison.metrics["hard_fail_rate"]
    before, now = (Fraction(round((rate or 0) * compared)) for rate in (hard.baseline, hard.candidate))
    return Measured(
        cases=run.cases - new.cases,
        passed=run.passed - new.passed,
        hard_failed=run.hard_failed - new.hard_failed,
        new_cases=new.cases,
        has_baseline=True,
        compared=compared,
        moved=Fraction(changed),
        # Which cases they are matters to chance alone, and thresholds alone know none.
        hard_fails=[(before, now)],
        regressed=len(set(comparison.regressed_case_ids) - waived),
        new_hard_fails=len(set(comparison.new_hard_fail_case_ids) - waived),
    )


def apply_limits(limits: Thresholds, measured: Measured, *, may_vary: bool) -> list[RuleResult]:
    """Apply every limit that is set, in their order.

    `may_vary`: the agent's answers vary, so that a rate breaks its limit only significantly.
    """
    return [
        _hold(name, limit, measured, may_vary=may_vary)
        for name in type(limits).model_fields
        if (limit := getattr(limits, name)) is not None
    ]


def _hold(name: str, limit: float, measured: Measured, *, may_vary: bool) -> RuleResult:
    result = partial(RuleResult, rule=name, threshold=limit)
    is_rise = name == "max_hard_fail_increase"
    if name in ABSOLUTE and not measured.cases:
        why = f"{name} was not applied: no case that counts could be judged."
        return result(passed=False, message=why, applied=False)
    if name in ABSOLUTE:
        return _hold_rate(name, limit, measured, may_vary=may_vary)
    if not measured.has_baseline:
        why = f"{name} was not applied: it needs a baseline, and nothing was compared with one."
        return result(passed=False, message=why, applied=False)
    if not measured.compared and (is_rise or not measured.blames):
        why = f"{name} cannot hold: no case could be compared with the baseline."
        return result(passed=False, message=why)
    if is_rise:
        return _hold_increase(name, limit, measured, may_vary=may_vary)
    number, did = {
        "max_regressed_cases": (measured.regressed, "regressed"),
        "max_new_hard_fail_cases": (measured.new_hard_fails, "newly failed hard"),
    }[name]
    side = "above" if number > limit else "not above"
    message = f"{count(number, 'case')} {did}, {side} {name} {limit:g}."
    return result(passed=number <= limit, message=message, value=number)


def _exact(value: float) -> Fraction:
    """Turn a float back into the decimal that was written: 0.05 is 1/20."""
    return Fraction(repr(value))


def _hold_rate(name: str, threshold: float, measured: Measured, *, may_vary: bool) -> RuleResult:
    """Hold a rate of the run against its limit.

    With chance: an agent that keeps the limit passes so few cases in at most 5 % of runs (binomial). A case
    with several trials counts by their share, and what is over a whole number counts as one.
    """
    is_floor = name == "min_pass_rate"
    number = measured.passed if is_floor else measured.hard_failed
    limit, share = _exact(threshold), Fraction(number, measured.cases)
    is_beyond = share < limit if is_floor else share > limit
    # Fewer passes, or as many cases without a hard fail.
    least_passed = ceil(number) if is_floor else measured.cases - floor(number)
    chance = 1.0
    if may_vary and is_beyond:
        chance = at_most_by_chance(least_passed, measured.cases, limit if is_floor else 1 - limit)
    rate = percent(float(share), decimals=apart(float(share), threshold))
    done = f"{_decimal(number)} of {measured.cases} {'passed' if is_floor else 'failed hard'} ({rate})"
    side, stated = "below" if is_floor else "above", f"{name} {allowed(threshold)}"
    if not is_beyond or not may_vary:
        message = f"{done}, {'' if is_beyond else 'not '}{side} {stated}."
    elif chance <= ALPHA:
        few = "passes so few" if is_floor else "fails so many hard"
        message = f"{done}: an agent that keeps {stated} {few} in {_chance(chance)} of runs."
    else:
        message = (
            f"{done}, {side} {stated}; too few cases to tell: an agent that keeps to it has "
            f"{'so few' if is_floor else 'so many'} in {_chance(chance)} of runs."
        )
    left_out = f" {count(measured.new_cases, 'new case')} left out." if measured.new_cases else ""
    return RuleResult(
        rule=name,
        threshold=threshold,
        passed=not is_beyond or (may_vary and chance > ALPHA),
        message=message + left_out,
        value=float(share),
    )


def _hold_increase(name: str, threshold: float, measured: Measured, *, may_vary: bool) -> RuleResult:
    """Hold the rise of the hard-fail rate against its limit; with chance by an exact sign-flip test too."""
    before = sum((was for was, _ in measured.hard_fails), Fraction(0))
    now = sum((is_now for _, is_now in measured.hard_fails), Fraction(0))
    rise = Fraction(now - before, measured.compared)
    is_beyond = rise > _exact(threshold)
    # A case of several trials moves by a share; 60 divides the shares of up to 6, and rounds those of more.
    falls = [round((is_now - was) * 60) for was, is_now in measured.hard_fails]
    chance = sign_flip(falls) if may_vary and is_beyond else 1.0
    is_chance = may_vary and is_beyond and chance > ALPHA
    moved = f"{'rose' if rise > 0 else 'fell'} by {distance(float(rise))} points" if rise else "did not move"
    over = f"{_decimal(before)} to {_decimal(now)} of {measured.compared} compared cases"
    stated = f"{name} {allowed(threshold).removesuffix('%')} points"
    message = f"The hard-fail rate {moved} ({over}), {'' if is_beyond else 'not '}above {stated}"
    if is_chance:
        message += f"; too few cases to tell, chance alone does as much in {_chance(chance)} of runs"
    is_within = not is_beyond or is_chance
    return RuleResult(
        rule=name, threshold=threshold, passed=is_within, message=f"{message}.", value=float(rise)
    )


def _chance(chance: float) -> str:
    return percent(chance, decimals=0) if chance >= 0.01 else f"less than {percent(0.01, decimals=0)}"


def _decimal(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else f"{float(number):.1f}"


Figure = Literal["cost_usd", "latency_ms"]
_FIGURES: Mapping[Figure, tuple[str, str]] = {
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
    tests = _tests(counts)
    return any(test.is_beyond(getattr(policy, _FIGURES[name][1])) for name, test in tests.items())


def figure_changes(
    counts: Counts, policy: GatePolicy, reruns: Reruns | None, *, may_rerun: bool
) -> list[FigureChange]:
    """Say of cost and latency whether they rose, and whether that breaks a limit.

    A rise is said where the paired one-sided t test on the logarithms of the cases has p <= 0.05, for which
    the cases' own differences do not matter. A limit L breaks where the total rose by more than L as well,
    and does so again where both sides are run once more in turn: the hour of a provider is no change of the
    agent. Recorded traces, which cannot be, are held against the limit as they are.
    """
    changes = []
    for name, test in _tests(counts).items():
        word, key = _FIGURES[name]
        limit: float | None = getattr(policy, key)
        rose = test.p_value <= ALPHA and test.ratio > 1
        answer: Literal["rose", "not-shown", "breaks-limit", "open"] = "rose" if rose else "not-shown"
        by = f"{word} rose by {percent(abs(test.ratio - 1))} over {test.cases} cases"
        reason = f"{by}." if rose else f"{word} did not rise by more than chance ({test.cases} cases)."
        if limit is not None and test.is_beyond(limit):
            figures = reruns.figures if reruns is not None else {}
            sides = [getattr(figures[side], name) for side in ("base", "change") if side in figures]
            again = _tested(*sides) if len(sides) == 2 else None
            if not may_rerun or (again is not None and again.is_beyond(limit)):
                answer, reason = "breaks-limit", f"{by}, above {key} {allowed(limit)}."
            elif again is None:
                answer, reason = "open", f"{by}, above {key} {allowed(limit)}, and was not measured again."
            else:
                moved = f"{'rose' if again.ratio > 1 else 'fell'} by {percent(abs(again.ratio - 1))}"
                reason = f"{by}; measured again beside the base it {moved}."
        changes.append(
            FigureChange(
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
        )
    return changes


def _tests(counts: Counts) -> dict[Figure, _Test]:
    baseline = counts.baseline or next(iter(counts.runs), None)
    before = baseline.cases if baseline is not None else {}
    pairs = {
        case_id: (before[case_id], row)
        for case_id, row in counts.own.cases.items()
        if case_id in before and before[case_id].definition == row.definition
    }
    tests = {}
    for name in _FIGURES:
        sides = [
            {case_id: getattr(pair[side], name) or 0.0 for case_id, pair in pairs.items()} for side in (0, 1)
        ]
        if (test := _tested(*sides)) is not None:
            tests[name] = test
    return tests


def _tested(before: Mapping[str, float], now: Mapping[str, float]) -> _Test | None:
    """A figure of 0 is not known."""
    cases = sorted(case_id for case_id in before.keys() & now.keys() if before[case_id] > 0 < now[case_id])
    if len(cases) < FEWEST_CASES:
        return None
    rises = [log(now[case_id] / before[case_id]) for case_id in cases]
    baseline, candidate = (sum(side[case_id] for case_id in cases) for side in (before, now))
    return _Test(len(cases), baseline, candidate, p_of_rise(rises))
