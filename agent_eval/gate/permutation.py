"""The permutation test of cases with several trials: do cases pass less often than before?

A case is a cluster: its trials share what makes it hard, so the case's mean is what is tested, never the
trials one by one. Where a case has as many trials in one run as in the other, nothing having changed means
that its change might as well have had the other sign (R. A. Fisher, The design of experiments, 1935, section
21). Where the numbers differ that is not so - the mean of one trial varies more than that of four - and the
trials of the case are dealt again to the two runs (E. J. G. Pitman, Significance tests which may be applied
to samples from any populations, Supplement to the JRSS 4, 1937, 119-130).

On whole cases, one trial on either side, the test is McNemar's exact one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from math import comb, fsum, gcd, lcm, log2, prod, sqrt
from statistics import NormalDist

from agent_eval.gate.statistics import MOST_FLIPPED, sign_flip_test

EXACT_WORK = 3_000_000_000
"""Bits that an exact count may move, which takes some hundredths of a second. Four trials of a thousand
changed cases stay below; beyond it the test draws at random, or approximates.
"""
ROUNDS = 10_000


@dataclass(frozen=True, slots=True)
class TrialPair:
    """Number of passed trials and of all trials of a case, before and now; each run has at least one.

    Example:
        >>> TrialPair(passed_before=4, trials_before=4, passed_now=3, trials_now=4).drop
        Fraction(1, 4)
    """

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
        """Whether both runs have the same number of trials of the case."""
        return self.trials_before == self.trials_now


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """One-sided p value against the alternative that cases pass less often now.

    `attainable` is the smallest p value that these cases could have had.

    Example:
        >>> permutation_test([TrialPair(4, 4, 0, 4)]).p_value
        0.5
    """

    p_value: float
    attainable: float


def permutation_test(pairs: Sequence[TrialPair], *, seed: int = 0) -> PermutationTest:
    """Test the mean drop of independent cases.

    Args:
        pairs: Every case that changed. A case that did not change and has as many trials in either run adds
            nothing.
        seed: Seed of the draws where there are too many permutations to count; the same seed gives the same
            p value.
    """
    # Sorted, as sums of floats depend on their order.
    counted = dict(sorted(Counter(pairs).items(), key=lambda item: astuple(item[0])))
    unit = lcm(*(pair.trials_before * pair.trials_now for pair in counted))
    every = [(_chances(pair, unit), times) for pair, times in counted.items()]
    chances = [(drops, times) for drops, times in every if len(drops) > 1]
    if not chances:
        return PermutationTest(1.0, 1.0)
    best = prod(float(_share_of_largest(drops)) ** times for drops, times in chances)
    # A case with a single possible drop has it in every permutation.
    constant = sum(next(iter(drops)) * times for drops, times in every if len(drops) == 1)
    needed = int(sum(pair.drop * times for pair, times in counted.items()) * unit) - constant
    steps = _Steps.of(chances)
    if steps.work <= EXACT_WORK:
        return PermutationTest(steps.share_from(needed), best)
    if len(pairs) <= MOST_FLIPPED and all(pair.equal for pair in counted):
        p_value = sign_flip_test([float(pair.drop) for pair in pairs], seed=seed, rounds=ROUNDS)
        return PermutationTest(p_value, max(best, 1 / (ROUNDS + 1)))
    return PermutationTest(_approximate(chances, needed - steps.width / 2), best)


def _chances(pair: TrialPair, unit: int) -> dict[int, int]:
    """List the drops, in units, that a case might as well have had, each with its weight."""
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


Chances = Sequence[tuple[Mapping[int, int], int]]
"""Drops that a case might as well have had, each with its weight, and how many cases have those."""


@dataclass(frozen=True)
class _Steps:
    """Drops of each case, counted from its smallest in the largest steps that fit all cases.

    `lowest` is the sum of the smallest drops, `width` that of a step, both in units.
    """

    steps: list[tuple[dict[int, int], int]]
    lowest: int
    width: int

    @staticmethod
    def of(chances: Chances) -> _Steps:
        lowest = [min(drops) for drops, _ in chances]
        width = gcd(*(drop - low for (drops, _), low in zip(chances, lowest, strict=True) for drop in drops))
        steps = [
            ({(drop - low) // width: weight for drop, weight in drops.items()}, times)
            for (drops, times), low in zip(chances, lowest, strict=True)
        ]
        return _Steps(steps, sum(low * times for (_, times), low in zip(chances, lowest, strict=True)), width)

    @property
    def work(self) -> float:
        """Bits that `share_from` moves."""
        bits = sum(log2(sum(weights.values())) * times for weights, times in self.steps)
        places = sum(max(weights) * times for weights, times in self.steps)
        return bits * places * sum(times for _, times in self.steps)

    def share_from(self, needed: int) -> float:
        """Compute the share of the weight at drops of `needed` units or more.

        The weights of all sums are the coefficients of a product of polynomials. They are kept in one
        integer, far enough apart not to overlap, so that each case costs a few shifts.
        """
        total = prod(sum(weights.values()) ** times for weights, times in self.steps)
        bits = total.bit_length() + 1
        packed = 1
        for weights, times in self.steps:
            for _ in range(times):
                packed = sum((packed * weight) << (step * bits) for step, weight in weights.items())
        first = -(-(needed - self.lowest) // self.width)
        # All coefficients together are below 2^bits - 1, so the remainder adds them up.
        return float(Fraction((packed >> (first * bits)) % ((1 << bits) - 1), total))


def _approximate(chances: Chances, needed: float) -> float:
    """Approximate by the normal distribution with mean and variance of the permutations, for many cases."""
    mean = variance = 0.0
    for drops, times in chances:
        total = sum(drops.values())
        centre = fsum(drop * weight for drop, weight in drops.items()) / total
        mean += times * centre
        variance += times * fsum((drop - centre) ** 2 * weight for drop, weight in drops.items()) / total
    return NormalDist().cdf((mean - needed) / sqrt(variance))
