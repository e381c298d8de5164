"""Whether cases pass less often than before, where each case has several trials.

A case is a cluster: its trials share what makes it hard, so the case's mean is what is tested, never the
trials one by one. Where a case has as many trials in one run as in the other, nothing having changed means
that its change might as well have had the other sign (R. A. Fisher, The design of experiments, 1935, section
21). Where the numbers differ that is not so - the mean of one trial is spread otherwise than that of four -
and the trials of the case are dealt to the two runs anew (E. J. G. Pitman, Significance tests which may be
applied to samples from any populations, Supplement to the JRSS 4, 1937, 119-130).

On whole cases, one trial on either side, the test is McNemar's exact one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, fsum, gcd, lcm, log2, prod, sqrt
from statistics import NormalDist

from agent_eval.gate.statistics import sign_flip_test

EXACT_WORK = 3_000_000_000
"""Bits that an exact count may move, some hundredths of a second. Four trials of a thousand changed cases
stay below; beyond it the test draws at random, or approximates.
"""
ROUNDS = 10_000


@dataclass(frozen=True, slots=True)
class TrialPair:
    """How many trials of a case passed before and now, and how many there were; at least one on each side."""

    passed_before: int
    trials_before: int
    passed_now: int
    trials_now: int

    @property
    def drop(self) -> Fraction:
        """The case's pass rate before minus that now."""
        return Fraction(self.passed_before, self.trials_before) - Fraction(self.passed_now, self.trials_now)

    @property
    def equal(self) -> bool:
        """Whether both runs have as many trials of it."""
        return self.trials_before == self.trials_now


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """One-sided p value against the alternative that cases pass less often now.

    `attainable` is the smallest p value that these cases could have given.
    """

    p_value: float
    attainable: float


def permutation_test(pairs: Sequence[TrialPair], *, seed: int = 0) -> PermutationTest:
    """Test the mean drop of independent cases.

    Args:
        pairs: Every case that changed; one that did not, with as many trials on either side, adds nothing.
        seed: For what is too large to count through: the same seed gives the same p value.
    """
    if not pairs:
        return PermutationTest(1.0, 1.0)
    unit = lcm(*(pair.trials_before * pair.trials_now for pair in pairs))
    every = [_chances(pair, unit) for pair in pairs]
    chances = [one for one in every if len(one) > 1]
    if not chances:
        return PermutationTest(1.0, 1.0)
    best = float(prod(_share_of_largest(one) for one in chances))
    # What cannot vary is the same in every permutation.
    constant = sum(next(iter(one)) for one in every if len(one) == 1)
    needed = int(sum(pair.drop * unit for pair in pairs)) - constant
    steps = _Steps.of(chances)
    if steps.work <= EXACT_WORK:
        return PermutationTest(steps.share_from(needed), best)
    if all(pair.equal for pair in pairs):
        p_value = sign_flip_test([float(pair.drop) for pair in pairs], seed=seed, rounds=ROUNDS)
        return PermutationTest(p_value, max(best, 1 / (ROUNDS + 1)))
    return PermutationTest(_approximate(chances, needed - steps.width / 2), best)


def _chances(pair: TrialPair, unit: int) -> dict[int, int]:
    """Drops of a case, in units, that it might as well have had, each with its weight."""
    if pair.equal:
        drop = int(pair.drop * unit)
        return {drop: 1, -drop: 1}
    passed = pair.passed_before + pair.passed_now
    before, now = pair.trials_before, pair.trials_now
    return {
        int((Fraction(dealt, before) - Fraction(passed - dealt, now)) * unit): comb(before, dealt)
        * comb(now, passed - dealt)
        for dealt in range(max(0, passed - now), min(before, passed) + 1)
    }


def _share_of_largest(chances: Mapping[int, int]) -> Fraction:
    return Fraction(chances[max(chances)], sum(chances.values()))


@dataclass(frozen=True)
class _Steps:
    """Drops of each case, counted from its smallest in the largest steps that fit all cases.

    `lowest` is the sum of the smallest drops, `width` that of a step, both in units.
    """

    steps: list[dict[int, int]]
    lowest: int
    width: int

    @staticmethod
    def of(chances: Sequence[Mapping[int, int]]) -> _Steps:
        lowest = [min(one) for one in chances]
        width = gcd(*(drop - low for one, low in zip(chances, lowest, strict=True) for drop in one))
        steps = [
            {(drop - low) // width: weight for drop, weight in one.items()}
            for one, low in zip(chances, lowest, strict=True)
        ]
        return _Steps(steps, sum(lowest), width)

    @property
    def work(self) -> float:
        """Bits that `share_from` moves."""
        bits = sum(log2(sum(one.values())) for one in self.steps)
        places = sum(max(one) for one in self.steps)
        return bits * places * len(self.steps)

    def share_from(self, needed: int) -> float:
        """Share of the weight that lies at drops of `needed` units or more.

        The weights of all sums are the coefficients of a product of polynomials. They are kept in one
        integer, far enough apart not to run into each other, so that each case costs a few shifts.
        """
        total = prod(sum(one.values()) for one in self.steps)
        bits = total.bit_length() + 1
        packed = 1
        for one in self.steps:
            packed = sum((packed * weight) << (step * bits) for step, weight in one.items())
        first = -(-(needed - self.lowest) // self.width)
        # All coefficients together are below 2^bits - 1, so the remainder adds them up.
        return float(Fraction((packed >> (first * bits)) % ((1 << bits) - 1), total))


def _approximate(chances: Sequence[Mapping[int, int]], needed: float) -> float:
    """By the normal distribution with the permutations' own mean and variance: there are very many cases."""
    mean = variance = 0.0
    for one, times in Counter(tuple(sorted(one.items())) for one in chances).items():
        total = sum(weight for _, weight in one)
        centre = fsum(drop * weight for drop, weight in one) / total
        mean += times * centre
        variance += times * fsum((drop - centre) ** 2 * weight for drop, weight in one) / total
    return NormalDist().cdf((mean - needed) / sqrt(variance))
