"""Waivers and quarantine: which regressions a decision does not count.

Each applies to exactly its scope. Verdicts and rates stay as they are; only fewer regressions count against
the candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

from agent_eval.contracts import (
    REPLAY_CONTRACT,
    AppliedWaiver,
    CaseRegression,
    Comparison,
    Coverage,
    CoverageLoss,
    ExpiredExcuse,
    JudgeChange,
    Outcome,
    TrialChange,
    TrialComparison,
)
from agent_eval.contracts.base import is_over
from agent_eval.contracts.policy import Quarantine
from agent_eval.contracts.registry import Waiver
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.gate.coverage import counted_coverage


@dataclass(frozen=True)
class Excuses:
    """The regressions that do not count.

    `waived` and `quarantined` are ids of regressed cases; `quarantine` has those of all cases in quarantine.
    `judge_changes` are waived pairs of case and judge.

    Example:
        >>> sorted(Excuses(waived=frozenset({"a"}), quarantined=frozenset({"b"})).cases)
        ['a', 'b']
    """

    waived: frozenset[str] = frozenset()
    quarantined: frozenset[str] = frozenset()
    quarantine: frozenset[str] = frozenset()
    judge_changes: frozenset[tuple[str, str]] = frozenset()
    explicitly: frozenset[tuple[str, str]] = frozenset()
    """Those of `judge_changes` whose waiver names both case and judge, or the key of the regression."""
    waived_rates: frozenset[str] = frozenset()
    """Ids of cases whose trials pass less often, where every judge that passes fewer of them is waived."""
    tracked: frozenset[str] = frozenset()
    """Ids of regressed cases that the policy tracks or expects to fail: they count in the tests alone."""
    never_blocking: frozenset[str] = frozenset()
    """Ids of all cases that the policy tracks or expects to fail."""
    applied: list[AppliedWaiver] = field(default_factory=list)
    expired: list[ExpiredExcuse] = field(default_factory=list)
    """Expired waivers and quarantines that would have excused a case that counts."""

    coverage: Coverage | None = None
    """The coverage that counts: without what a waiver names, and with what the decision leaves out."""

    @property
    def cases(self) -> frozenset[str]:
        """Ids of the regressed cases that do not count."""
        return self.waived | self.quarantined

    @property
    def uncounted(self) -> frozenset[str]:
        """Ids of the regressed cases that count in no rule on single cases, and are no suspects."""
        return self.cases | self.tracked


def active_quarantine(quarantine: Iterable[Quarantine], *, now: datetime) -> frozenset[str]:
    """Collect the ids of the cases that are in quarantine at a time."""
    return frozenset(entry.case_id for entry in quarantine if not is_over(entry.expires_at, now))


def excuse(
    comparison: Comparison,
    waivers: Iterable[Waiver] = (),
    quarantine: Iterable[Quarantine] = (),
    *,
    now: datetime,
) -> Excuses:
    """Apply waivers and quarantine to a comparison.

    A case is waived when every judge whose verdict got worse is. With several trials, a judge that passes
    fewer of them is waived like one whose verdict changed, and a regression key covers the verdicts on the
    deciding trial.

    Args:
        comparison: The comparison to decide on.
        waivers: Waivers of the baseline; expired and revoked ones excuse nothing.
        quarantine: Quarantine of the policy; expired entries excuse nothing.
        now: The time of the decision.
    """
    waivers, quarantine = list(waivers), list(quarantine)
    quarantined = active_quarantine(quarantine, now=now)
    unrevoked = [waiver for waiver in waivers if waiver.revoked_at is None]
    coverage = _Coverage([waiver for waiver in unrevoked if not is_over(waiver.ends_at, now)])
    waived: set[str] = set()
    for row in comparison.case_regressions:
        worse = worsened(row)
        covered = [
            coverage.cover(row.case_id, change.judge_id, change.regression_key, is_crash=_is_crash(change))
            for change in worse
        ]
        if row.regressed and worse and all(covered):
            waived.add(row.case_id)
    regressed = frozenset(comparison.regressed_case_ids)
    waived_rates = _waived_rates(comparison.trials, coverage)
    for judge_id, case_ids in comparison.failures_apart.items():
        for case_id in case_ids:
            coverage.cover(case_id, judge_id, None)
    return Excuses(
        coverage=_counted(comparison, coverage, quarantined),
        waived=frozenset(waived),
        quarantined=frozenset(regressed & quarantined - waived),
        quarantine=quarantined,
        waived_rates=waived_rates,
        judge_changes=frozenset(coverage.changes),
        explicitly=frozenset(coverage.explicitly),
        applied=_applied(coverage.active, coverage.used),
        expired=_expired(
            comparison,
            [waiver for waiver in unrevoked if is_over(waiver.ends_at, now)],
            [entry for entry in quarantine if is_over(entry.expires_at, now)],
            counted=regressed - quarantined - waived,
        ),
    )


def _counted(comparison: Comparison, coverage: _Coverage, quarantined: frozenset[str]) -> Coverage | None:
    if comparison.coverage is None:
        return None
    changed = {row.case_id for row in comparison.case_regressions}
    if comparison.trials is not None:
        changed |= {change.case_id for change in comparison.trials.changes}
    # What a judge that is gone does not say any more is lost already.
    lost = {(case_id, loss.judge_id) for loss in comparison.coverage.losses for case_id in loss.cases}
    broadly: dict[str, list[str]] = {}
    for case_id, judge_id in sorted(coverage.changes - coverage.by_case - lost):
        if case_id in changed:
            broadly.setdefault(case_id, []).append(judge_id)
    return counted_coverage(
        comparison.coverage, coverage.names, quarantined=quarantined & changed, waived=broadly
    )


class _Coverage:
    """Pairs of case and judge that waivers cover, and the cases that each waiver was used for."""

    def __init__(self, active: Sequence[Waiver]) -> None:
        self.active = active
        self.used: dict[str, dict[str, None]] = {}
        self.changes: set[tuple[str, str]] = set()
        self.explicitly: set[tuple[str, str]] = set()
        self.by_case: set[tuple[str, str]] = set()
        """Those of `changes` whose waiver names the case, or the key of the regression."""

    def names(self, loss: CoverageLoss, case_id: str) -> bool:
        """Use every waiver that names what a comparison lost; tell whether there is one.

        A waiver of a case names what is lost of the case, one of a judge that the judge is gone or changed.
        """
        is_named = False
        for waiver in self.active:
            of_the_judge = waiver.case_id is None and loss.cause in ("judge-gone", "judge-changed")
            if (
                waiver.regression_key is None
                and (waiver.case_id == case_id or of_the_judge)
                and waiver.judge_id in (None, loss.judge_id)
            ):
                self.used.setdefault(waiver.waiver_id, {})[case_id] = None
                is_named = True
        return is_named

    def cover(
        self, case_id: str, judge_id: str, regression_key: str | None, *, is_crash: bool = False
    ) -> bool:
        """Use every waiver that covers a worse verdict; tell whether case and judge are covered.

        A crash of the agent is another cause than the one that was waived: only a waiver of that very
        regression, or of the judge that tells of crashes, covers it.
        """
        for waiver in self.active:
            if not _covers(waiver, case_id, judge_id, regression_key):
                continue
            if is_crash and waiver.regression_key is None and waiver.judge_id not in _TELLS_OF_CRASHES:
                continue
            self.used.setdefault(waiver.waiver_id, {})[case_id] = None
            self.changes.add((case_id, judge_id))
            if waiver.case_id is not None or waiver.regression_key is not None:
                self.by_case.add((case_id, judge_id))
            if _is_explicit(waiver):
                self.explicitly.add((case_id, judge_id))
        return (case_id, judge_id) in self.changes


def _waived_rates(trials: TrialComparison | None, coverage: _Coverage) -> frozenset[str]:
    """Ids of cases of which fewer trials pass, where every judge that passes fewer is waived."""
    fallen: dict[str, list[bool]] = {}
    for change in trials.changes if trials is not None else []:
        if change.judge_id is not None and _fell(change):
            # A judge of several trials does not say why it could not judge one; these two tell of crashes.
            is_crash = change.judge_id in _TELLS_OF_CRASHES and change.candidate.failed > 0
            is_covered = coverage.cover(change.case_id, change.judge_id, None, is_crash=is_crash)
            fallen.setdefault(change.case_id, []).append(is_covered)
    return frozenset(case_id for case_id, covered in fallen.items() if all(covered))


def _fell(change: TrialChange) -> bool:
    """Tell whether a judge passes fewer of the trials than before, or fails one and failed none before."""
    before, now = change.baseline, change.candidate
    return now.passed * before.judged < before.passed * now.judged or now.failed > 0 == before.failed


_TELLS_OF_CRASHES = frozenset({EXECUTION, REPLAY_CONTRACT})
_CRASHES = frozenset({"agent_error", "timeout", "output_limit", "missing_output"})


def _is_crash(change: JudgeChange) -> bool:
    """Tell whether a verdict could not be reached because the agent did not come to its end."""
    return change.candidate is Outcome.ERROR and change.failure in _CRASHES


def worsened(row: CaseRegression) -> list[JudgeChange]:
    """Select the judges whose verdict on a case got worse. No verdict is worse than a pass."""
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
            waiver_id=waiver.waiver_id,
            approved_by=waiver.approved_by,
            reason=waiver.reason,
            expires_at=waiver.ends_at,
            case_ids=list(used[waiver.waiver_id]),
        )
        for waiver in active
        if waiver.waiver_id in used
    ]


def _expired(
    comparison: Comparison,
    waivers: Sequence[Waiver],
    quarantine: Sequence[Quarantine],
    *,
    counted: Set[str],
) -> list[ExpiredExcuse]:
    """List expired waivers and quarantines that would have excused a counted case.

    A decision reports them, so that users see why the case counts again.
    """
    coverage = _Coverage(waivers)
    for row in comparison.case_regressions:
        if row.case_id in counted:
            for change in worsened(row):
                is_crash = _is_crash(change)
                coverage.cover(row.case_id, change.judge_id, change.regression_key, is_crash=is_crash)
    expired_waivers = [
        ExpiredExcuse(
            waiver_id=waiver.waiver_id,
            expires_at=waiver.ends_at,
            case_ids=list(coverage.used[waiver.waiver_id]),
        )
        for waiver in waivers
        if waiver.waiver_id in coverage.used
    ]
    return expired_waivers + [
        ExpiredExcuse(expires_at=entry.expires_at, case_ids=[entry.case_id])
        for entry in quarantine
        if entry.case_id in counted
    ]
