from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import isclose
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate import permutation
from agent_eval.gate.permutation import TrialPair, permutation_test
from agent_eval.gate.statistics import mcnemar, sign_flip_test


@st.composite
def trial_pairs(draw: st.DrawFn, most: int = 3) -> TrialPair:
    before, now = draw(st.integers(1, most)), draw(st.integers(1, most))
    return TrialPair(draw(st.integers(0, before)), before, draw(st.integers(0, now)), now)


def every_drop(pair: TrialPair) -> list[Fraction]:
    """All drops that a case might as well have had, equally likely."""
    if pair.equal:
        return [pair.drop, -pair.drop]
    total, passed = pair.trials_before + pair.trials_now, pair.passed_before + pair.passed_now
    drops = []
    for chosen in combinations(range(total), pair.trials_before):
        dealt = sum(place < passed for place in chosen)
        drops.append(Fraction(dealt, pair.trials_before) - Fraction(passed - dealt, pair.trials_now))
    return drops


@given(st.lists(trial_pairs(), max_size=4))
def test_every_permutation_is_counted(pairs: list[TrialPair]) -> None:
    observed = sum((pair.drop for pair in pairs), Fraction(0))
    sums = Counter(sum(drops, Fraction(0)) for drops in product(*map(every_drop, pairs)))
    found = permutation_test(pairs)
    assert isclose(found.p_value, sum(n for drop, n in sums.items() if drop >= observed) / sums.total())
    assert isclose(found.attainable, sums[max(sums)] / sums.total())


@given(st.integers(0, 60), st.integers(0, 60))
def test_on_single_trials_it_is_mcnemars_exact_test(regressed: int, fixed: int) -> None:
    pairs = [TrialPair(1, 1, 0, 1)] * regressed + [TrialPair(0, 1, 1, 1)] * fixed
    assert isclose(permutation_test(pairs).p_value, mcnemar(regressed, fixed), rel_tol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=10))
def test_with_equal_numbers_of_trials_it_flips_signs(rates: list[tuple[int, int]]) -> None:
    pairs = [TrialPair(before, 4, now, 4) for before, now in rates]
    assert isclose(permutation_test(pairs).p_value, sign_flip_test([float(pair.drop) for pair in pairs]))


@given(st.lists(trial_pairs(5), min_size=1, max_size=30), st.randoms())
def test_the_order_of_cases_does_not_matter_and_a_p_value_is_a_chance(
    pairs: list[TrialPair], source: Any
) -> None:
    shuffled = source.sample(pairs, len(pairs))
    found = permutation_test(pairs)
    assert found == permutation_test(shuffled)
    assert 0 < found.attainable <= found.p_value + 1e-15 <= 1 + 1e-12


def test_without_a_case_that_could_have_gone_otherwise_nothing_is_shown() -> None:
    assert permutation_test([]).p_value == 1.0
    assert permutation_test([TrialPair(1, 1, 4, 4), TrialPair(2, 4, 2, 4)]).p_value == 1.0


@pytest.mark.parametrize("trials", [(4, 4), (1, 4)])
def test_too_many_cases_to_count_through_are_drawn_or_approximated(
    trials: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = trials
    worse, better = TrialPair(before, before, now - 1, now), TrialPair(0, before, 1, now)
    pairs = [worse] * 70 + [better] * 50
    exact = permutation_test(pairs).p_value
    monkeypatch.setattr(permutation, "EXACT_WORK", 0)
    other = permutation_test(pairs)
    assert abs(other.p_value - exact) < 0.02
    assert other == permutation_test(pairs)
    assert other.attainable <= other.p_value


def test_drawn_permutations_depend_on_the_seed_and_show_no_less_than_their_number_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permutation, "EXACT_WORK", 0)
    pairs = [TrialPair(4, 4, 3, 4)] * 30 + [TrialPair(3, 4, 4, 4)] * 20
    drops = [float(pair.drop) for pair in pairs]
    for seed in (0, 1):
        found = permutation_test(pairs, seed=seed)
        assert found.p_value == sign_flip_test(drops, seed=seed, rounds=permutation.ROUNDS)
        assert found.attainable == 1 / (permutation.ROUNDS + 1)
    assert permutation_test(pairs) == permutation_test(pairs, seed=0) != permutation_test(pairs, seed=1)
    # Few cases could have shown no more, however many draws there are.
    assert permutation_test([TrialPair(4, 4, 3, 4)] * 3).attainable == 1 / 8


def test_the_approximation_is_normal_with_the_permutations_own_moments() -> None:
    # One trial of 400 cases before, two now, each passed once of three: -1/2, or 1 with half its chance.
    pairs = [TrialPair(1, 1, 0, 2)] * 160 + [TrialPair(0, 1, 1, 2)] * 240
    variance = 400 * 0.5
    # Half a step of 3/2 between the sums.
    z = (40 - 0.75) / variance**0.5
    assert abs(permutation_test(pairs).p_value - NormalDist().cdf(-z)) < 0.002
