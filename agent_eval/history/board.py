"""What a history says of each case: its rate, its last outcomes, since when it fails, and its tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from agent_eval.contracts.history import WINDOW, CaseRecord, HistoryRun, Tier, tier_of
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.history import RunRecord

PROMOTED_AFTER = 3
"""Runs that a case which is expected to fail passes in a row until it is to be promoted."""

PASSED, MISSED, LOST = "P", "F", "?"


@dataclass(frozen=True)
class CaseBoard:
    """One case over the runs of a history.

    Example:
        `board(records).cases[0].letters` is such as `PPFPPPPP`, the newest at the end.

    Attributes:
        case_id: The case.
        tier: What its history recommends.
        passed: Trials that passed, of the newest `WINDOW` scored ones, in whole runs.
        scored: How many these are.
        letters: The last outcomes, the newest at the end.
        missed: Scored trials of the window that did not pass, by kind of failure.
        lost: Trials of the window that say nothing about the agent, by what they were lost to.
        since: The first run of those that it has missed in a row up to the newest, however long ago that is;
            None where the newest passed.
        cells: What each run of the history counted, the oldest first; None where it is not in the run.
        promote: Whether it is expected to fail and has passed in the last runs.
    """

    case_id: str
    tier: Tier
    passed: int
    scored: int
    letters: str
    missed: Mapping[str, int]
    lost: Mapping[str, int]
    since: HistoryRun | None
    cells: Sequence[CaseRecord | None] = ()
    promote: bool = False

    @property
    def is_steady(self) -> bool:
        """Whether there is nothing to look at: all trials of the window passed."""
        return self.passed == self.scored > 0 and not self.lost


@dataclass(frozen=True)
class Board:
    """All cases over the runs of a history.

    Example:
        >>> board([]).runs
        ()

    Attributes:
        runs: The oldest first.
        cases: Those to look at first: with the lowest rate first, then by id.
    """

    runs: Sequence[RunRecord]
    cases: Sequence[CaseBoard]

    @property
    def counted(self) -> Sequence[RunRecord]:
        """The runs under the key of the newest, the oldest first, wherever others are between them."""
        return [run for run in self.runs if self.counts(run)]

    @property
    def other_keys(self) -> int:
        """How many runs were made under another key than the newest: they are shown and not counted."""
        return len(self.runs) - len(self.counted)

    def counts(self, run: RunRecord) -> bool:
        """Whether a run was made under the key of the newest."""
        return run.run.key == self.runs[-1].run.key


@dataclass(frozen=True)
class DeclaredTiers:
    """What the reviewed policy says of cases; a history never changes it.

    Example:
        >>> DeclaredTiers(expected_fail=frozenset({"refund"})).of("refund")
        'expected-fail'

    Attributes:
        quarantined: Ids of the cases in quarantine.
        tracked: Ids of the cases that do not block by themselves.
        expected_fail: Ids of the cases that are expected to fail.
    """

    quarantined: Collection[str] = field(default_factory=frozenset)
    tracked: Collection[str] = field(default_factory=frozenset)
    expected_fail: Collection[str] = field(default_factory=frozenset)

    def of(self, case_id: str) -> Tier | None:
        """The tier that is declared; None where none is."""
        if case_id in self.quarantined:
            return "quarantined"
        if case_id in self.expected_fail:
            return "expected-fail"
        return "tracked" if case_id in self.tracked else None


def tiers_of_policy(policy: GatePolicy) -> DeclaredTiers:
    """Take from a policy what it says of cases."""
    return DeclaredTiers(
        quarantined=frozenset(entry.case_id for entry in policy.quarantine),
        tracked=frozenset(policy.tracked),
        expected_fail=frozenset(policy.expected_fail),
    )


def board(
    records: Sequence[RunRecord], *, runs: int | None = None, declared: DeclaredTiers | None = None
) -> Board:
    """Compute what a history says.

    Args:
        records: The newest first.
        runs: The newest so many are shown; None for all. Rates and tiers are of all.
        declared: What the policy says of cases.
    """
    declared = declared or DeclaredTiers()
    if not records:
        return Board((), ())
    same = _of_newest_key(records)
    shown = list(records[:runs])[::-1]
    ids = sorted({case_id for record in same for case_id in record.cases})
    cases = [_case(case_id, same, shown, declared.of(case_id)) for case_id in ids]
    return Board(tuple(shown), tuple(sorted(cases, key=_to_look_at_first)))


def _of_newest_key(records: Sequence[RunRecord]) -> list[RunRecord]:
    return [record for record in records if record.run.key == records[0].run.key]


def runs_of(case_id: str, records: Sequence[RunRecord]) -> list[tuple[HistoryRun, CaseRecord]]:
    """Select the runs of a case, the newest first, back to where it was defined otherwise.

    Args:
        case_id: The case.
        records: Of one key, the newest first.
    """
    counted = [(record.run, record.cases[case_id]) for record in records if case_id in record.cases]
    return list(takewhile(lambda each: each[1].definition == counted[0][1].definition, counted))


def window_of(runs: Sequence[tuple[HistoryRun, CaseRecord]]) -> list[tuple[HistoryRun, CaseRecord]]:
    """Select the newest runs of a case until they have `WINDOW` scored trials; `runs` are from `runs_of`."""
    chosen: list[tuple[HistoryRun, CaseRecord]] = []
    scored = 0
    for run, case in runs:
        if scored >= WINDOW:
            break
        chosen.append((run, case))
        scored += case.scored
    return chosen


def to_promote(records: Sequence[RunRecord], declared: DeclaredTiers) -> list[str]:
    """List the cases that are expected to fail and passed in the last runs, by id.

    Args:
        records: The newest first; those of another setup than the newest do not count.
        declared: What the policy says of cases.
    """
    same = _of_newest_key(records)
    return [
        case_id
        for case_id in sorted(declared.expected_fail)
        if declared.of(case_id) == "expected-fail" and _passed_lately(runs_of(case_id, same))
    ]


def _passed_lately(runs: Sequence[tuple[HistoryRun, CaseRecord]]) -> bool:
    """Tell whether every trial of the last `PROMOTED_AFTER` runs passed, each of which scored one."""
    passes = [case for _, case in runs[:PROMOTED_AFTER] if case.scored and case.passed == case.scored]
    return len(passes) == PROMOTED_AFTER


def counted_before(case_id: str, own: RunRecord, earlier: Sequence[RunRecord]) -> tuple[int, int]:
    """Count the newest trials of a case that passed and that were scored, in runs that are like a run.

    Args:
        case_id: The case.
        own: The run: its setup, and how it defines the case.
        earlier: Runs of the base branch, the newest first; those of another setup do not count.

    Returns:
        Both counts; 0 and 0 where the case was defined otherwise in the newest of these runs.
    """
    same = [record for record in earlier if record.run.key == own.run.key]
    window = window_of(runs_of(case_id, [record for record in same if record.run.run_id != own.run.run_id]))
    if not window or case_id not in own.cases or window[0][1].definition != own.cases[case_id].definition:
        return 0, 0
    return sum(case.passed for _, case in window), sum(case.scored for _, case in window)


def letters_of(case: CaseRecord) -> str:
    """Write the outcomes of a run's trials, those that passed first: their order is not recorded.

    Example:
        >>> missed = {"timeout": 1}
        >>> letters_of(CaseRecord(case_id="a", definition="", passed=2, scored=3, missed=missed))
        'PPF'
    """
    missed = case.scored - case.passed
    return PASSED * case.passed + MISSED * missed + LOST * sum(case.lost.values())


def _case(
    case_id: str, records: Sequence[RunRecord], shown: Sequence[RunRecord], declared: Tier | None
) -> CaseBoard:
    runs = runs_of(case_id, records)
    window = window_of(runs)
    passed = sum(case.passed for _, case in window)
    scored = sum(case.scored for _, case in window)
    missed, lost = Counter[str](), Counter[str]()
    for _, case in window:
        missed.update(case.missed)
        lost.update(case.lost)
    return CaseBoard(
        case_id=case_id,
        tier=tier_of(passed, scored, declared),
        passed=passed,
        scored=scored,
        letters="".join(letters_of(case) for _, case in reversed(window))[-WINDOW:],
        missed=dict(missed.most_common()),
        lost=dict(lost.most_common()),
        since=_since(runs),
        cells=tuple(record.cases.get(case_id) for record in shown),
        promote=declared == "expected-fail" and _passed_lately(runs),
    )


def _since(runs: Sequence[tuple[HistoryRun, CaseRecord]]) -> HistoryRun | None:
    since = None
    for run, case in runs:
        if case.passed == case.scored:
            if case.scored:
                break
            continue
        since = run
    return since


def _to_look_at_first(case: CaseBoard) -> tuple[float, str]:
    return (case.passed / case.scored if case.scored else 1.0, case.case_id)
