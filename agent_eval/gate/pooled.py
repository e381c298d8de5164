"""A run held against several earlier ones: the prediction interval for the pass rate of a new run.

The runs are the sample, not their trials: cases of one run share the day, the model's state and the network,
so a run is a cluster and its pass rate one observation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import atan, cos, inf, pi, sin, sqrt
from operator import itemgetter
from statistics import fmean, stdev

from agent_eval.contracts import Comparison, TrialChange
from agent_eval.contracts.gate import GateEvidence, JudgeEvidence, PooledEvidence
from agent_eval.contracts.history import PooledCase, PooledRuns
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.paired import CASES, NOTABLE_DROP
from agent_eval.gate.statistics import Interval, fisher
from agent_eval.gate.waivers import Excuses

FEWEST_RUNS = 4
"""Runs below which the interval says nothing: with three its half width is 4.3 standard deviations."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Where the pass rate of a new run is expected, given those of earlier ones.

    Example:
        >>> usual = predict([0.91, 0.93, 0.90, 0.92], 0.95)
        >>> round(usual.mean, 3), round(usual.half_width, 3)
        (0.915, 0.034)

    Attributes:
        runs: How many earlier runs there are.
        mean: Of their pass rates.
        spread: Their standard deviation.
        half_width: How far below the mean a new run is at most, with the confidence asked for.
    """

    runs: int
    mean: float
    spread: float
    half_width: float

    @property
    def low(self) -> float:
        """The rate below which a run is unusual."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The rate above which a run is unusual."""
        return self.mean + self.half_width


def predict(rates: Sequence[float], confidence: float) -> Prediction:
    """Compute the one-sided prediction interval for one more observation.

    The bound is `mean - t(confidence, K-1) * s * sqrt(1 + 1/K)`, with K rates of mean and standard deviation
    s, and Student's t. Source: G. J. Hahn and W. Q. Meeker, Statistical Intervals, Wiley 1991, section 4.7.

    Raises:
        ValueError: There are fewer than two rates.
    """
    if len(rates) < 2:
        raise ValueError("a prediction needs at least two rates")
    number = len(rates)
    spread = stdev(rates)
    half_width = student_quantile(confidence, number - 1) * spread * sqrt(1 + 1 / number)
    return Prediction(number, fmean(rates), spread, half_width)


