"""How much a change matters, for orientation. The gate decides, not this."""

from __future__ import annotations

from typing import Literal

from agent_eval.contracts import ReleaseImpact

Risk = Literal["low", "medium", "high"]
Level = Literal["low", "medium", "high", "critical"]

CRITICAL_SCORE = 50.0
HIGH_SCORE = 20.0
HIGH_RISK_SHARE = 0.05
"""From this share of regressed cases on, risk is high even without a new hard fail."""

_RECOMMENDATIONS: dict[Level, str] = {
    "low": "Nothing got worse on the compared cases.",
    "medium": "Look at the regressed cases before releasing.",
    "high": "Do not release before the new hard fails and regressions are explained.",
    "critical": "Do not release: a large part of what worked before no longer does.",
}


def risk_level(*, compared: int, regressed: int, new_hard_fails: int) -> Risk:
    """High with any new hard fail or 5 % regressed, medium with any regression, else low.

    Nothing compared is high: nothing is known.
    """
    if not compared or new_hard_fails:
        return "high"
    if not regressed:
        return "low"
    return "high" if regressed >= HIGH_RISK_SHARE * compared else "medium"


def release_impact(*, compared: int, regressed: int, new_hard_fails: int) -> ReleaseImpact:
    """Score from 0 to 100: 250 points times the share of regressed cases, new hard fails counted twice.

    So 20 % new hard fails or 40 % other regressions reach 100. Any new hard fail is at least `high`, any
    regression at least `medium`, however large the suite.
    """
    if not compared:
        return ReleaseImpact(
            impact_score=100.0,
            impact_level="critical",
            recommendation="Nothing could be compared with the baseline; the effect is unknown.",
        )
    score = min(100.0, round(250.0 * (regressed + new_hard_fails) / compared, 1))
    level: Level = "low"
    if score >= CRITICAL_SCORE:
        level = "critical"
    elif score >= HIGH_SCORE or new_hard_fails:
        level = "high"
    elif regressed:
        level = "medium"
    return ReleaseImpact(impact_score=score, impact_level=level, recommendation=_RECOMMENDATIONS[level])
