"""What a decision leaves out on somebody's word: waived regressions and quarantined cases.

Both apply to exactly their scope. Nothing here changes a verdict or a rate: it changes which regressions
are held against the candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agent_eval.contracts import AppliedWaiver, CaseRegression, Comparison, JudgeChange, Outcome
from agent_eval.contracts.instants import is_over
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
    applied: list[AppliedWaiver] = field(default_factory=list)

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

    A case is waived when every judge that made it worse is.
    """
    active = [one for one in waivers if one.revoked_at is None and not is_over(one.expires_at, now)]
    held = frozenset(one.case_id for one in quarantine if not is_over(one.expires_at, now))
    used: dict[str, dict[str, None]] = {}
    waived: set[str] = set()
    changes: set[tuple[str, str]] = set()
    explicitly: set[tuple[str, str]] = set()
    for row in comparison.case_regressions:
        worse = worsened(row)
        covered = 0
        for change in worse:
            matching = [one for one in active if _covers(one, row.case_id, change)]
            for one in matching:
                used.setdefault(one.waiver_id, {})[row.case_id] = None
            if matching:
                covered += 1
                changes.add((row.case_id, change.judge_id))
            if any(_is_explicit(one) for one in matching):
                explicitly.add((row.case_id, change.judge_id))
        if row.regressed and worse and covered == len(worse):
            waived.add(row.case_id)
    regressed = {row.case_id for row in comparison.case_regressions if row.regressed}
    return Excuses(
        waived=frozenset(waived),
        quarantined=frozenset(regressed & held - waived),
        quarantine=held,
        judge_changes=frozenset(changes),
        explicitly=frozenset(explicitly),
        applied=_applied(active, used),
    )


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


def _covers(waiver: Waiver, case_id: str, change: JudgeChange) -> bool:
    return (
        waiver.case_id in (None, case_id)
        and waiver.judge_id in (None, change.judge_id)
        and waiver.regression_key in (None, change.regression_key)
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