def student_cdf(t: float, freedom: int) -> float:
    """Compute the distribution function of Student's t for whole degrees of freedom, in closed form.

    Source: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = atan(t / sqrt(freedom))
    cosine, term, total = cos(angle), 0.0, 0.0
    if freedom % 2:
        term = cosine
        for step in range(3, freedom + 1, 2):
            total += term
            term *= cosine * cosine * (step - 1) / step
        within = 2 / pi * (angle + sin(angle) * total)
    else:
        term = 1.0
        for step in range(2, freedom + 1, 2):
            total += term
            term *= cosine * cosine * (step - 1) / step
        within = sin(angle) * total
    return (1 + within) / 2


@lru_cache(maxsize=256)
def student_quantile(confidence: float, freedom: int) -> float:
    """Compute the t below which a share `confidence` of Student's distribution is.

    Example:
        >>> round(student_quantile(0.95, 7), 4)
        1.8946
    """
    if confidence == 0.5:
        return 0.0
    if confidence < 0.5:
        return -student_quantile(1 - confidence, freedom)
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < confidence and high < inf:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class Weighed:
    """A run held against the pooled runs of the base branch.

    Example:
        >>> cases = [PooledCase(runs=((1, 1),) * 8, own=(0, 1)) for _ in range(3)]
        >>> steady = [PooledCase(runs=((1, 1),) * 8, own=(1, 1)) for _ in range(27)]
        >>> weighed = weigh([*cases, *steady], alpha=0.05, confidence=0.95)
        >>> round(weighed.drop, 3), weighed.p_value < 0.05
        (0.1, True)

    Attributes:
        usual: Where a new run is expected, at `1 - alpha`.
        rate: The pass rate of the run, the mean over cases.
        p_value: One-sided, that a run of the same agent has a rate this low.
        interval: Of the drop, two-sided.
        power_for_ten_points: The chance to see a drop of ten points.
    """

    usual: Prediction
    rate: float
    p_value: float
    interval: Interval
    power_for_ten_points: float

    @property
    def drop(self) -> float:
        """How far the rate is below the mean of the pooled runs."""
        return self.usual.mean - self.rate


def weigh(cases: Sequence[PooledCase], *, alpha: float, confidence: float) -> Weighed:
    """Hold a run against pooled runs.

    A run is unusual only by two tests at once: the prediction interval, in which a run is one observation,
    and Fisher's exact test of the pooled trials, which is not misled by the skew of few cases. Cases that
    never passed in the pool cannot get worse and are left out of the second. The spread of the runs is at
    least what one trial of a run is worth: few runs that are all alike do not show that none will differ.
    A run with fewer trials of a case than the pooled runs had varies more than they do, by what chance adds
    to the mean of so few; one with more is taken to vary as they do.

    Args:
        cases: The compared cases; at least one, with at least two runs.
        alpha: The chance of calling noise a regression.
        confidence: Of the two-sided interval of the drop.
    """
    number = len(cases[0].runs)
    every = [case.runs for case in cases]
    runs = [Counter(map(itemgetter(run), every)) for run in range(number)]
    own = Counter(case.own for case in cases)
    rates, rate = [_rate(counts) for counts in runs], _rate(own)
    spread = max(stdev(rates), 1 / _sums(own)[1])
    pool = sum(runs, Counter())
    more = _more_variance(cases, pool, own)
    error, drop = sqrt(spread**2 * (1 + 1 / number) + more), fmean(rates) - rate
    critical = student_quantile(1 - alpha, number - 1)
    half_width = student_quantile((1 + confidence) / 2, number - 1) * error
    return Weighed(
        usual=Prediction(number, fmean(rates), spread, critical * error),
        rate=rate,
        p_value=max(student_cdf(-drop / error, number - 1), _exact_p_value(cases, pool, own)),
        interval=Interval(drop - half_width, drop + half_width),
        power_for_ten_points=1 - student_cdf(critical - NOTABLE_DROP / error, number - 1),
    )


Counts = Counter[tuple[int, int]]
"""How many cases have so many passed and scored trials: few numbers differ among many cases."""


def _more_variance(cases: Sequence[PooledCase], pool: Counts, own: Counts) -> float:
    """Estimate how much more the rate of a run varies than that of a pooled run, by its fewer trials.

    A trial of a case varies by p(1-p), estimated without bias from the pooled trials of the case; the mean of
    m of them by that over m.
    """
    if min(scored for _, scored in own) >= max(scored for _, scored in pool):
        return 0.0
    more = 0.0
    for case in cases:
        trials = sum(scored for _, scored in case.runs)
        rate = sum(passed for passed, _ in case.runs) / trials
        of_a_trial = rate * (1 - rate) * trials / max(1, trials - 1)
        more += of_a_trial * (1 / case.own[1] - fmean(1 / scored for _, scored in case.runs))
    return max(0.0, more) / len(cases) ** 2


def _rate(counts: Counts) -> float:
    """Compute the mean over cases of the share of trials that passed."""
    shares = (Fraction(passed * times, scored) for (passed, scored), times in counts.items())
    return float(sum(shares, Fraction(0)) / counts.total())


def _exact_p_value(cases: Sequence[PooledCase], pool: Counts, own: Counts) -> float:
    """Compute Fisher's one-sided p value of the run's trials against those of the pool.

    Args:
        cases: Those that never passed in the pool are left out: they cannot get worse.
        pool: Trials of all cases in all pooled runs.
        own: Trials of all cases in the run.
    """
    # The greatest pair is the one with the most passed trials.
    unable = [case for case in cases if not max(case.runs)[0]]
    pool = pool - Counter(run for case in unable for run in case.runs)
    own = own - Counter(case.own for case in unable)
    return fisher(*_sums(own), *_sums(pool))


def _sums(counts: Counts) -> tuple[int, int]:
    """Add up passed and scored trials."""
    return (
        sum(passed * times for (passed, _), times in counts.items()),
        sum(scored * times for (_, scored), times in counts.items()),
    )


def worse_outside(pool: PooledRuns, comparison: Comparison, excuses: Excuses) -> list[str]:
    """List the compared cases that got worse and are not among the pooled ones, by id.

    The tests over the pooled cases say nothing of these: a change could take what it breaks out of the pool
    by touching its definition. Where there is one, the single baseline decides, which has all of them.
    """
    worse = set(comparison.regressed_case_ids)
    if comparison.trials is not None:
        worse.update(row.case_id for row in comparison.trials.changes if row.judge_id is None and _fell(row))
    excused = excuses.cases | excuses.waived_rates | excuses.quarantine
    return sorted(worse - pool.cases.keys() - excused)


def _fell(change: TrialChange) -> bool:
    before, now = change.baseline, change.candidate
    return now.passed * before.judged < before.passed * now.judged


def pooled_evidence(
    evidence: GateEvidence, pool: PooledRuns | None, excuses: Excuses, policy: GatePolicy
) -> GateEvidence:
    """Put the pooled runs in place of the single baseline in the tests of a decision.

    Tests of single judges and topics have one earlier run to compare with, and are not decided on then: the
    chance of a false alarm stays that of one test. What is waived or in quarantine does not count.

    Args:
        evidence: Of the comparison with the single baseline.
        pool: The pooled runs; None where the single baseline decides.
        excuses: Waivers and quarantine.
        policy: Of the gate.
    """
    excused = excuses.cases | excuses.waived_rates | excuses.quarantine
    cases = [case for name, case in pool.cases.items() if name not in excused] if pool is not None else []
    if pool is None or not cases:
        return evidence
    weighed = weigh(cases, alpha=policy.alpha, confidence=policy.confidence)
    return evidence.model_copy(
        update={
            "method": "pooled-prediction",
            "drop": weighed.drop,
            "interval_low": weighed.interval.low,
            "interval_high": weighed.interval.high,
            "p_value": weighed.p_value,
            "e_value": None,
            "power_for_ten_points": weighed.power_for_ten_points,
            "cases_needed": None,
            "judges": [_judge(judge, weighed, policy.alpha) for judge in evidence.judges],
            "topics": [topic.model_copy(update={"significant": False}) for topic in evidence.topics],
            "topic_clusters": None,
            "pooled": PooledEvidence(
                runs=weighed.usual.runs,
                cases=len(cases),
                mean=weighed.usual.mean,
                rate=weighed.rate,
                low=max(0.0, weighed.usual.low),
                run_ids=list(pool.run_ids),
                sha256=pool.sha256,
            ),
        }
    )


def _judge(judge: JudgeEvidence, weighed: Weighed, alpha: float) -> JudgeEvidence:
    if judge.judge_id != CASES:
        return judge.model_copy(update={"significant": False})
    return judge.model_copy(update={"p_value": weighed.p_value, "significant": weighed.p_value <= alpha})
