from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import comb, inf, isclose, sqrt
from typing import Any

import pytest
from agent_eval.gate.binomial import drawn_at_most
from agent_eval.gate.power import (
    MOST_PAIRS,
    critical_regressions,
    mean_cases_needed,
    mean_non_inferiority_cases,
    mean_non_inferiority_power,
    mean_power,
    non_inferiority_cases,
    non_inferiority_power,
    paired_cases_needed,
    paired_power,
    runs_to_see_flake,
)
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate import statistics
from agent_eval.gate.statistics import (
    EXACT_PAIRS,
    Interval,
    clustered_interval,
    clustered_standard_error,
    e_value,
    entropy,
    fisher,
    holm_discrete,
    mcnemar,
    pass_at_k,
    pass_hat_k,
    sign_flip_test,
    tango_interval,
    tango_score,
    wilson,
)
from tests.real import taubench

pairs = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 200))
p_values = st.lists(st.floats(0, 1), max_size=8)


def rounded(interval: Interval) -> tuple[float, float]:
    return round(interval.low, 4), round(interval.high, 4)


def test_published_and_hand_computed_values() -> None:
    assert rounded(wilson(81, 263)) == (0.2553, 0.3662)
    assert rounded(wilson(0, 20)) == (0.0, 0.1611)
    assert round(mcnemar(7, 1), 4) == 0.0352
    assert rounded(tango_interval(1, 7, 21)) == (-0.5172, -0.0260)
    assert round(e_value(10, 0), 2) == 186.09
    assert (runs_to_see_flake(0.05), runs_to_see_flake(0.01)) == (59, 299)


def test_the_worked_example_of_eleven_discordant_pairs() -> None:
    found = tango_interval(7, 4, 50)
    assert (f"{found.low:.1%}", f"{found.high:.1%}") == ("-7.8%", "20.0%")
    assert round(mcnemar(7, 4), 3) == 0.274
    assert round(e_value(7, 4), 2) == 0.83
    assert round(paired_power(0.10, 0.22, 50), 2) == 0.33
    assert paired_cases_needed(0.10, 0.22) == 146


def test_a_p_value_of_exactly_its_bound_is_rejected() -> None:
    assert holm_discrete([0.025, 0.05], [0.0, 0.0]) == [True, True]
    assert holm_discrete([0.026, 0.05], [0.0, 0.0]) == [False, False]


def test_wilson_ends_at_none_and_all_exactly() -> None:
    for total in range(1, 60):
        assert wilson(0, total).low == 0.0
        assert wilson(total, total).high == 1.0
        assert 0 < wilson(1, total + 1).low < wilson(1, total + 1).high < 1


def test_sign_flips_that_reach_exactly_what_was_observed_count() -> None:
    # 13 cases are drawn at random, 12 are counted through: 2^-12 of the patterns is the observed one.
    assert sign_flip_test([0.1] * 12) == 2.0**-12
    assert sign_flip_test([0.1] * 13) != 2.0**-13
    assert sign_flip_test([0.1, 0.2, 0.3]) == 1 / 8
    # Floats of 0.1 + 0.2 and 0.3 differ by a rounding error, which is no difference.
    assert sign_flip_test([0.1, 0.2, -0.3]) == 5 / 8
    half = [1.0] * 10 + [-1.0] * 10
    # As many up as down: more than half of all draws reach what was observed.
    assert abs(sign_flip_test(half) - mcnemar(10, 10)) < 0.02
    assert sign_flip_test(half) == sign_flip_test(half, seed=0, rounds=10_000)
    tenths = [0.1] * 10 + [-0.1] * 10
    assert sign_flip_test(tenths) == pytest.approx(sign_flip_test(half), abs=1e-9)


