"""What a history says of each case: its rate, its last outcomes, since when it fails, whether it is flaky."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord

WINDOW = 20
"""Newest trials of a case that its rate is of."""
ENOUGH = 10
"""Trials from which a case is called steady, flaky or failing."""
STEADY = 0.9
"""Least share of its trials that a steady case passes, as for the gate."""

PASSED, MISSED, LOST = "P", "F", "?"

Kind = Literal["steady", "flaky", "failing", "new", "quarantined"]
"""What the newest trials say: nearly all pass, some fail, none passes; `new` has too few of them to tell, and
`quarantined` is listed by the policy."""


@dataclass(frozen=True)
class CaseBoard:
    """One case over the runs of a history.

    Attributes:
        case_id: The case.
        kind: What its newest trials say of it.
        passed: Trials that passed, of the newest `WINDOW` scored ones, in whole runs.
        scored: How many these are.
        letters: The last outcomes, the newest at the end.
        missed: Scored trials of the window that did not pass, by kind of failure.
        lost: Trials of the window that say nothing about the agent, by what they were lost to.
        since: The first run of those that it has missed in a row up to the newest, however long ago that is;
            None where the newest passed.
        cells: What each run of the history counted, the oldest first; None where it is not in the run.
    """

    case_id: str
    kind: Kind
    passed: int
    scored: int
    letters: str
    missed: Mapping[str, int]
    lost: Mapping[str, int]
    since: HistoryRun | None
    cells: Sequence[CaseRecord | None] = ()

    @property
    def always_passed(self) -> bool:
        """Whether there is nothing to look at: all trials of the window passed."""
        return self.passed == self.scored > 0 and not self.lost


@dataclass(frozen=True)
class Board:
    """All cases over the runs of a history.

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


def board(
    records: Sequence[RunRecord], *, runs: int | None = None, quarantined: Collection[str] = ()
) -> Board:
    """Compute what a history says.

    Args:
        records: The newest first.
        runs: The newest so many are shown; None for all. Rates are of all.
        quarantined: Ids of the cases that the policy holds in quarantine.
    """
    if not records:
        return Board((), ())
    same = _of_newest_key(records)
    shown = list(records[:runs])[::-1]
    ids = sorted({case_id for record in same for case_id in record.cases})
    cases = [_case(case_id, same, shown, is_quarantined=case_id in quarantined) for case_id in ids]
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
    case_id: str, records: Sequence[RunRecord], shown: Sequence[RunRecord], *, is_quarantined: bool
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
        kind="quarantined" if is_quarantined else _kind(passed, scored),
        passed=passed,
        scored=scored,
        letters="".join(letters_of(case) for _, case in reversed(window))[-WINDOW:],
        missed=dict(missed.most_common()),
        lost=dict(lost.most_common()),
        since=_since(runs),
        cells=tuple(record.cases.get(case_id) for record in shown),
    )


def _kind(passed: int, scored: int) -> Kind:
    if scored < ENOUGH:
        return "new"
    if not passed:
        return "failing"
    return "steady" if passed >= STEADY * scored else "flaky"


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
