"""Every test of the gate held against scipy, statsmodels and numpy, up to a million cases.

`make oracles` installs them; without them these tests are left out, and fail on CI.
"""

from __future__ import annotations

import importlib
import random
from itertools import product
from math import isclose, log, sqrt
from typing import Any

import pytest
from agent_eval.gate.permutation import TrialPair, permutation_test
from agent_eval.gate.pooled import predict, student_cdf, student_quantile, weigh
from agent_eval.gate.power import non_inferiority_power, paired_power
from agent_eval.gate.topics import Clusters

from agent_eval.contracts.history import PooledCase
from agent_eval.gate.drift import ALARM_AT, Counted, cusum, drift_since, fell_too
from agent_eval.gate.statistics import (
    clustered_standard_error,
    e_value,
    fisher,
    holm_discrete,
    mcnemar,
    sign_flip_test,
    tango_interval,
    tango_score,
    wilson,
)
from tests.extent import unavailable

MILLION = 1_000_000


def oracle(module: str) -> Any:
    """One of the extra `oracles`, which `make oracles` installs."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        unavailable(f"without {module.partition('.')[0]} (make oracles installs it)")


def test_mcnemar_is_scipys_binomial_test() -> None:
    binomtest = oracle("scipy.stats").binomtest
    for regressed, fixed in product(range(20), range(20)):
        if regressed + fixed:
            test = binomtest(regressed, regressed + fixed, alternative="greater")
            assert isclose(mcnemar(regressed, fixed), test.pvalue, abs_tol=1e-12)
    for pairs in (2_000, 100_000, MILLION):
        for regressed in (pairs // 2 - 300, pairs // 2, pairs // 2 + 700, round(pairs * 0.505)):
            tail = oracle("scipy.stats").binom.sf(regressed - 1, pairs, 0.5)
            assert isclose(mcnemar(regressed, pairs - regressed), tail, rel_tol=1e-9)


def test_mcnemar_is_that_of_statsmodels() -> None:
    tables = oracle("statsmodels.stats.contingency_tables")
    for regressed, fixed in product(range(1, 20), range(1, 20)):
        exact = tables.mcnemar([[0, regressed], [fixed, 0]], exact=True).pvalue
        worse = mcnemar(max(regressed, fixed), min(regressed, fixed))
        assert isclose(min(1.0, 2 * worse), exact, abs_tol=1e-12)


@pytest.mark.parametrize("total", [20, 1_000, MILLION])
def test_wilsons_interval_is_that_of_statsmodels(total: int) -> None:
    confint = oracle("statsmodels.stats.proportion").proportion_confint
    for passed in (0, 1, total // 3, total - 1, total):
        low, high = confint(passed, total, method="wilson")
        found = wilson(passed, total)
        assert isclose(found.low, low, abs_tol=1e-12)
        assert isclose(found.high, high, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("regressed", "fixed", "total", "drop"),
    [
        (3, 1, 20, 0.05),
        (0, 0, 50, 0.1),
        (7, 12, 200, -0.02),
        (400, 300, 10_000, 0.0),
        (900, 800, MILLION, 0.001),
    ],
)
def test_tangos_score_is_that_of_the_likelihood_maximised_by_scipy(
    regressed: int, fixed: int, total: int, drop: float
) -> None:
    minimize = oracle("scipy.optimize").minimize_scalar

    def lost(up: float) -> float:
        down, same = up + drop, 1 - 2 * up - drop
        counts = ((regressed, down), (fixed, up), (total - regressed - fixed, same))
        return -sum(count * log(max(share, 1e-300)) for count, share in counts if count)

    lowest, highest = max(0.0, -drop), (1 - drop) / 2
    up = minimize(lost, bounds=(lowest, highest), method="bounded", options={"xatol": 1e-14}).x
    variance = total * (2 * up + drop - drop * drop)
    expected = (regressed - fixed - total * drop) / sqrt(variance)
    assert isclose(tango_score(regressed, fixed, total, drop), expected, rel_tol=1e-4)


@pytest.mark.parametrize(
    ("regressed", "fixed", "total"), [(3, 1, 20), (0, 0, 50), (120, 90, 5_000), (9_000, 8_900, MILLION)]
)
def test_tangos_interval_ends_where_scipy_finds_the_roots_of_his_score(
    regressed: int, fixed: int, total: int
) -> None:
    brentq, z = oracle("scipy.optimize").brentq, oracle("scipy.stats").norm.ppf(0.975)
    found, centre = tango_interval(regressed, fixed, total), (regressed - fixed) / total
    low = brentq(lambda drop: tango_score(regressed, fixed, total, drop) - z, -0.999, centre - 1e-12)
    high = brentq(lambda drop: tango_score(regressed, fixed, total, drop) + z, centre + 1e-12, 0.999)
    assert isclose(found.low, low, abs_tol=1e-9)
    assert isclose(found.high, high, abs_tol=1e-9)


def test_fishers_test_is_that_of_scipy() -> None:
    exact = oracle("scipy.stats").fisher_exact
    for now, before in product(range(7), range(7)):
        table = [[now, 6 - now], [before, 6 - before]]
        assert isclose(fisher(now, 6, before, 6), exact(table, alternative="less").pvalue, rel_tol=1e-9)


@pytest.mark.parametrize("trials", [101, 5_000, MILLION])
@pytest.mark.parametrize("pool", [1, 20])
def test_fishers_test_of_many_trials_is_scipys_hypergeometric_tail(trials: int, pool: int) -> None:
    hypergeom = oracle("scipy.stats").hypergeom
    passed = round(0.9 * trials * pool)
    for fewer in (-3, 0, 1, 2, 4):
        now = min(trials, round(0.9 * trials - fewer * sqrt(0.09 * trials)))
        tail = hypergeom.cdf(now, trials * (1 + pool), now + passed, trials)
        assert isclose(fisher(now, trials, passed, trials * pool), tail, rel_tol=1e-6)


def test_the_family_of_hypotheses_is_holms() -> None:
    multipletests = oracle("statsmodels.stats.multitest").multipletests
    source = random.Random(1)
    for number in (*range(1, 12), 300, 20_000):
        p = [source.random() ** (3 if number < 300 else 9) for _ in range(number)]
        assert holm_discrete(p, [0.0] * number) == list(multipletests(p, 0.05, "holm")[0])


def test_sign_flips_are_scipys_permutations() -> None:
    stats, numpy = oracle("scipy.stats"), oracle("numpy")
    source = random.Random(2)
    for number in (4, 9, 12):
        drops = [source.choice((-0.75, -0.25, 0.25, 0.5, 1.0)) for _ in range(number)]
        exact = stats.permutation_test(
            (numpy.array(drops),),
            numpy.mean,
            permutation_type="samples",
            alternative="greater",
            n_resamples=numpy.inf,
        )
        assert isclose(sign_flip_test(drops), exact.pvalue, abs_tol=1e-12)
        quarters = [TrialPair(4, 4, round(4 - 4 * drop), 4) for drop in drops if drop > 0]
        quarters += [TrialPair(round(4 + 4 * drop), 4, 4, 4) for drop in drops if drop < 0]
        assert isclose(permutation_test(quarters).p_value, exact.pvalue, abs_tol=1e-12)


def test_one_case_dealt_again_is_fishers_test_of_its_trials() -> None:
    exact = oracle("scipy.stats").fisher_exact
    for before, now in product(range(5), range(7)):
        p_value = permutation_test([TrialPair(before, 4, now, 6)]).p_value
        table = [[now, 6 - now], [before, 4 - before]]
        assert isclose(p_value, exact(table, alternative="less").pvalue, abs_tol=1e-12)


@pytest.mark.parametrize("cases", [100_000, MILLION])
def test_many_cases_of_one_trial_are_mcnemars_pairs(cases: int) -> None:
    tail = oracle("scipy.stats").binom.sf
    regressed = cases // 2 + round(0.7 * sqrt(cases))
    pairs = [TrialPair(1, 1, 0, 1)] * regressed + [TrialPair(0, 1, 1, 1)] * (cases - regressed)
    expected = tail(regressed - 1, cases, 0.5)
    assert isclose(permutation_test(pairs).p_value, expected, abs_tol=1e-4)
    drops = [float(pair.drop) for pair in pairs]
    assert isclose(sign_flip_test(drops), expected, abs_tol=1e-4)


@pytest.mark.parametrize(("regressed", "fixed"), [(3, 0), (40, 25), (6_000, 5_700), (500_900, 499_100)])
def test_the_e_value_is_the_likelihood_that_scipys_beta_integrates(regressed: int, fixed: int) -> None:
    beta, special = oracle("scipy.stats").beta, oracle("scipy.special")
    # 2 * the integral of s^b (1-s)^c from 1/2 to 1, against (1/2)^(b+c), by logarithms.
    above = beta.logsf(0.5, regressed + 1, fixed + 1)
    expected = log(2) + above + special.betaln(regressed + 1, fixed + 1) + (regressed + fixed) * log(2)
    assert isclose(log(e_value(regressed, fixed)), expected, abs_tol=1e-6)


@pytest.mark.parametrize("clusters", [12, 500, 100_000])
def test_the_clustered_error_is_that_of_statsmodels(clusters: int) -> None:
    api, numpy = oracle("statsmodels.api"), oracle("numpy")
    source = random.Random(3)
    groups = [
        [source.choice((-1.0, 0.0, 0.0, 1.0)) for _ in range(source.randrange(1, 18))]
        for _ in range(clusters)
    ]
    scores = numpy.array([score for group in groups for score in group])
    labels = numpy.repeat(numpy.arange(clusters), [len(group) for group in groups])
    fit = api.OLS(scores, numpy.ones(len(scores))).fit(
        cov_type="cluster", cov_kwds={"groups": labels, "use_correction": False}
    )
    assert isclose(clustered_standard_error(groups), fit.bse[0], rel_tol=1e-9)


def test_the_test_by_topics_flips_whole_topics() -> None:
    stats, numpy = oracle("scipy.stats"), oracle("numpy")
    drops = [[1.0, 1.0], [-1.0], [1.0, 0.5, 1.0], [], [1.0], [-1.0, -0.5], [1.0], [0.5], [1.0, 1.0], [-1.0]]
    exact = stats.permutation_test(
        (numpy.array([sum(topic) for topic in drops]),),
        numpy.sum,
        permutation_type="samples",
        alternative="greater",
        n_resamples=numpy.inf,
    )
    assert isclose(Clusters([10] * 10, drops).p_value, exact.pvalue, abs_tol=1e-12)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 19, 99])
def test_students_distribution_is_that_of_scipy(freedom: int) -> None:
    student = oracle("scipy.stats").t
    for t in (-3.0, -0.4, 0.0, 1.7, 6.0):
        assert isclose(student_cdf(t, freedom), student.cdf(t, freedom), abs_tol=1e-12)
    for confidence in (0.8, 0.95, 0.999):
        assert isclose(student_quantile(confidence, freedom), student.ppf(confidence, freedom), rel_tol=1e-9)


def test_the_prediction_is_that_of_statsmodels_for_a_new_observation() -> None:
    api, numpy = oracle("statsmodels.api"), oracle("numpy")
    source = random.Random(4)
    for number in (4, 8, 20, 100):
        rates = [source.gauss(0.9, 0.02) for _ in range(number)]
        fit = api.OLS(numpy.array(rates), numpy.ones(number)).fit()
        low, high = (
            fit.get_prediction(numpy.ones((1, 1)))
            .summary_frame(alpha=0.1)[["obs_ci_lower", "obs_ci_upper"]]
            .to_numpy()[0]
        )
        found = predict(rates, 0.95)
        assert isclose(found.low, low, abs_tol=1e-12)
        assert isclose(found.high, high, abs_tol=1e-12)


@pytest.mark.parametrize("cases", [50, 100_000])
def test_a_run_is_weighed_by_scipys_distributions(cases: int) -> None:
    stats, numpy = oracle("scipy.stats"), oracle("numpy")
    drawn = numpy.random.default_rng(5).random((cases, 9)) < 0.9
    pooled = [PooledCase(runs=tuple((int(one), 1) for one in row[:8]), own=(int(row[8]), 1)) for row in drawn]
    weighed = weigh(pooled, alpha=0.05, confidence=0.95)
    rates, rate = drawn[:, :8].mean(axis=0), drawn[:, 8].mean()
    by_runs = stats.t.cdf((rate - rates.mean()) / (rates.std(ddof=1) * sqrt(1 + 1 / 8)), 7)
    able = drawn[drawn[:, :8].any(axis=1)]
    own, pool = int(able[:, 8].sum()), int(able[:, :8].sum())
    by_trials = stats.hypergeom.cdf(own, 9 * len(able), own + pool, len(able))
    assert isclose(weighed.p_value, max(by_runs, by_trials), rel_tol=1e-6)


def test_power_is_the_mean_of_scipys_distributions() -> None:
    stats, numpy = oracle("scipy.stats"), oracle("numpy")
    for total, discordant, drop in ((60, 0.3, 0.15), (400, 0.2, 0.05)):
        numbers = numpy.arange(total + 1)
        likely = stats.binom.pmf(numbers, total, discordant)
        critical = stats.binom.isf(0.05, numbers, 0.5) + 1
        seen = stats.binom.sf(critical - 1, numbers, (discordant + drop) / (2 * discordant))
        assert isclose(paired_power(drop, discordant, total), float((likely * seen).sum()), abs_tol=1e-9)
        passing = [
            max(
                (b for b in range(number + 1) if tango_interval(b, number - b, total).high < 0.05), default=-1
            )
            for number in range(total + 1)
            if likely[number] > 1e-12
        ]
        kept = [number for number in range(total + 1) if likely[number] > 1e-12]
        passes = sum(
            float(likely[number] * stats.binom.cdf(most, number, 0.5))
            for number, most in zip(kept, passing, strict=True)
        )
        assert isclose(non_inferiority_power(0.05, discordant, total), passes, abs_tol=1e-9)


def _run_lengths(numpy: Any, rate: float, trials: int = 36, good: float = 0.94, bad: float = 0.84) -> float:
    """Mean number of runs until the alarm, by a Markov chain on a fine grid (Brook, Evans, 1972)."""
    stats = oracle("scipy.stats")
    states = 1600
    width = ALARM_AT / states
    steps = [
        (passed * log(bad / good) + (trials - passed) * log((1 - bad) / (1 - good)), passed)
        for passed in range(trials + 1)
    ]
    moves = numpy.zeros((states, states))
    for state in range(states):
        for step, passed in steps:
            level = max(0.0, state * width + step)
            place = round(level / width)
            if level < ALARM_AT and place < states:
                moves[state, place] += stats.binom.pmf(passed, trials, rate)
    return float(numpy.linalg.solve(numpy.eye(states) - moves, numpy.ones(states))[0])


def test_the_alarm_is_as_rare_and_as_fast_as_a_markov_chain_says() -> None:
    numpy = oracle("numpy")
    calm, broken = _run_lengths(numpy, 0.94), _run_lengths(numpy, 0.84)
    assert 280 < calm < 400
    assert 2 < broken < 3
    draws = numpy.random.default_rng(6).binomial(36, 0.84, size=(400, 40))
    sums = [cusum([Counted(int(one), 36) for one in row], 0.94, 0.84)[0] for row in draws]
    waited = [next(number for number, level in enumerate(each, 1) if level >= ALARM_AT) for each in sums]
    assert isclose(sum(waited) / len(waited), broken, rel_tol=0.1)


def test_a_release_is_held_against_the_mean_by_students_distribution() -> None:
    stats, numpy = oracle("scipy.stats"), oracle("numpy")
    rates = [0.91, 0.88, 0.93, 0.90, 0.86, 0.92]
    release = Counted(950, 1_000)
    drift = drift_since(release, [Counted(round(rate * 100), 100) for rate in rates])
    error = sqrt(numpy.var(rates, ddof=1) / len(rates) + 0.95 * 0.05 / 1_000)
    low = 0.95 - numpy.mean(rates) - stats.t.ppf(0.95, len(rates) - 1) * error
    assert drift.lost_at_least is not None
    assert isclose(drift.lost_at_least, low, abs_tol=1e-4)


def test_a_release_that_fell_is_told_by_scipys_tail_among_a_million_trials() -> None:
    tail = oracle("scipy.stats").hypergeom.cdf
    for now in (899_000, 899_295, 899_310, 900_500):
        p_value = tail(now, 2 * MILLION, now + 900_000, MILLION)
        assert fell_too(Counted(900_000, MILLION), Counted(now, MILLION)) == (p_value <= 0.05)