def test_pass_hat_k_of_tau_bench() -> None:
    rows = list(taubench.passes().values())
    assert (len(rows), {len(row) for row in rows}) == (50, {4})
    curve = [sum(pass_hat_k(sum(row), 4, k) for row in rows) / 50 for k in (1, 2, 3, 4)]
    assert [f"{share:.3f}" for share in curve] == ["0.420", "0.273", "0.220", "0.200"]


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_contains_the_share_and_mirrors(successes: int, failures: int, confidence: float) -> None:
    total = successes + failures
    found = wilson(successes, total, confidence)
    assert 0 <= found.low <= found.high <= 1
    if total:
        assert found.low <= successes / total <= found.high
    mirrored = wilson(failures, total, confidence)
    assert isclose(found.low, 1 - mirrored.high, abs_tol=1e-12)


@given(pairs)
def test_mcnemar_is_a_probability_that_falls_with_each_regression(counts: tuple[int, int, int]) -> None:
    regressed, fixed, _ = counts
    p_value = mcnemar(regressed, fixed)
    assert 0 <= p_value <= 1
    assert mcnemar(regressed + 1, fixed) <= p_value <= mcnemar(regressed, fixed + 1)
    # Either as many heads or more, or fewer.
    assert isclose(p_value + mcnemar(fixed + 1, regressed - 1), 1.0) if regressed else p_value == 1.0


@pytest.mark.parametrize("regressed", [EXACT_PAIRS, 700, 501, 500, 400, 0])
def test_beyond_the_exact_sum_floats_go_on_where_it_ended(regressed: int) -> None:
    pairs = EXACT_PAIRS + 1
    exact = Fraction(sum(comb(pairs, heads) for heads in range(regressed, pairs + 1)), 2**pairs)
    assert isclose(mcnemar(regressed, pairs - regressed), exact, rel_tol=1e-11)
    assert mcnemar(regressed, EXACT_PAIRS - regressed) >= mcnemar(regressed + 1, EXACT_PAIRS - regressed)


@given(st.integers(0, 10), st.integers(0, 10))
def test_the_one_sided_p_is_the_share_of_coin_flips_at_least_as_bad(regressed: int, fixed: int) -> None:
    total = regressed + fixed
    as_bad = sum(comb(total, heads) for heads in range(regressed, total + 1))
    assert isclose(mcnemar(regressed, fixed), as_bad / 2**total)


@given(pairs)
def test_tango_contains_the_drop_mirrors_and_solves_its_equation(counts: tuple[int, int, int]) -> None:
    regressed, fixed, rest = counts
    total = regressed + fixed + rest
    found = tango_interval(regressed, fixed, total)
    assert -1 <= found.low <= found.high <= 1
    if not total:
        return
    assert found.low - 1e-9 <= (regressed - fixed) / total <= found.high + 1e-9
    mirrored = tango_interval(fixed, regressed, total)
    assert isclose(found.low, -mirrored.high, abs_tol=1e-9)
    if found.low > -1 and found.high < 0.999999:
        assert isclose(tango_score(regressed, fixed, total, found.high), -1.959964, abs_tol=1e-4)


def test_tango_narrows_with_more_cases() -> None:
    ends = [tango_interval(2 * n, n, 50 * n).high for n in (1, 2, 4, 8, 16)]
    assert ends == sorted(ends, reverse=True)


@given(p_values)
def test_holm_by_its_definition(p: list[float]) -> None:
    ordered = sorted(p)
    count = 0
    while count < len(p) and ordered[count] <= 0.05 / (len(p) - count):
        count += 1
    rejected = holm_discrete(p, [0.0] * len(p))
    assert sum(rejected) == count
    assert sorted(value for value, no in zip(p, rejected, strict=True) if no) == ordered[:count]


def test_hypotheses_that_could_never_be_rejected_cost_no_power() -> None:
    p = [0.04, 1.0, 1.0, 1.0, 0.25]
    attainable = [2.0**-9, 1.0, 1.0, 1.0, 0.25]
    assert holm_discrete(p, [0.0] * 5) == [False] * 5
    assert holm_discrete(p, attainable) == [True, False, False, False, False]


