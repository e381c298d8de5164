"""The six rules, on exact shares.

Rates are stored as binary floats, in which 0.95 - 0.90 is more than 0.05. Every rate here is a number of
cases over a number of cases, and every threshold a decimal somebody wrote, so both are taken back to exact
fractions before they are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from agent_eval.contracts import ABSOLUTE_RULES, Comparison, Metric, RuleResult, RunReference, Thresholds
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.text.numbers import allowed, apart, count, distance, of_all, percent


@dataclass(frozen=True)
class Measured:
    """What the rules are held against, as numbers of cases.

    `total`, `passed`, `hard_failed` and `skipped` are of the candidate's whole run. The pairs
    `(baseline, candidate)` are over the `compared` cases.
    """

    total: int
    passed: int
    hard_failed: int
    skipped: int = 0
    has_baseline: bool = False
    compared: int = 0
    pair_passed: tuple[int, int] = (0, 0)
    pair_hard_failed: tuple[int, int] = (0, 0)
    regressed: int = 0
    new_hard_fails: int = 0

    @property
    def pass_rate_change(self) -> Fraction | None:
        """Candidate minus baseline pass rate over the compared cases; None when there are none."""
        before, now = self.pair_passed
        return Fraction(now - before, self.compared) if self.compared else None

    def without(self, excused: frozenset[str], new_hard_fails: Iterable[str]) -> Measured:
        """The same with excused cases not counted as regressed; rates stay what they are."""
        return replace(
            self,
            regressed=self.regressed - len(excused),
            new_hard_fails=self.new_hard_fails - len(excused.intersection(new_hard_fails)),
        )


def measure_run(run: RunReference) -> Measured:
    """Counts of a whole run.

    Raises:
        NothingMeasured: It has no case.
        InvalidInput: Its summary contradicts itself.
    """
    summary = run.summary
    if summary.total_cases < 1:
        raise NothingMeasured(
            f"run {run.run_id!r} has no case; nothing measured is not a pass",
            remedy="Evaluate a suite with at least one case.",
        )
    for name, number, rate in (
        ("pass_rate", summary.passed_cases, summary.pass_rate),
        ("hard_fail_rate", summary.hard_fail_cases, summary.hard_fail_rate),
    ):
        if rate != number / summary.total_cases:
            raise _contradiction(f"candidate.summary.{name}")
    return Measured(summary.total_cases, summary.passed_cases, summary.hard_fail_cases, summary.skipped_cases)


def measure(comparison: Comparison) -> Measured:
    """Counts of a comparison: the candidate's whole run, and the compared cases.

    Raises:
        NothingMeasured: The candidate has no case.
        InvalidInput: The comparison contradicts itself, as an edited or truncated one does.
    """
    run = measure_run(comparison.candidate)
    compared = comparison.cases.compared
    regressed = {row.case_id for row in comparison.case_regressions if row.regressed}
    new_hard_fails = set(comparison.new_hard_fail_case_ids)
    for name, stated, follows in (
        ("overview.compared_cases", comparison.overview.compared_cases, compared),
        ("overview.regressed_cases", comparison.overview.regressed_cases, len(regressed)),
        ("overview.new_hard_fail_cases", comparison.overview.new_hard_fail_cases, len(new_hard_fails)),
        ("new_hard_fail_case_ids", len(new_hard_fails - regressed), 0),
        ("case_regressions", max(len(regressed), compared), compared),
    ):
        if stated != follows:
            raise _contradiction(name)
    passed = _pair(comparison, "pass_rate")
    moved = sum(row.candidate_passed - row.baseline_passed for row in comparison.case_regressions)
    if passed[1] - passed[0] != moved:
        raise _contradiction("metrics.pass_rate")
    _check_trials(comparison)
    return Measured(
        total=run.total,
        passed=run.passed,
        hard_failed=run.hard_failed,
        skipped=run.skipped,
        has_baseline=True,
        compared=compared,
        pair_passed=passed,
        pair_hard_failed=_pair(comparison, "hard_fail_rate"),
        regressed=len(regressed),
        new_hard_fails=len(new_hard_fails),
    )


def _check_trials(comparison: Comparison) -> None:
    """Refuse trials whose rates do not follow from the cases that changed."""
    trials = comparison.trials
    if trials is None:
        return
    rows = [change for change in trials.changes if change.judge_id is None]
    rise = sum(
        (
            Fraction(row.candidate.passed, row.candidate.judged)
            - Fraction(row.baseline.passed, row.baseline.judged)
            for row in rows
            if row.candidate.judged and row.baseline.judged
        ),
        Fraction(0),
    )
    stated = (trials.candidate.pass_rate - trials.baseline.pass_rate) * comparison.cases.compared
    cases = {row.case_id for row in rows}
    if len(cases) != len(rows) or len(cases) > comparison.cases.compared or abs(float(rise) - stated) > 1e-6:
        raise _contradiction("trials")


def apply_rules(thresholds: Thresholds, measured: Measured) -> list[RuleResult]:
    """The result of every rule that is set, in the order of `Thresholds`.

    A run in which no judge had anything to judge breaks one more: nothing measured is not a pass.
    """
    rules = [
        _apply(name, getattr(thresholds, name), measured)
        for name in Thresholds.model_fields
        if getattr(thresholds, name) is not None
    ]
    if measured.skipped == measured.total:
        rules.append(_nothing_measured(measured.total))
    return rules


def _nothing_measured(total: int) -> RuleResult:
    return RuleResult(
        rule="something_measured",
        threshold=1,
        value=0,
        passed=False,
        message=f"No judge had anything to judge ({count(total, 'case')}), and that is no pass.",
    )


def exact(value: float) -> Fraction:
    """The decimal somebody wrote: `exact(0.05) == Fraction(1, 20)`."""
    return Fraction(repr(value))


def _apply(name: str, threshold: float, measured: Measured) -> RuleResult:
    if name not in ABSOLUTE_RULES and not measured.compared:
        message = f"{name} cannot hold: no case could be compared with the baseline."
        if not measured.has_baseline:
            message = f"{name} needs a baseline and there is none, so it was not applied."
        return RuleResult(
            rule=name, threshold=threshold, applied=measured.has_baseline, passed=False, message=message
        )
    value, finding = _FINDINGS[name](measured, threshold)
    limit = exact(threshold)
    if name.startswith("min_"):
        passed = value >= limit
        word = "not below" if passed else "below"
    else:
        passed = value <= limit
        word = "not above" if passed else "above"
    shown = f"{threshold}" if name.endswith("_cases") else allowed(threshold)
    if name in _DIFFERENCES:
        shown = f"{shown.rstrip('%')} points"
    return RuleResult(
        rule=name,
        threshold=threshold,
        value=float(value),
        passed=passed,
        message=f"{finding}, {word} {name} {shown}.",
    )


def _pass_rate(measured: Measured, limit: float) -> tuple[Fraction, str]:
    share = Fraction(measured.passed, measured.total)
    return share, f"{of_all(measured.passed, measured.total, 'case')} passed ({_percent(share, limit)})"


def _hard_fail_rate(measured: Measured, limit: float) -> tuple[Fraction, str]:
    share = Fraction(measured.hard_failed, measured.total)
    failed = of_all(measured.hard_failed, measured.total, "case")
    return share, f"{failed} hard-failed ({_percent(share, limit)})"


def _pass_rate_drop(measured: Measured, limit: float) -> tuple[Fraction, str]:
    before, now = measured.pair_passed
    drop = Fraction(before - now, measured.compared)
    moved = "fell" if drop > 0 else "rose" if drop < 0 else "moved"
    return drop, (
        f"The pass rate {moved} by {_points(drop, limit)} ({before} to {now} of {measured.compared} "
        "compared cases)"
    )


def _hard_fail_increase(measured: Measured, limit: float) -> tuple[Fraction, str]:
    before, now = measured.pair_hard_failed
    rise = Fraction(now - before, measured.compared)
    moved = "rose" if rise > 0 else "fell" if rise < 0 else "moved"
    return rise, (
        f"The hard fail rate {moved} by {_points(rise, limit)} ({before} to {now} of {measured.compared} "
        "compared cases)"
    )


def _regressed_cases(measured: Measured, _limit: float) -> tuple[Fraction, str]:
    return Fraction(measured.regressed), f"{count(measured.regressed, 'case')} regressed"


def _new_hard_fail_cases(measured: Measured, _limit: float) -> tuple[Fraction, str]:
    return Fraction(measured.new_hard_fails), f"{count(measured.new_hard_fails, 'case')} newly hard-failed"


_FINDINGS: dict[str, Callable[[Measured, float], tuple[Fraction, str]]] = {
    "min_pass_rate": _pass_rate,
    "max_hard_fail_rate": _hard_fail_rate,
    "max_pass_rate_drop": _pass_rate_drop,
    "max_hard_fail_increase": _hard_fail_increase,
    "max_regressed_cases": _regressed_cases,
    "max_new_hard_fail_cases": _new_hard_fail_cases,
}
"""Each rule's measured value and the beginning of its sentence, given its limit."""

