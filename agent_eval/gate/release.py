"""The margin of a release: how far the pass rate may have fallen below the released one at most."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, sqrt
from statistics import NormalDist

from agent_eval.contracts.gate import ReleaseAnswer
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.procedure import NONE, Count
from agent_eval.gate.question import Counts
from agent_eval.gate.student import mean_and_variance, student_quantile
from agent_eval.text.numbers import allowed, distance

CONFIDENCE = 0.95
"""Of the two-sided interval of the fall."""
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def release_answer(
    counts: Counts, policy: GatePolicy, left_out: frozenset[str] = frozenset()
) -> ReleaseAnswer | None:
    """Say whether the pass rate fell by less than the margin; None where there is nothing to compare with.

    The fall is the mean over the cases of the share that passed in the release's base less the share now,
    with Student's t interval over the cases, or Tango's where each case has one trial on both sides.
    `within`: its upper end is below the margin; `worse`: its lower end is above 0. A deterministic agent
    falls by what is seen.

    Args:
        counts: Of the run and of the base's last runs of its setup, pooled.
        policy: With the margin.
        left_out: Cases in quarantine, and waived ones, which do not count.
    """
    pairs = _pairs(counts, left_out)
    if not pairs:
        return None
    falls = [Fraction(*before) - Fraction(*now) for before, now in pairs]
    fall = float(sum(falls) / len(falls))
    low, high = (fall, fall) if policy.deterministic else interval(pairs)
    margin = policy.effective_margin
    fell = f"The pass rate fell by {distance(fall)} points" if fall > 0 else "The pass rate did not fall"
    most = f"at most {distance(high)} can hide ({len(pairs)} cases)" if high > 0 else f"{len(pairs)} cases"
    stated = f"margin {allowed(margin).removesuffix('%')} points"
    if low > 0:
        return ReleaseAnswer(
            fall=fall,
            low=low,
            high=high,
            margin=margin,
            answer="worse",
            reason=f"{fell}, and that is no chance: at least {distance(low)} ({len(pairs)} cases).",
        )
    if high < margin or (policy.deterministic and fall <= 0):
        reason = f"{fell}; {most}, below {stated}."
        return ReleaseAnswer(fall=fall, low=low, high=high, margin=margin, answer="within", reason=reason)
    reason = (
        f"{fell}, but up to {distance(high)} points can hide, above {stated}: run more trials of each case."
    )
    return ReleaseAnswer(fall=fall, low=low, high=high, margin=margin, answer="open", reason=reason)


def _pairs(counts: Counts, left_out: frozenset[str]) -> list[tuple[Count, Count]]:
    """Counts of each case in the base's runs, pooled, and in the run."""
    pairs = []
    for case_id, own in sorted(counts.own.cases.items()):
        rows = [row for run in counts.runs if (row := run.cases.get(case_id))]
        same = [Count(row.passed, row.trials) for row in rows if row.definition == own.definition]
        before = sum(same, NONE)
        if case_id not in left_out and before.trials and own.trials:
            pairs.append((before, Count(own.passed, own.trials)))
    return pairs


def interval(pairs: Sequence[tuple[Count, Count]]) -> tuple[float, float]:
    """Compute the two-sided interval of the mean fall of cases, from counts before and now.

    With all alike the spread is 0; as many trials as there are can still hide z^2 / (n + z^2) of a case's
    fall, divided by the trials of the side that has fewer (the upper end of Wilson's interval at 0).
    """
    number = len(pairs)
    if all(before.trials == now.trials == 1 for before, now in pairs):
        regressed = sum(before.passed > now.passed for before, now in pairs)
        fixed = sum(before.passed < now.passed for before, now in pairs)
        return tango_interval(regressed, fixed, number)
    fewest = min(min(before.trials, now.trials) for before, now in pairs)
    unseen = _Z * _Z / (number + _Z * _Z) / fewest
    falls = [
        Fraction(before.passed, before.trials) - Fraction(now.passed, now.trials) for before, now in pairs
    ]
    if number == 1:
        return -1.0, 1.0
    mean, variance = mean_and_variance([float(fall) for fall in falls])
    half = student_quantile((1 + CONFIDENCE) / 2, number - 1) * sqrt(variance / number)
    return max(-1.0, mean - half), min(1.0, max(mean + half, unseen))


def tango_interval(regressed: int, fixed: int, total: int) -> tuple[float, float]:
    """Compute the score interval of the fall (regressed - fixed) / total, of two paired shares.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, Statistics in Medicine 17 (1998) 891-908; the closed form of the restricted
    estimate is his equation 13. Both ends are found by bisection of his score statistic, which falls as
    the supposed fall grows.
    """
    estimate = (regressed - fixed) / total

    def end(low: float, high: float, at: float) -> float:
        for _ in range(200):
            middle = (low + high) / 2
            if tango_score(regressed, fixed, total, middle) > at:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    return end(-1.0, estimate, _Z), end(estimate, 1.0, -_Z)


def tango_score(regressed: int, fixed: int, total: int, fall: float) -> float:
    """Compute Tango's standard normal statistic for the hypothesis that the true fall is `fall`."""
    a = 2 * total
    b = -regressed - fixed + (2 * total - regressed + fixed) * fall
    c = -fixed * fall * (1 - fall)
    restricted = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = total * (2 * restricted + fall * (1 - fall))
    excess = regressed - fixed - total * fall
    if variance <= 0:
        return inf if excess > 0 else -inf if excess < 0 else 0.0
    return excess / sqrt(variance)