def test_the_discrete_procedure_keeps_the_family_wise_error_exactly() -> None:
    """Enumerates every outcome of three independent tests with 4, 6 and 9 discordant pairs."""
    sizes = (4, 6, 9)
    attainable = [0.5**size for size in sizes]
    wrong = 0.0
    for counts in product(*(range(size + 1) for size in sizes)):
        chance = 1.0
        for count, size in zip(counts, sizes, strict=True):
            chance *= comb(size, count) / 2**size
        p = [mcnemar(count, size - count) for count, size in zip(counts, sizes, strict=True)]
        wrong += chance * any(holm_discrete(p, attainable))
    assert 0 < wrong <= 0.05


@given(st.integers(1, 12), st.data())
def test_pass_hat_k_and_pass_at_k_are_those_of_drawing_trials(trials: int, data: Any) -> None:
    passed = data.draw(st.integers(0, trials))
    k = data.draw(st.integers(1, trials))
    assert isclose(pass_hat_k(passed, trials, 1), passed / trials)
    assert isclose(pass_at_k(passed, trials, 1), passed / trials)
    assert pass_hat_k(passed, trials, k) <= passed / trials + 1e-12
    assert pass_at_k(passed, trials, k) >= passed / trials - 1e-12
    assert isclose(pass_at_k(passed, trials, k), 1 - pass_hat_k(trials - passed, trials, k), abs_tol=1e-12)


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_e_value_is_a_fair_bet(regressed: int, fixed: int) -> None:
    """When nothing changed the next pair is a coin flip and the expected e-value stays what it is."""
    after = (e_value(regressed + 1, fixed) + e_value(regressed, fixed + 1)) / 2
    assert isclose(after, e_value(regressed, fixed), rel_tol=1e-12)


def test_the_e_value_starts_at_one_grows_with_regressions_and_never_overflows() -> None:
    assert e_value(0, 0) == 1.0
    assert e_value(9, 1) > e_value(8, 1) > e_value(8, 2)
    assert e_value(5_000, 0) == inf


def test_independent_scores_have_the_ordinary_standard_error() -> None:
    scores = [0.0, 1.0, 1.0, 0.0, 1.0]
    mean = sum(scores) / 5
    ordinary = sqrt(sum((score - mean) ** 2 for score in scores)) / 5
    assert isclose(clustered_standard_error([[score] for score in scores]), ordinary)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(1, 5))
def test_repeating_a_trial_exactly_adds_no_information(scores: list[float], times: int) -> None:
    once = clustered_standard_error([[score] for score in scores])
    assert isclose(clustered_standard_error([[score] * times for score in scores]), once, abs_tol=1e-12)


def test_no_scores_have_no_error() -> None:
    assert clustered_standard_error([]) == 0.0


@given(pairs)
def test_on_whole_cases_the_clustered_interval_holds_that_of_bonett_and_price(
    counts: tuple[int, int, int],
) -> None:
    regressed, fixed, same = counts
    total = regressed + fixed + same
    found = clustered_interval([1.0] * regressed + [-1.0] * fixed, total)
    if not total:
        assert found == Interval(-1.0, 1.0)
        return
    # Their equation: one added to either discordant count, two to the cases.
    worse, better = (regressed + 1) / (total + 2), (fixed + 1) / (total + 2)
    error = sqrt((worse + better - (worse - better) ** 2) / (total + 2))
    assert found.low <= max(-1, worse - better - 1.959964 * error) + 1e-6
    assert found.high >= min(1, worse - better + 1.959964 * error) - 1e-6
    assert -1 <= found.low <= (regressed - fixed) / total <= found.high <= 1


def test_values_of_the_clustered_interval_computed_by_hand() -> None:
    # 10 of 100 cases lost half their trials: Bonett and Price have 0.0094 to 0.0887; the score interval, with
    # a standard error of 0.015 and 0.0192 for what was not seen, 0.0095 to 0.0905.
    assert rounded(clustered_interval([0.5] * 10, 100)) == (0.0094, 0.0905)
    assert rounded(clustered_interval([0.0], 4)) == (-0.4802, 0.4802)


