"""Hold a run against the limits of a policy, or of thresholds alone.

To the letter, or for an agent that can vary where it is significant: a rate that one noisy run misses by
chance says nothing of the agent. Every rate is a number of cases over a number of cases, or of trials where
cases have several, and every limit a decimal; both are exact fractions here, as binary floats are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from agent_eval.contracts import Comparison, Metric, NewCases, RuleResult, RunReference, Thresholds
from agent_eval.contracts.history import CaseRecord, RunRecord
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.gate.procedure import ALPHA, at_most_by_chance, sign_flip
from agent_eval.text.numbers import allowed, apart, count, distance, percent

ABSOLUTE = ("min_pass_rate", "max_hard_fail_rate")
"""Limits that need no baseline."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the limits are rows_held against; a case with several trials counts by their share.

    Attributes:
        cases: Cases of the run, without new ones, which never block.
        passed: How many of them passed.
        hard_failed: How many of them failed hard.
        new_cases: Cases left out because the baseline does not have them.
        has_baseline: Whether there is a baseline.
        compared: Cases that both runs have.
        moved: Candidate less baseline, in passed cases.
        hard_fails: Hard fails of each compared case, before and now.
        regressed: Cases that count as regressed.
        new_hard_fails: Those of them that did not fail hard before.
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

    Args:
        own: The run.
        baseline: The run it is compared with; None for a first one.
        quarantined: Cases that count in no total.
        broken: Cases that the procedure blames the change for.
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
    rows_held = [row for name, row in rows.items() if name in pairs] or list(rows.values())
    return Measured(
        cases=len(rows_held),
        passed=sum(map(_passed, rows_held), Fraction(0)),
        hard_failed=sum(map(_hard, rows_held), Fraction(0)),
        new_cases=len(rows) - len(rows_held),
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
    """Measure a whole run as its summary says, without a baseline.

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
    return Measured(
        cases=summary.total_cases,
        passed=Fraction(summary.passed_cases),
        hard_failed=Fraction(summary.hard_fail_cases),
    )


def measure(comparison: Comparison, *, waived: frozenset[str] = frozenset()) -> Measured:
    """Measure a comparison as it is stored: the candidate's whole run, and the compared cases.

    Args:
        comparison: What is measured.
        waived: Cases that count neither as regressed nor as newly hard-failing.

    Raises:
        NothingMeasured: The candidate has no case.
        InvalidInput: The comparison contradicts itself, as an edited or truncated one does.
    """
    run = measure_run(comparison.candidate)
    compared = comparison.cases.compared
    regressed, hard = set(comparison.regressed_case_ids), set(comparison.new_hard_fail_case_ids)
    for name, stated, follows in (
        ("overview.compared_cases", comparison.overview.compared_cases, compared),
        ("overview.regressed_cases", comparison.overview.regressed_cases, len(regressed)),
        ("overview.new_hard_fail_cases", comparison.overview.new_hard_fail_cases, len(hard)),
        ("new_hard_fail_case_ids", len(hard - regressed), 0),
        ("case_regressions", max(len(regressed), compared), compared),
    ):
        if stated != follows:
            raise _contradiction(name)
    before, now = (_count_of(comparison, "pass_rate", side) for side in ("baseline", "candidate"))
    changed = sum(row.candidate_passed - row.baseline_passed for row in comparison.case_regressions)
    if now - before != changed:
        raise _contradiction("metrics.pass_rate")
    hard_before, hard_now = (
        _count_of(comparison, "hard_fail_rate", side) for side in ("baseline", "candidate")
    )
    new = _new_cases(comparison)
    return Measured(
        cases=run.cases - new.cases,
        passed=run.passed - new.passed,
        hard_failed=run.hard_failed - new.hard_failed,
        new_cases=new.cases,
        has_baseline=True,
        compared=compared,
        moved=Fraction(now - before),
        # Which cases they are matters to chance alone, and thresholds alone know none.
        hard_fails=[(Fraction(hard_before), Fraction(hard_now))],
        regressed=len(regressed - waived),
        new_hard_fails=len(hard - waived),
    )


def _new_cases(comparison: Comparison) -> NewCases:
    """Take the new cases of a comparison, which never block.

    All cases count where the candidate has no others, as in a first run, and where cases of the baseline are
    gone: a new case may be one of them under another name.
    """
    new, summary = comparison.new_cases or NewCases(), comparison.candidate.summary
    rest = (
        summary.total_cases - new.cases,
        summary.passed_cases - new.passed,
        summary.hard_fail_cases - new.hard_failed,
    )
    is_stated = comparison.new_cases is None or new.cases == len(comparison.cases.new)
    if not is_stated or not max(rest[1:]) <= rest[0] or min(rest) < 0:
        raise _contradiction("new_cases")
    return new if rest[0] and not comparison.cases.removed else NewCases()


def _count_of(comparison: Comparison, name: str, side: str) -> int:
    """Compute the number of cases from a rate: the nearest float to k/n gives k back for any real suite."""
    metric: Metric | None = comparison.metrics.get(name)
    compared = comparison.cases.compared
    rate: float | None = getattr(metric, side, None)
    if metric is None:
        raise _contradiction(f"metrics.{name}")
    if not compared:
        return 0
    number = round((rate or 0.0) * compared)
    if rate is None or not 0 <= number <= compared or rate != number / compared:
        raise _contradiction(f"metrics.{name}")
    return number


def _contradiction(field: str) -> InvalidInput:
    return InvalidInput(
        f"the comparison contradicts itself in {field}",
        remedy="Make it again with `agent-eval compare`; a comparison is never edited by hand.",
        field=field,
    )


def exact(value: float) -> Fraction:
    """Turn a float back into the decimal that was written: `exact(0.05) == Fraction(1, 20)`."""
    return Fraction(repr(value))


def apply_limits(limits: Thresholds, measured: Measured, *, may_vary: bool) -> list[RuleResult]:
    """Apply every limit that is set, in their order.

    Args:
        limits: The limits.
        measured: What they are rows_held against.
        may_vary: Whether the agent's answers vary, so that a rate breaks its limit only significantly.
    """
    results = []
    for name in type(limits).model_fields:
        limit: float | None = getattr(limits, name)
        if limit is None:
            continue
        counts_blame = measured.blames and name not in (*ABSOLUTE, "max_hard_fail_increase")
        if name in ABSOLUTE and not measured.cases:
            message = f"{name} was not applied: no case that counts could be judged."
            results.append(
                RuleResult(rule=name, threshold=limit, applied=False, passed=False, message=message)
            )
        elif name not in ABSOLUTE and not measured.compared and not counts_blame:
            results.append(_cannot_hold(name, limit, measured))
        elif name in ABSOLUTE:
            results.append(_rate(name, limit, measured, may_vary=may_vary))
        elif name == "max_hard_fail_increase":
            results.append(_hard_fail_increase(limit, measured, may_vary=may_vary))
        else:
            results.append(_number(name, limit, measured))
    return results


def _rate(name: str, threshold: float, measured: Measured, *, may_vary: bool) -> RuleResult:
    """Hold a rate of the run against its limit.

    With chance: an agent that keeps the limit passes so few cases in at most 5 % of runs (binomial). A case
    with several trials counts by their share, and what is over a whole number counts as one.
    """
    is_floor = name == "min_pass_rate"
    number = measured.passed if is_floor else measured.hard_failed
    limit = exact(threshold)
    share = Fraction(number, measured.cases) if measured.cases else Fraction(0)
    is_beyond = share < limit if is_floor else share > limit
    # Fewer passes, or as many cases without a hard fail.
    least_passed = ceil(number) if is_floor else measured.cases - floor(number)
    # A limit that is rows_held to the letter asks for no chance.
    chance = (
        at_most_by_chance(least_passed, measured.cases, limit if is_floor else 1 - limit)
        if may_vary and is_beyond
        else 1.0
    )
    rate = percent(float(share), decimals=apart(float(share), threshold))
    done = f"{_decimal(number)} of {measured.cases} {'passed' if is_floor else 'failed hard'} ({rate})"
    stated = f"{name} {allowed(threshold)}"
    left_out = f" {count(measured.new_cases, 'new case')} left out." if measured.new_cases else ""
    if not is_beyond:
        message = f"{done}, not {'below' if is_floor else 'above'} {stated}."
    elif not may_vary:
        message = f"{done}, {'below' if is_floor else 'above'} {stated}."
    elif chance <= ALPHA:
        few = "passes so few" if is_floor else "fails so many hard"
        message = f"{done}: an agent that keeps {stated} {few} in {_chance(chance)} of runs."
    else:
        many = "so few" if is_floor else "so many"
        message = (
            f"{done}, {'below' if is_floor else 'above'} {stated}; too few cases to tell, as an agent that "
            f"keeps it has {many} in {_chance(chance)} of runs."
        )
    return RuleResult(
        rule=name,
        threshold=threshold,
        value=float(share),
        passed=not is_beyond or (may_vary and chance > ALPHA),
        message=message + left_out,
    )


def _chance(chance: float) -> str:
    return percent(chance, decimals=0) if chance >= 0.01 else f"less than {percent(0.01, decimals=0)}"


def _decimal(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else f"{float(number):.1f}"


def _hard_fail_increase(threshold: float, measured: Measured, *, may_vary: bool) -> RuleResult:
    """Hold the rise of the hard-fail rate against its limit; with chance by an exact sign-flip test too."""
    before = sum((was for was, _ in measured.hard_fails), Fraction(0))
    now = sum((is_now for _, is_now in measured.hard_fails), Fraction(0))
    rise = Fraction(now - before, measured.compared)
    is_beyond = rise > exact(threshold)
    # A case of several trials moves by a share; 60 divides the shares of up to 6, and rounds those of more.
    falls = [round((is_now - was) * 60) for was, is_now in measured.hard_fails]
    chance = sign_flip(falls) if may_vary and is_beyond else 1.0
    is_chance = may_vary and chance > ALPHA
    size = float(rise)
    moved = "did not move" if not rise else f"{'rose' if rise > 0 else 'fell'} by {distance(size)} points"
    over = f"{_decimal(before)} to {_decimal(now)} of {measured.compared} compared cases"
    stated = f"max_hard_fail_increase {allowed(threshold).removesuffix('%')} points"
    side = "above" if is_beyond else "not above"
    why = (
        f"; too few cases to tell, chance alone does as much in {_chance(chance)} of runs"
        if is_chance
        else ""
    )
    return RuleResult(
        rule="max_hard_fail_increase",
        threshold=threshold,
        value=size,
        passed=not is_beyond or is_chance,
        message=f"The hard-fail rate {moved} ({over}), {side} {stated}{why if is_beyond else ''}.",
    )


def _number(name: str, threshold: float, measured: Measured) -> RuleResult:
    number = measured.regressed if name == "max_regressed_cases" else measured.new_hard_fails
    did = "regressed" if name == "max_regressed_cases" else "newly failed hard"
    passed = number <= threshold
    return RuleResult(
        rule=name,
        threshold=threshold,
        value=number,
        passed=passed,
        message=f"{count(number, 'case')} {did}, {'not ' if passed else ''}above {name} {threshold:g}.",
    )


def _cannot_hold(name: str, threshold: float, measured: Measured) -> RuleResult:
    """Build the result of a limit on compared cases where there are none."""
    message = f"{name} cannot hold: no case could be compared with the baseline."
    if not measured.has_baseline:
        message = f"{name} needs a baseline and there is none, so it was not applied."
    return RuleResult(
        rule=name, threshold=threshold, applied=measured.has_baseline, passed=False, message=message
    )