_DIFFERENCES = frozenset({"max_pass_rate_drop", "max_hard_fail_increase"})
"""Rules on the difference of two shares: their figures are percentage points."""


def _percent(share: Fraction, limit: float) -> str:
    return percent(float(share), decimals=apart(float(share), limit))


def _points(difference: Fraction, limit: float) -> str:
    size = float(difference)
    return f"{distance(size, decimals=apart(size, limit))} points" if size else "0 points"


def _pair(comparison: Comparison, name: str) -> tuple[int, int]:
    metric = comparison.metrics.get(name)
    compared = comparison.cases.compared
    if metric is None:
        raise _contradiction(f"metrics.{name}")
    return _count(metric, metric.baseline, compared), _count(metric, metric.candidate, compared)


def _count(metric: Metric, rate: float | None, compared: int) -> int:
    """How many cases a rate stands for: the nearest float to k/n gives k back for any real suite."""
    if not compared:
        return 0
    number = round((rate or 0.0) * compared)
    if rate is None or not 0 <= number <= compared or rate != number / compared:
        raise _contradiction(f"metrics.{metric.name}")
    return number


def _contradiction(field: str) -> InvalidInput:
    return InvalidInput(
        f"the comparison contradicts itself in {field}",
        remedy="Make it again with `agent-eval compare`; a comparison is never edited by hand.",
        field=field,
    )