def test_more_trials_of_as_many_cases_narrow_the_clustered_interval() -> None:
    few, many = (clustered_interval([size, -size] * 30, 100) for size in (0.5, 0.25))
    assert few.low < many.low < 0 < many.high < few.high


def test_cases_that_hardly_moved_are_no_proof_that_none_can() -> None:
    assert clustered_interval([0.25], 50).high > 0.05
    assert clustered_interval([0.25], 200).high < 0.05


def test_the_power_of_a_mean_grows_with_cases_and_reaches_what_is_needed() -> None:
    assert mean_power(0.1, 0.0, 5) == 1.0
    needed = mean_cases_needed(0.1, 0.4)
    assert mean_power(0.1, 0.4, needed - 1) < 0.8 <= mean_power(0.1, 0.4, needed)


@pytest.mark.parametrize("spread", [0.0, 0.13, 0.25, 0.45])
def test_the_cases_that_rule_out_a_drop_of_the_mean_are_the_fewest(spread: float) -> None:
    needed = mean_non_inferiority_cases(0.05, spread)
    powers = [mean_non_inferiority_power(0.05, spread, total) for total in (needed - 1, needed)]
    assert powers[0] < 0.8 <= powers[1]
    # Where no case moves, the interval of so many cases that did not ends below the margin.
    if spread == 0:
        assert clustered_interval([], needed).high < 0.05 <= clustered_interval([], needed - 1).high


def test_the_power_to_rule_out_a_drop_of_the_mean_is_how_often_the_interval_does() -> None:
    source, total, spread = random.Random(4), 120, 0.25
    rounds = 400
    drops = ([source.choice([-spread, spread]) for _ in range(total)] for _ in range(rounds))
    share = sum(clustered_interval(drop, total).high < 0.06 for drop in drops) / rounds
    assert isclose(share, mean_non_inferiority_power(0.06, spread, total), abs_tol=0.06)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), max_size=10))
def test_few_signs_are_flipped_exhaustively(drops: list[float]) -> None:
    found = sign_flip_test(drops)
    total = sum(drops)
    flips = list(product(*((drop, -drop) for drop in drops)))
    assert isclose(found, sum(sum(flip) >= total - 1e-9 for flip in flips) / len(flips))


def test_on_whole_cases_sign_flipping_is_mcnemar() -> None:
    assert isclose(sign_flip_test([1.0] * 7 + [-1.0] * 4), mcnemar(7, 4))


def test_many_signs_are_flipped_at_random_from_a_seed() -> None:
    drops = [0.25] * 20 + [-0.25] * 8
    first = sign_flip_test(drops, seed=3, rounds=2_000)
    assert first == sign_flip_test(drops, seed=3, rounds=2_000)
    assert abs(first - mcnemar(20, 8)) < 0.015
    assert sign_flip_test([1.0] * 40, rounds=500) == 1 / 501


@given(st.integers(1, 80), st.floats(0.01, 0.3), st.floats(0.0, 0.7))
def test_power_is_a_chance_that_grows_with_the_drop(total: int, drop: float, more: float) -> None:
    discordant = min(1.0, drop + more)
    seen = paired_power(drop, discordant, total)
    assert 0 <= seen <= 1 + 1e-12
    assert paired_power(min(discordant, drop * 1.5), discordant, total) >= seen - 1e-9


def outcomes(total: int, discordant: float, drop: float) -> Iterator[tuple[float, int, int]]:
    """Chance of every number of regressed and fixed cases."""
    down, up = (discordant + drop) / 2, (discordant - drop) / 2
    for regressed in range(total + 1):
        for fixed in range(total - regressed + 1):
            ways = comb(total, regressed) * comb(total - regressed, fixed)
            rest = total - regressed - fixed
            yield ways * down**regressed * up**fixed * (1 - discordant) ** rest, regressed, fixed


