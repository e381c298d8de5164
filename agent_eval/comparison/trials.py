"""Several trials of a case: when the case passes, and what they say of the agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from agent_eval.comparison.statistics import pass_at_k, pass_hat_k
from agent_eval.contracts.stability import PassCurve
from agent_eval.errors import InvalidInput

_RATE = re.compile(r"pass_rate\s*>=\s*(\d{1,3}(?:\.\d{1,9})?)")


@dataclass(frozen=True)
class CasePolicy:
    """When a case with several trials passes: at least `share` of them, or more than it if `above`."""

    text: str
    share: Fraction
    above: bool = False

    def passes(self, passed: int, trials: int) -> bool:
        """Whether a case passes. One of which no trial passed never does."""
        if not passed:
            return False
        reached = Fraction(passed, trials)
        return reached > self.share if self.above else reached >= self.share


def case_policy(text: str) -> CasePolicy:
    """Read a case policy: `all`, `any`, `majority` (more than half) or `pass_rate>=x` with x from 0 to 1.

    Raises:
        InvalidInput: It is none of these.
    """
    stated = text.strip()
    if stated == "all":
        return CasePolicy("all", Fraction(1))
    if stated == "any":
        return CasePolicy("any", Fraction(0), above=True)
    if stated == "majority":
        return CasePolicy("majority", Fraction(1, 2), above=True)
    match = _RATE.fullmatch(stated)
    if match and Fraction(match[1]) <= 1:
        return CasePolicy(f"pass_rate>={match[1]}", Fraction(match[1]))
    raise InvalidInput(
        f"there is no case policy {text[:100]!r}",
        remedy="Use all, any, majority, or pass_rate>=x with x from 0 to 1.",
        field="case_policy",
    )


def pass_curve(counts: Sequence[tuple[int, int]]) -> list[PassCurve]:
    """pass^k and pass@k for every k that all cases have trials for.

    Args:
        counts: `(passed, trials)` of each case.
    """
    if not counts:
        return []
    return [
        PassCurve(
            k=k,
            pass_hat_k=sum(pass_hat_k(passed, trials, k) for passed, trials in counts) / len(counts),
            pass_at_k=sum(pass_at_k(passed, trials, k) for passed, trials in counts) / len(counts),
        )
        for k in range(1, min(trials for _, trials in counts) + 1)
    ]
