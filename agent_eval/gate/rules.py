"""Apply the gate's rules (`config.rules`) to a run or a comparison, on exact shares.

Rates are stored as binary floats, in which 0.95 - 0.90 is more than 0.05. Every rate here is a number of
cases over a number of cases, and every threshold a decimal from a file or a flag, so both are taken back to
exact fractions before they are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from agent_eval.config.rules import RULES, Rule, Unit, find_rule
from agent_eval.contracts import (
    Comparison,
    Coverage,
    Metric,
    NewCases,
    RuleResult,
    RunReference,
    RunSummary,
    Thresholds,
)
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.gate.coverage import coverage_sentence
from agent_eval.text.numbers import allowed, apart, count, distance, of_all, percent, verb


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The numbers of cases that rules limit.

    `summary` is of the whole run of the candidate, `new_cases` among them. The pairs `(baseline, candidate)`
    are over the `compared` cases. A rule names the field that it limits.

    Example:
        >>> summary = RunSummary(
        ...     run_id="candidate",
        ...     dataset_id="shop",
        ...     total_cases=20,
        ...     passed_cases=18,
        ...     failed_cases=2,
        ...     hard_fail_cases=1,
        ...     pass_rate=0.9,
        ...     hard_fail_rate=0.05,
        ... )
        >>> apply_rules(Thresholds(min_pass_rate=0.9), Measured(summary=summary))[0].message
        '18 of 20 cases passed (90.0%), not below min_pass_rate 90%.'
    """

    summary: RunSummary
    has_baseline: bool = False
    compared: int = 0
    pair_passed: tuple[int, int] = (0, 0)
    pair_hard_failed: tuple[int, int] = (0, 0)
    regressed: int = 0
    new_hard_fails: int = 0
    coverage: Coverage | None = None
    new_cases: NewCases = field(default_factory=NewCases)
    """Cases that absolute rules leave out, because the baseline does not have them."""

    @property
    def known_cases(self) -> int:
        """The number of cases that absolute rules are held against."""
        return self.summary.total_cases - self.new_cases.cases

    @property
    def pass_rate_change(self) -> Fraction | None:
        """Candidate minus baseline pass rate over the compared cases; None when there are none."""
        before, now = self.pair_passed
        return Fraction(now - before, self.compared) if self.compared else None

    def without(self, excused: frozenset[str], comparison: Comparison, coverage: Coverage | None) -> Measured:
        """Copy with excused cases not counted as regressed, and other coverage; rates stay as they are.

        Args:
            excused: Ids of cases; those that did not regress change nothing.
            comparison: What was measured.
            coverage: The coverage that counts.
        """
        return replace(
            self,
            coverage=coverage,
            regressed=len(set(comparison.regressed_case_ids) - excused),
            new_hard_fails=len(set(comparison.new_hard_fail_case_ids) - excused),
        )


