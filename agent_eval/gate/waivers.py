"""What a decision leaves out on somebody's word: waived regressions and quarantined cases.

Both apply to exactly their scope. Nothing here changes a verdict or a rate: it changes which regressions
are held against the candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agent_eval.contracts import (
    AppliedWaiver,
    CaseRegression,
    Comparison,
    ExpiredExcuse,
    JudgeChange,
    Outcome,
    TrialChange,
    TrialComparison,
)
from agent_eval.contracts.base import is_over
from agent_eval.contracts.policy import Quarantine
from agent_eval.contracts.registry import Waiver


@dataclass(frozen=True)
class Excuses:
    """Which regressions do not count.

    `waived` and `quarantined` are case ids out of those that regressed; `quarantine` is every case id in
    quarantine now. `judge_changes` are waived pairs of case and judge.
    """

    waived: frozenset[str] = frozenset()
    quarantined: frozenset[str] = frozenset()
    quarantine: frozenset[str] = frozenset()
    judge_changes: frozenset[tuple[str, str]] = frozenset()
    explicitly: frozenset[tuple[str, str]] = frozenset()
    """Waived pairs whose waiver names that very case and judge, or that very regression."""
    waived_rates: frozenset[str] = frozenset()
    """Case ids whose trials pass less often, every judge behind that being waived."""
    applied: list[AppliedWaiver] = field(default_factory=list)
    expired: list[ExpiredExcuse] = field(default_factory=list)
    """What is over, and would have excused a case that counts."""

    @property
    def cases(self) -> frozenset[str]:
        """Regressed cases that are not counted."""
        return self.waived | self.quarantined


def excuse(
    comparison: Comparison,
    waivers: Iterable[Waiver] = (),
    quarantine: Iterable[Quarantine] = (),
    *,
    now: datetime,
) -> Excuses:
    """Apply waivers and quarantine to a comparison.

    Args:
        comparison: What regressed.
        waivers: Of the baseline in question; expired and revoked ones excuse nothing.
        quarantine: From the policy; expired entries excuse nothing.
        now: The time of the decision.

    A case is waived when every judge that made it worse is. With several trials a judge that passes fewer of
    them is waived like one whose verdict changed, and a regression key covers what the deciding trial shows.
    """
    waivers, quarantine = list(waivers), list(quarantine)
    held = frozenset(one.case_id for one in quarantine if not is_over(one.expires_at, now))
    found = _Found([one for one in waivers if one.revoked_at is None and not is_over(one.expires_at, now)])
    waived: set[str] = set()
    for row in comparison.case_regressions:
        worse = worsened(row)
        covered = [found.cover(row.case_id, change.judge_id, change.regression_key) for change in worse]
        if row.regressed and worse and all(covered):
            waived.add(row.case_id)
    regressed = {row.case_id for row in comparison.case_regressions if row.regressed}
    over = (
        [one for one in waivers if one.revoked_at is None and is_over(one.expires_at, now)],
        [one for one in quarantine if is_over(one.expires_at, now)],
    )
    return Excuses(
        waived=frozenset(waived),
        quarantined=frozenset(regressed & held - waived),
        quarantine=held,
        waived_rates=_waived_rates(comparison.trials, found),
        judge_changes=frozenset(found.changes),
        explicitly=frozenset(found.explicitly),
        applied=_applied(found.active, found.used),
        expired=_expired(comparison, *over, counted=regressed - held - waived),
    )


class _Found:
    """What active waivers cover: pairs of case and judge, and which waiver was used for which cases."""

    def __init__(self, active: Sequence[Waiver]) -> None:
        self.active = active
        self.used: dict[str, dict[str, None]] = {}
        self.changes: set[tuple[str, str]] = set()
        self.explicitly: set[tuple[str, str]] = set()

    def cover(self, case_id: str, judge_id: str, regression_key: str | None) -> bool:
        """Look for waivers of what got worse, and keep them; whether there are any."""
        matching = [one for one in self.active if _covers(one, case_id, judge_id, regression_key)]
        for one in matching:
            self.used.setdefault(one.waiver_id, {})[case_id] = None
            self.changes.add((case_id, judge_id))
            if _is_explicit(one):
                self.explicitly.add((case_id, judge_id))
        return (case_id, judge_id) in self.changes


def _waived_rates(trials: TrialComparison | None, found: _Found) -> frozenset[str]:
    """Cases of which fewer trials pass, where every judge that passes fewer is waived."""
    fallen: dict[str, list[bool]] = {}
    for change in trials.changes if trials is not None else []:
        if change.judge_id is not None and _fell(change):
            fallen.setdefault(change.case_id, []).append(found.cover(change.case_id, change.judge_id, None))
    return frozenset(case_id for case_id, covered in fallen.items() if all(covered))


def _fell(change: TrialChange) -> bool:
    """Whether a judge passes fewer of the trials than before, or fails one as it did not before."""
    before, now = change.baseline, change.candidate
    return now.passed * before.judged < before.passed * now.judged or now.failed > 0 == before.failed


def worsened(row: CaseRegression) -> list[JudgeChange]:
    """The judges that say worse of a case than before. No longer judging it is worse than passing it."""
    return [change for change in row.judges if _RANKS[change.candidate] > _RANKS[change.baseline]]


_RANKS = {
    Outcome.PASSED: 0,
    None: 1,
    Outcome.SKIPPED: 1,
    Outcome.INCONCLUSIVE: 2,
    Outcome.FAILED: 3,
    Outcome.ERROR: 3,
}


def _covers(waiver: Waiver, case_id: str, judge_id: str, regression_key: str | None) -> bool:
    return (
        waiver.case_id in (None, case_id)
        and waiver.judge_id in (None, judge_id)
        and waiver.regression_key in (None, regression_key)
    )


def _is_explicit(waiver: Waiver) -> bool:
    return waiver.regression_key is not None or None not in (waiver.case_id, waiver.judge_id)


def _applied(active: Sequence[Waiver], used: dict[str, dict[str, None]]) -> list[AppliedWaiver]:
    return [
        AppliedWaiver(
            waiver_id=one.waiver_id,
            approved_by=one.approved_by,
            reason=one.reason,
            expires_at=one.expires_at,
            case_ids=list(used[one.waiver_id]),
        )
        for one in active
        if one.waiver_id in used
    ]


def _expired(
    comparison: Comparison,
    waivers: Sequence[Waiver],
    quarantine: Sequence[Quarantine],
    *,
    counted: set[str],
) -> list[ExpiredExcuse]:
    """What is over and concerns a case that counts: nobody should have to find out why it does again."""
    found = _Found(waivers)
    for row in comparison.case_regressions:
        if row.case_id in counted:
            for change in worsened(row):
                found.cover(row.case_id, change.judge_id, change.regression_key)
    ended = [
        ExpiredExcuse(
            waiver_id=one.waiver_id, expires_at=one.expires_at, case_ids=list(found.used[one.waiver_id])
        )
        for one in waivers
        if one.waiver_id in found.used
    ]
    return ended + [
        ExpiredExcuse(expires_at=one.expires_at, case_ids=[one.case_id])
        for one in quarantine
        if one.case_id in counted
    ]