@pytest.mark.parametrize(
    ("total", "discordant", "drop"), [(30, 0.3, 0.1), (40, 0.2, 0.2), (25, 1.0, 0.5), (12, 1.0, 1.0)]
)
def test_power_is_the_chance_of_all_outcomes_that_are_significant(
    total: int, discordant: float, drop: float
) -> None:
    chances = (chance for chance, down, up in outcomes(total, discordant, drop) if mcnemar(down, up) <= 0.05)
    assert isclose(paired_power(drop, discordant, total), sum(chances), abs_tol=1e-9)


@pytest.mark.parametrize(("total", "discordant"), [(40, 0.3), (60, 0.05), (30, 1.0), (80, 0.0), (70, 0.0)])
def test_the_power_to_rule_out_a_drop_is_the_chance_of_all_outcomes_that_do(
    total: int, discordant: float
) -> None:
    chances = (
        chance
        for chance, down, up in outcomes(total, discordant, 0.0)
        if tango_interval(down, up, total).high < 0.05
    )
    assert isclose(non_inferiority_power(0.05, discordant, total), sum(chances), abs_tol=1e-9)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.6])
def test_exact_and_approximate_power_agree_where_they_meet(share: float) -> None:
    total = round(MOST_PAIRS / share)
    for drop in (0.5 / sqrt(total), 1 / sqrt(total)):
        exact, approximate = (paired_power(drop, share, cases) for cases in (total, total + 2))
        assert isclose(exact, approximate, abs_tol=0.01)
    margin = 2.5 * sqrt(share / total)
    exact, approximate = (non_inferiority_power(margin, share, cases) for cases in (total, total + 2))
    assert isclose(exact, approximate, abs_tol=0.02)


def test_all_cases_that_regress_are_always_seen() -> None:
    assert paired_power(1.0, 1.0, MOST_PAIRS) == paired_power(1.0, 1.0, MOST_PAIRS + 1) == 1.0
    assert paired_power(1.0, 1.0, 4) == 0.0


@pytest.mark.parametrize(("drop", "discordant"), [(0.10, 0.2), (0.05, 0.2), (0.03, 0.03), (0.01, 0.4)])
def test_the_cases_needed_reach_the_power_asked_for_and_one_fewer_does_not(
    drop: float, discordant: float
) -> None:
    needed = paired_cases_needed(drop, discordant)
    assert paired_power(drop, discordant, needed - 1) < 0.8 <= paired_power(drop, discordant, needed)
    assert paired_cases_needed(drop, discordant, power=0.9) > needed


@pytest.mark.parametrize("discordant", [0.0, 0.02, 0.2, 0.5])
def test_the_cases_that_rule_out_a_drop_do_so_as_often_as_asked_and_one_fewer_does_not(
    discordant: float,
) -> None:
    needed = non_inferiority_cases(0.05, discordant)
    few, enough = (non_inferiority_power(0.05, discordant, total) for total in (needed - 1, needed))
    assert few < 0.8 <= enough


@pytest.mark.parametrize("discordant", range(1, 30))
def test_the_critical_number_of_regressions_is_the_first_significant_one(discordant: int) -> None:
    needed = critical_regressions(discordant)
    significant = [count for count in range(discordant + 1) if mcnemar(count, discordant - count) <= 0.05]
    assert needed == (min(significant) if significant else None)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=9), st.sampled_from([0.05, 0.2, 0.5]))