def measure_run(run: RunReference) -> Measured:
    """Measure a whole run, without a baseline.

    Raises:
        NothingMeasured: The run has no case.
        InvalidInput: The summary of the run contradicts itself.
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
    return Measured(summary=summary)


def measure(comparison: Comparison) -> Measured:
    """Measure a comparison: the candidate's whole run, and the compared cases.

    Raises:
        NothingMeasured: The candidate has no case.
        InvalidInput: The comparison contradicts itself, as an edited or truncated one does.
    """
    run = measure_run(comparison.candidate)
    compared = comparison.cases.compared
    regressed = set(comparison.regressed_case_ids)
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
    _check_coverage(comparison)
    return replace(
        run,
        new_cases=_new_cases(comparison),
        has_baseline=True,
        compared=compared,
        pair_passed=passed,
        pair_hard_failed=_pair(comparison, "hard_fail_rate"),
        regressed=len(regressed),
        new_hard_fails=len(new_hard_fails),
        coverage=comparison.coverage,
    )


def _new_cases(comparison: Comparison) -> NewCases:
    """Take the new cases of a comparison, which never block.

    All cases count where the candidate has no others, as in a first run, and where cases of the baseline are
    gone: a new case may be one of them under another name.

    Raises:
        InvalidInput: They are more than the candidate's cases of the kind.
    """
    new, summary = comparison.new_cases or NewCases(), comparison.candidate.summary
    if comparison.new_cases is not None and new.cases != len(comparison.cases.new):
        raise _contradiction("new_cases")
    rest = (
        summary.total_cases - new.cases,
        summary.passed_cases - new.passed,
        summary.hard_fail_cases - new.hard_failed,
    )
    if not max(rest[1:]) <= rest[0] or min(rest) < 0 or max(new.passed, new.hard_failed) > new.cases:
        raise _contradiction("new_cases")
    return new if rest[0] and not comparison.cases.removed else NewCases()


def _check_coverage(comparison: Comparison) -> None:
    """Refuse losses that no case can have: a share outside 0 to 1, or more than the whole of a case."""
    if comparison.coverage is None:
        return
    lost: dict[str, float] = {}
    for loss in comparison.coverage.losses:
        for case_id, share in loss.cases.items():
            if not share > 0:
                raise _contradiction("coverage")
            lost[case_id] = lost.get(case_id, 0.0) + share
    if len(lost) > comparison.coverage.cases or any(share > 1 + 1e-9 for share in lost.values()):
        raise _contradiction("coverage")


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
    """Apply every rule that is set, in the order of the table.

    A rule with a default is listed where it is broken, also when it is not set. A run in which no case could
    be judged breaks one more: nothing measured is not a pass.
    """
    results = [
        _apply(rule, limit, measured)
        for rule in RULES
        if (limit := getattr(thresholds, rule.field)) is not None
    ]
    results += _broken_defaults(thresholds, measured)
    summary = measured.summary
    if summary.error_cases + summary.skipped_cases >= summary.total_cases:
        results.append(_nothing_measured(summary))
    return results


def _broken_defaults(thresholds: Thresholds, measured: Measured) -> list[RuleResult]:
    """Apply the rules that hold on every comparison and are not set; return those that are broken."""
    results = [
        _apply(rule, rule.default, measured)
        for rule in RULES
        if rule.default is not None and measured.has_baseline and getattr(thresholds, rule.field) is None
    ]
    return [result for result in results if not result.passed]


def _nothing_measured(summary: RunSummary) -> RuleResult:
    total = count(summary.total_cases, "case")
    message = f"No judge had anything to judge ({total}), and that is no pass."
    if summary.error_cases:
        errors = count(summary.error_cases, "error")
        message = f"No case could be judged ({total}, {errors}), and that is no pass."
    return RuleResult(rule="something_measured", threshold=1, value=0, passed=False, message=message)


def answers_unchecked(number: int) -> RuleResult:
    """Build the check that fails where the answers of `number` cases were not checked."""
    return RuleResult(
        rule="answers_checked",
        threshold=0,
        value=number,
        passed=False,
        message=f"{unchecked_answers(number)}, and that is no pass.",
    )


def unchecked_answers(number: int) -> str:
    """Say of how many cases the answers were not checked, as a clause.

    Example:
        >>> unchecked_answers(3)
        'The answers of 3 cases are not checked'
    """
    answers = f"{verb(number, 'The answer', 'The answers')} of {count(number, 'case')}"
    return f"{answers} {verb(number, 'is', 'are')} not checked"


def exact(value: float) -> Fraction:
    """Turn a float back into the decimal that was written: `exact(0.05) == Fraction(1, 20)`."""
    return Fraction(repr(value))


def _apply(rule: Rule, threshold: float, measured: Measured) -> RuleResult:
    if not rule.is_absolute and not measured.compared:
        return _cannot_hold(rule, threshold, measured)
    value, words = _FINDINGS[rule.unit](rule, measured, threshold)
    limit = exact(threshold)
    passed = value >= limit if rule.bound == "at least" else value <= limit
    side = "below" if rule.bound == "at least" else "above"
    stated = f"{'not ' if passed else ''}{side} {rule.field} {_limit(rule, threshold)}"
    if rule.is_absolute and measured.new_cases.cases:
        stated += f"; {count(measured.new_cases.cases, 'new case')} left out"
    return RuleResult(
        rule=rule.field,
        threshold=threshold,
        value=float(value),
        passed=passed,
        message=f"{rule.finding.format_map(words)}, {stated}.",
    )


def _cannot_hold(rule: Rule, threshold: float, measured: Measured) -> RuleResult:
    """Build the result of a rule on compared cases where there are none."""
    message = f"{rule.field} cannot hold: no case could be compared with the baseline."
    if rule.unit == "coverage":
        message = f"{coverage_sentence(measured.coverage)}, below {rule.field} {_limit(rule, threshold)}."
    if not measured.has_baseline:
        message = f"{rule.field} needs a baseline and there is none, so it was not applied."
    return RuleResult(
        rule=rule.field, threshold=threshold, applied=measured.has_baseline, passed=False, message=message
    )


def _limit(rule: Rule, threshold: float) -> str:
    if rule.unit == "cases":
        return f"{threshold}"
    percentage = allowed(threshold)
    return f"{percentage.rstrip('%')} points" if rule.unit == "points" else percentage


Finding = tuple[Fraction, dict[str, str]]
"""The value of a rule, and the words for the placeholders in its `finding`."""


def _share(rule: Rule, measured: Measured, limit: float) -> Finding:
    new: int = getattr(measured.new_cases, _OF_NEW_CASES[rule.measure])
    number: int = getattr(measured.summary, rule.measure) - new
    share = Fraction(number, measured.known_cases)
    percentage = percent(float(share), decimals=apart(float(share), limit))
    words = of_all(number, measured.known_cases, "case")
    return share, {"cases": words, "share": percentage}


_OF_NEW_CASES = {"passed_cases": "passed", "hard_fail_cases": "hard_failed"}
"""What `NewCases` calls the number of cases in a field of `RunSummary`."""


def _points(rule: Rule, measured: Measured, limit: float) -> Finding:
    before, now = getattr(measured, rule.measure)
    change = Fraction(now - before, measured.compared)
    value = -change if rule.worse == "fell" else change
    size = float(value)
    points = distance(size, decimals=apart(size, limit)) if size else "0"
    moved = "rose" if change > 0 else "fell" if change < 0 else "moved"
    over = f"{before} to {now} of {measured.compared} compared cases"
    return value, {"moved": f"{moved} by {points} points ({over})"}


def _cases(rule: Rule, measured: Measured, _limit: float) -> Finding:
    number: int = getattr(measured, rule.measure)
    return Fraction(number), {"cases": count(number, "case")}


def _coverage(_rule: Rule, measured: Measured, _limit: float) -> Finding:
    # A comparison that does not say what it covers is held to cover nothing.
    share = Fraction(0) if measured.coverage is None else exact(measured.coverage.share)
    return share, {"sentence": coverage_sentence(measured.coverage)}


_FINDINGS: dict[Unit, Callable[[Rule, Measured, float], Finding]] = {
    "share": _share,
    "points": _points,
    "cases": _cases,
    "coverage": _coverage,
}


def rule_clause(result: RuleResult) -> str | None:
    """Describe what a rule measured and allows, as a clause without a capital and a full stop.

    Returns:
        None for a check that is not in the table of rules, and for a rule without a value: the result's own
        message says all there is then.
    """
    rule = find_rule(result.rule)
    if rule is None or result.value is None:
        return None
    measured = rule.clause.format_map(_CLAUSES[rule.unit](rule, result.value, result.threshold))
    return f"{measured} ({_allowance(rule, result.threshold)})"


def _allowance(rule: Rule, threshold: float) -> str:
    if rule.bound == "at least":
        return f"at least {allowed(threshold)} required"
    if not threshold:
        return "none allowed"
    limits = {"cases": f"{threshold:,.0f}", "points": allowed(threshold).removesuffix("%")}
    return f"at most {limits.get(rule.unit, allowed(threshold))} allowed"


def _share_in_words(_rule: Rule, value: float, threshold: float) -> dict[str, str]:
    return {"share": percent(value, decimals=apart(value, threshold))}


def _points_in_words(rule: Rule, value: float, threshold: float) -> dict[str, str]:
    if not value:
        return {"moved": "did not move"}
    better = "rose" if rule.worse == "fell" else "fell"
    size = distance(value, decimals=apart(abs(value), threshold))
    return {"moved": f"{rule.worse if value > 0 else better} by {size} points"}


def _cases_in_words(_rule: Rule, value: float, _threshold: float) -> dict[str, str]:
    number = int(value)
    return {"cases": count(number, "case"), "fails": verb(number, "fails", "fail")}


_CLAUSES: dict[Unit, Callable[[Rule, float, float], dict[str, str]]] = {
    "share": _share_in_words,
    "points": _points_in_words,
    "cases": _cases_in_words,
    "coverage": _share_in_words,
}


def _pair(comparison: Comparison, name: str) -> tuple[int, int]:
    metric = comparison.metrics.get(name)
    compared = comparison.cases.compared
    if metric is None:
        raise _contradiction(f"metrics.{name}")
    return _count(metric, metric.baseline, compared), _count(metric, metric.candidate, compared)


def _count(metric: Metric, rate: float | None, compared: int) -> int:
    """Compute the number of cases from a rate: the nearest float to k/n gives k back for any real suite."""
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
