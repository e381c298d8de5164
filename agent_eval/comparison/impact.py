"""How much a change matters, for orientation. The gate decides, not this.

Cases that got better are set against cases that got worse: an agent that is merely not deterministic swaps
a few of each between any two runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent_eval.contracts import ReleaseImpact

Risk = Literal["low", "medium", "high"]
Level = Literal["low", "medium", "high", "critical"]

CRITICAL_SCORE = 50.0
HIGH_SCORE = 20.0
HIGH_RISK_SHARE = 0.05
"""From this share of fewer passed cases on, risk is high even without more hard fails."""

_RECOMMENDATIONS: dict[Level, str] = {
    "low": "Nothing got worse on the compared cases.",
    "medium": "Look at the regressed cases before releasing.",
    "high": "Do not release before the new hard fails and regressions are explained.",
    "critical": "Do not release: a large part of what worked before no longer does.",
}


@dataclass(frozen=True, slots=True)
class Balance:
    """Numbers of compared cases: regressed, fewer passed than before, more hard-failed than before."""

    compared: int
    regressed: int
    fewer_passed: int
    more_hard_failed: int


def risk_level(balance: Balance) -> Risk:
    """High when more cases hard-fail or 5 % fewer pass, medium with any regression, else low.

    Nothing compared is high: nothing is known.
    """
    if not balance.compared or balance.more_hard_failed > 0:
        return "high"
    if balance.fewer_passed >= HIGH_RISK_SHARE * balance.compared:
        return "high"
    return "medium" if balance.regressed else "low"


def release_impact(balance: Balance) -> ReleaseImpact:
    """Score from 0 to 100 for what was lost.

    250 points times the share of cases by which passes fell and hard fails rose (so 20 % fewer that all
    hard-fail is 100), and 50 points times the share that regressed whatever else improved. More hard fails
    than before are at least `high`, any regression is at least `medium`, however large the suite.
    """
    if not balance.compared:
        return ReleaseImpact(
            impact_score=100.0,
            impact_level="critical",
            recommendation="Nothing could be compared with the baseline; the effect is unknown.",
        )
    lost = max(0, balance.fewer_passed) + max(0, balance.more_hard_failed)
    score = min(100.0, round((250.0 * lost + 50.0 * balance.regressed) / balance.compared, 1))
    level: Level = "low"
    if score >= CRITICAL_SCORE:
        level = "critical"
    elif score >= HIGH_SCORE or balance.more_hard_failed > 0:
        level = "high"
    elif balance.regressed:
        level = "medium"
    return ReleaseImpact(impact_score=score, impact_level=level, recommendation=_RECOMMENDATIONS[level])
