"""Waivers and quarantine: which regressions a decision does not count.

Each applies to exactly its scope. Verdicts and rates stay as they are; only fewer regressions count against
the candidate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_eval.contracts import (
    REPLAY_CONTRACT,
    AppliedWaiver,
    Comparison,
    ExpiredExcuse,
    Outcome,
)
from agent_eval.contracts.base import instant, is_over
from agent_eval.contracts.policy import Quarantine
from agent_eval.contracts.registry import Waiver
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.errors import UsageError

_TELLS_OF_CRASHES = frozenset({EXECUTION, REPLAY_CONTRACT})
_CRASHES = frozenset({"agent_error", "timeout", "output_limit", "missing_output"})

_RANKS = {
    Outcome.PASSED: 0,
    None: 1,
    Outcome.SKIPPED: 1,
    Outcome.INCONCLUSIVE: 2,
    Outcome.FAILED: 3,
    Outcome.ERROR: 3,
}
"""No verdict is worse than a pass."""


@dataclass(frozen=True, kw_only=True)
class Excuses:
    """What does not count.

    Attributes:
        waived: Cases that regressed, here or as main defines them, and whose worse judges are all waived.
        covered: Judges by case whose failure is waived.
        quarantine: All cases in quarantine.
        expired: Waivers and quarantine entries that are over and would have excused a case that counts.
    """

    waived: frozenset[str] = frozenset()
    covered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    quarantine: frozenset[str] = frozenset()
    applied: Sequence[AppliedWaiver] = ()
    expired: Sequence[ExpiredExcuse] = ()

    @property
    def left_out(self) -> frozenset[str]:
        """Cases of which nothing is asked."""
        return self.quarantine | self.waived


def excuse(
    comparison: Comparison | None,
    waivers: Iterable[Waiver] = (),
    quarantine: Iterable[Quarantine] = (),
    *,
    generated_at: str,
    violations: Mapping[str, Collection[str]] | None = None,
    by_main: Mapping[str, Collection[str]] | None = None,
) -> Excuses:
    """Apply waivers and quarantine to what a decision is made on.

    With several trials, a judge that passes fewer of them is waived like one whose verdict changed, and a
    regression key covers the verdicts on the deciding trial.

    Args:
        comparison: With the baseline; None without one.
        waivers: Of the baseline; like quarantine, expired ones excuse nothing, and neither do revoked ones.
        generated_at: ISO 8601 time of the decision with its offset.
        violations: Safety judges that fail, by case, whether or not that is worse than before.
        by_main: Judges that fail a case as main defines it, by case that the change defines otherwise.

    Raises:
        UsageError: `generated_at` names no point in time.
    """
    try:
        now = instant(generated_at)
    except ValueError as error:
        raise UsageError(
            f"{generated_at[:80]!r} is no time of a decision: {error}",
            remedy="Write it with its offset, such as 2026-11-26T10:00:00+00:00.",
            field="generated_at",
        ) from None
    entries = list(quarantine)
    unrevoked = [waiver for waiver in waivers if waiver.revoked_at is None]
    active = _Covered([waiver for waiver in unrevoked if not is_over(waiver.ends_at, now)])
    over = _Covered([waiver for waiver in unrevoked if is_over(waiver.ends_at, now)])
    in_quarantine = frozenset(entry.case for entry in entries if not entry.is_over(now))
    worse = _worse(comparison) if comparison is not None else {}
    waived = frozenset(case_id for case_id, judges in worse.items() if active.cover_all(case_id, judges))
    counted = worse.keys() - waived
    for case_id, judge_ids in (by_main or {}).items():
        is_covered = active.cover_all(case_id, map(_Judge, judge_ids))
        if is_covered and judge_ids and case_id not in counted:
            waived |= {case_id}
    for case_id, judge_ids in (violations or {}).items():
        active.cover_all(case_id, map(_Judge, judge_ids))
    # What is over and would have excused a case that counts says why the case counts again.
    counted -= in_quarantine
    for case_id, judges in worse.items():
        if case_id in counted:
            over.cover_all(case_id, judges)
    ended = [entry for entry in entries if entry.is_over(now) and entry.case in counted]
    return Excuses(
        waived=waived,
        covered={case_id: frozenset(judge_ids) for case_id, judge_ids in active.judges.items()},
        quarantine=in_quarantine,
        applied=[
            AppliedWaiver(
                waiver_id=waiver.waiver_id,
                approved_by=waiver.approved_by,
                reason=waiver.reason,
                expires_at=waiver.ends_at,
                case_ids=case_ids,
            )
            for waiver, case_ids in active.used()
        ],
        expired=[
            *(
                ExpiredExcuse(waiver_id=waiver.waiver_id, expires_at=waiver.ends_at, case_ids=case_ids)
                for waiver, case_ids in over.used()
            ),
            *(ExpiredExcuse(expires_at=entry.until, case_ids=[entry.case]) for entry in ended),
        ],
    )


class _Judge(NamedTuple):
    judge_id: str
    regression_key: str | None = None
    is_crash: bool = False
    """Whether the agent crashed."""


class _Covered:
    """Judges by case that waivers cover, and the cases that each waiver was used for."""

    def __init__(self, waivers: Sequence[Waiver]) -> None:
        self.waivers = waivers
        self.cases: dict[str, dict[str, None]] = {}
        self.judges: dict[str, set[str]] = {}

    def used(self) -> list[tuple[Waiver, list[str]]]:
        """The waivers that were used, with the cases they were used for."""
        return [
            (each, [*self.cases[each.waiver_id]]) for each in self.waivers if each.waiver_id in self.cases
        ]

    def cover_all(self, case_id: str, judges: Iterable[_Judge]) -> bool:
        """Use every waiver that covers a worse verdict of a case; tell whether all judges are covered.

        A crash of the agent is another cause than the one that was waived: only a waiver of that very
        regression, or of the judge that tells of crashes, covers it.
        """
        # Of every judge, also where one is not covered: each waiver is used for all that it covers.
        are_covered = True
        for judge in judges:
            for waiver in self.waivers:
                is_of_crash = waiver.regression_key is not None or waiver.judge_id in _TELLS_OF_CRASHES
                if (
                    waiver.case_id in (None, case_id)
                    and waiver.judge_id in (None, judge.judge_id)
                    and waiver.regression_key in (None, judge.regression_key)
                    and (is_of_crash or not judge.is_crash)
                ):
                    self.cases.setdefault(waiver.waiver_id, {})[case_id] = None
                    self.judges.setdefault(case_id, set()).add(judge.judge_id)
            are_covered = are_covered and judge.judge_id in self.judges.get(case_id, ())
        return are_covered


def _worse(comparison: Comparison) -> dict[str, list[_Judge]]:
    """Collect the judges that got worse by case: on the deciding trial, and over several trials."""
    worse: dict[str, list[_Judge]] = {}
    for row in comparison.case_regressions:
        for change in row.judges if row.regressed else ():
            if _RANKS[change.candidate] <= _RANKS[change.baseline]:
                continue
            # A verdict could not be reached because the agent did not come to its end.
            is_crash = change.candidate is Outcome.ERROR and change.failure in _CRASHES
            worse.setdefault(row.case_id, []).append(_Judge(change.judge_id, change.regression_key, is_crash))
    for tried in comparison.trials.changes if comparison.trials is not None else ():
        before, now = tried.baseline, tried.candidate
        # It passes fewer of the trials than before, or fails one and failed none before.
        fell = now.passed * before.judged < before.passed * now.judged or now.failed > 0 == before.failed
        known = {each.judge_id for each in worse.get(tried.case_id, ())}
        if tried.judge_id is None or not fell or tried.judge_id in known:
            continue
        # A judge of several trials does not say why it could not judge one; these two tell of crashes.
        is_crash = tried.judge_id in _TELLS_OF_CRASHES and now.failed > 0
        worse.setdefault(tried.case_id, []).append(_Judge(tried.judge_id, None, is_crash))
    return worse
