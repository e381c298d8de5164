"""Every test of the gate held against scipy and statsmodels.

`make oracles` installs them; without them these tests are left out, and fail on CI.
"""

from __future__ import annotations

import gc
import importlib
import random
from fractions import Fraction
from itertools import product
from math import isclose, log, sqrt
from typing import Any

import pytest

from agent_eval.gate.procedure import Case
from agent_eval.gate.statistics import (
    Count,
    at_most_by_chance,
    fisher,
    holm,
    p_of_rise,
    sign_flip,
    student_cdf,
    student_quantile,
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


def test_fishers_test_is_scipys() -> None:
    exact = oracle("scipy.stats").fisher_exact
    for x, a, y, b in [
        *((x, 8, y, 8) for x, y in product(range(9), repeat=2)),
        *((x, 8, y, 20) for x, y in product(range(9), range(21))),
        (3, 80, 70, 80),
        (0, 1, 1, 1),
    ]:
        expected = exact([[x, a - x], [y, b - y]], alternative="less").pvalue
        assert isclose(fisher(x, a, y, b), expected, abs_tol=1e-12)


def test_the_sign_flip_test_of_one_trial_is_mcnemars() -> None:
    binomtest = oracle("scipy.stats").binomtest
    for fell, rose in product(range(15), repeat=2):
        if fell + rose:
            expected = binomtest(fell, fell + rose, alternative="greater").pvalue
            assert isclose(sign_flip([1] * fell + [-1] * rose), expected, abs_tol=1e-12)


def test_the_sign_flip_test_is_scipys_permutation_test_of_one_sample() -> None:
    permutation_test = oracle("scipy.stats").permutation_test
    source = random.Random(1)
    for _ in range(20):
        falls = [source.choice([-3, -2, -1, 1, 2, 3]) for _ in range(source.randint(2, 9))]
        found = permutation_test(
            (falls,), lambda sample, axis: sample.sum(axis=axis), permutation_type="samples",
            alternative="greater", vectorized=True,
        )  # fmt: skip
        assert isclose(sign_flip(falls), found.pvalue, abs_tol=1e-12)


def test_holms_correction_is_that_of_statsmodels(monkeypatch: pytest.MonkeyPatch) -> None:
    multipletests = oracle("statsmodels.stats.multitest").multipletests
    monkeypatch.setattr(gc, "collect", lambda: 0)  # which it does for each correction
    source = random.Random(2)
    for _ in range(200):
        p_values = [source.choice([1e-5, 0.004, 0.012, 0.02, 0.3, 1.0]) for _ in range(source.randint(1, 12))]
        expected = multipletests(p_values, alpha=0.05, method="holm")[0]
        assert holm(dict(enumerate(p_values)), 0.05) == {k for k, is_told in enumerate(expected) if is_told}


@pytest.mark.parametrize("trials", [1, 20, 500, 501, 10_000])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(19, 20), Fraction(9999, 10_000)])
def test_the_binomial_tail_is_scipys(trials: int, rate: Fraction) -> None:
    cdf = oracle("scipy.stats").binom.cdf
    for passed in {0, trials // 2, trials - 2, trials - 1, trials} - {-1}:
        found = at_most_by_chance(passed, trials, rate)
        assert isclose(found, cdf(passed, trials, float(rate)), rel_tol=1e-8, abs_tol=1e-300)


def test_a_case_of_complete_reruns_has_fishers_p_value() -> None:
    case = Case(now=Count(0, 1), main=Count(20, 20), change=Count(2, 8), base=Count(8, 8))
    expected = oracle("scipy.stats").fisher_exact([[2, 6], [8, 0]], alternative="less").pvalue
    assert isclose(case.p_value, expected, abs_tol=1e-12)


def test_students_distribution_and_the_paired_test_are_scipys() -> None:
    stats = oracle("scipy.stats")
    for value, freedom in product([-4.0, -0.5, 0.0, 1.3, 2.7], [1, 3, 8, 40]):
        assert isclose(student_cdf(value, freedom), stats.t.cdf(value, freedom), abs_tol=1e-10)
    for freedom in (1, 4, 49):
        assert isclose(student_quantile(0.975, freedom), stats.t.ppf(0.975, freedom), rel_tol=1e-8)
    rises = [0.1, -0.05, 0.3, 0.2, 0.0, 0.15, -0.1, 0.4]
    expected = stats.ttest_1samp(rises, 0, alternative="greater").pvalue
    assert isclose(p_of_rise(rises), expected, rel_tol=1e-8)


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
        (3, 1, 20, 0.05), (0, 0, 50, 0.1), (7, 12, 200, -0.02), (400, 300, 10_000, 0.0),
        (900, 800, MILLION, 0.001),
    ],
)  # fmt: skip
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
def test_tangos_interval_ends_at_the_roots_of_his_score(regressed: int, fixed: int, total: int) -> None:
    brentq, z = oracle("scipy.optimize").brentq, oracle("scipy.stats").norm.ppf(0.975)
    (found_low, found_high), centre = tango_interval(regressed, fixed, total), (regressed - fixed) / total
    low = brentq(lambda drop: tango_score(regressed, fixed, total, drop) - z, -0.999, centre - 1e-12)
    high = brentq(lambda drop: tango_score(regressed, fixed, total, drop) + z, centre + 1e-12, 0.999)
    assert isclose(found_low, low, abs_tol=1e-9)
    assert isclose(found_high, high, abs_tol=1e-9)