def test_the_family_of_hypotheses_is_that_of_tarone_step_by_step(
    drawn: list[tuple[float, float]], alpha: float
) -> None:
    p_values = [max(pair) ** 3 for pair in drawn]
    attainable = [min(pair) ** 3 for pair in drawn]
    left = set(range(len(drawn)))
    while left:
        divisor = next(
            number
            for number in range(1, len(drawn) + 1)
            if sum(attainable[place] <= alpha / number for place in left) <= number
        )
        rejected = {place for place in left if p_values[place] <= alpha / divisor}
        if not rejected:
            break
        left -= rejected
    assert holm_discrete(p_values, attainable, alpha) == [place not in left for place in range(len(drawn))]


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_fishers_test_in_floats_is_that_in_whole_numbers(a: int, b: int, c: int, d: int) -> None:
    trials = a + b, c + d
    exact = fisher(a, trials[0], c, trials[1])
    if sum(trials):
        floats = drawn_at_most(a, drawn=trials[0], hits=a + c, total=sum(trials))
        assert isclose(floats, exact, rel_tol=1e-11)
    assert 0 < exact <= 1


def test_tests_that_could_have_reached_any_level_are_corrected_like_others() -> None:
    assert holm_discrete([5e-324, 0.01, 0.5], [5e-324, 1e-300, 0.0]) == [True, True, False]


def test_fishers_test_of_a_far_better_candidate_is_one() -> None:
    assert fisher(99_000, 100_000, 50_000, 100_000) == 1.0
    assert fisher(50_000, 100_000, 99_000, 100_000) == 0.0


def test_many_drops_are_taken_as_normal_where_that_is_what_flips_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drops = [1.0] * 330 + [-1.0] * 300 + [0.5] * 200 + [-0.25] * 170
    drawn = sign_flip_test(drops)
    monkeypatch.setattr(statistics, "MOST_FLIPPED", 100)
    assert isclose(sign_flip_test(drops), drawn, abs_tol=0.01)
    equal = [1.0] * 330 + [-1.0] * 300
    assert isclose(sign_flip_test(equal), mcnemar(330, 300), abs_tol=0.001)


@given(st.integers(1, 20), st.data())
def test_entropy_is_largest_where_half_pass(trials: int, data: Any) -> None:
    passed = data.draw(st.integers(0, trials))
    assert 0 <= entropy(passed, trials) <= 1
    assert entropy(passed, trials) == entropy(trials - passed, trials)
    assert (entropy(passed, trials) == 0) == (passed in (0, trials))
    assert entropy(2 * trials, 4 * trials) == 1


@given(st.floats(0.001, 0.9), st.sampled_from([0.8, 0.95]))
def test_runs_to_see_a_flake_is_the_smallest_such_number(rate: float, confidence: float) -> None:
    runs = runs_to_see_flake(rate, confidence)
    assert 1 - (1 - rate) ** runs >= confidence - 1e-12
    assert runs == 1 or 1 - (1 - rate) ** (runs - 1) < confidence


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize(("drop", "discordant"), [(0.1, 0.3), (0.2, 0.2), (0.3, 0.1), (0.5, 1.0), (1.0, 1.0)])
def test_exact_power_is_the_chance_of_all_outcomes_that_are_significant(
    drop: float, discordant: float, alpha: float
) -> None:
    total, apart = 7, max(drop, discordant)
    worse, better = (apart + drop) / 2, (apart - drop) / 2
    chance = 0.0
    for regressed in range(total + 1):
        for fixed in range(total + 1 - regressed):
            if regressed + fixed and mcnemar(regressed, fixed) <= alpha:
                same = total - regressed - fixed
                ways = comb(total, regressed) * comb(total - regressed, fixed)
                chance += ways * worse**regressed * better**fixed * (1 - apart) ** same
    assert paired_power(drop, discordant, total, alpha) == pytest.approx(chance)


@pytest.mark.parametrize(("regressed", "fixed"), [(0, 3), (3, 0), (7, 4), (40, 25), (300, 200)])
def test_the_e_value_of_many_pairs_is_that_of_the_exact_sum(
    regressed: int, fixed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = e_value(regressed, fixed)
    monkeypatch.setattr(statistics, "EXACT_PAIRS", -1)
    assert e_value(regressed, fixed) == pytest.approx(exact, rel=1e-9)
