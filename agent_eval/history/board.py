"""What a history says of each case: its rate, its last outcomes, since when it fails, what to quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import takewhile
from typing import Literal

from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord

WINDOW = 20
"""Newest trials of a case that its rate is of."""
ENOUGH = 10
"""Trials from which a case is called steady, flaky or failing."""
STEADY = 0.9
"""Least share of its trials that a steady case passes, as for the gate."""
DAYS = 30
"""Days from the newest run for which a quarantine is proposed: it is to be mended, not forgotten."""

Kind = Literal["steady", "flaky", "failing", "new", "quarantined"]
"""What the newest trials say: nearly all pass, some fail, none passes; `new` has too few of them to tell, and
`quarantined` is listed by the policy."""


@dataclass(frozen=True)
class CaseBoard:
    """One case over the runs of a history.

    Attributes:
        passed: Trials that passed, of the newest `WINDOW` scored ones, in whole runs.
        letters: The last outcomes, the newest at the end: `P` passed, `F` failed, `?` lost. Of a run
            those that passed come first, for their order is not recorded.
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
    """All cases over the runs of a history: the oldest run first, the case with the lowest rate first."""

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
    same = [record for record in records if record.run.key == records[0].run.key]
    shown = list(records[:runs])[::-1]
    ids = sorted({case_id for record in same for case_id in record.cases})
    cases = [_case(case_id, same, shown, is_quarantined=case_id in quarantined) for case_id in ids]
    lowest_first = sorted(cases, key=lambda case: case.passed / case.scored if case.scored else 1.0)
    return Board(tuple(shown), tuple(lowest_first))


def _case(
    case_id: str, records: Sequence[RunRecord], shown: Sequence[RunRecord], *, is_quarantined: bool
) -> CaseBoard:
    counted = [(record.run, record.cases[case_id]) for record in records if case_id in record.cases]
    # Only back to where it was defined otherwise.
    runs = list(takewhile(lambda each: each[1].definition == counted[0][1].definition, counted))
    window: list[CaseRecord] = []
    for _, case in runs:
        if sum(each.scored for each in window) >= WINDOW:
            break
        window.append(case)
    passed, scored = (sum(getattr(case, name) for case in window) for name in ("passed", "scored"))
    missed, lost = Counter[str](), Counter[str]()
    letters = ""
    for case in reversed(window):
        missed.update(case.missed)
        lost.update(case.lost)
        letters += "P" * case.passed + "F" * (case.scored - case.passed) + "?" * sum(case.lost.values())
    since = None
    for run, case in runs:
        if case.passed < case.scored:
            since = run
        elif case.scored:
            break
    kind: Kind = "steady" if passed >= STEADY * scored else "flaky" if passed else "failing"
    return CaseBoard(
        case_id=case_id,
        kind="quarantined" if is_quarantined else kind if scored >= ENOUGH else "new",
        passed=passed,
        scored=scored,
        letters=letters[-WINDOW:],
        missed=dict(missed.most_common()),
        lost=dict(lost.most_common()),
        since=since,
        cells=tuple(record.cases.get(case_id) for record in shown),
    )


@dataclass(frozen=True)
class Recommendation:
    """Changes of a policy's quarantine, which a person reviews and commits; both lists are sorted by id.

    Attributes:
        add: Flaky and failing cases that are not in quarantine.
        remove: Cases in quarantine whose newest trials nearly all pass.
        until: The day that is proposed, as `2027-01-31`.
    """

    add: Sequence[CaseBoard]
    remove: Sequence[CaseBoard]
    until: str


def recommendation(history: Board, quarantined: Collection[str]) -> Recommendation:
    """Recommend which cases to quarantine; those with too few trials to judge stay as they are.

    `quarantined` are the cases that the policy holds there, with which the board was made as well.
    """
    cases = sorted(history.cases, key=lambda case: case.case_id)
    add = [case for case in cases if case.kind in ("flaky", "failing")]
    remove = [
        case
        for case in cases
        if case.case_id in quarantined and case.scored >= ENOUGH and case.passed >= STEADY * case.scored
    ]
    newest = history.runs[-1].run.started_at[:10] if history.runs else date.min.isoformat()
    until = date.fromisoformat(newest) + timedelta(days=DAYS)
    return Recommendation(add, remove, until.isoformat())
