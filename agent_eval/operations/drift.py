"""Hold the history of the base branch against a release: what was lost since, and whose doing that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from agent_eval.contracts.base import digest, instant
from agent_eval.errors import UsageError
from agent_eval.gate.drift import (
    LATEST_RUNS,
    QUALITY_BUDGET,
    Cause,
    Counted,
    Drift,
    DriftReport,
    FallenCase,
    SuiteCount,
    drift_since,
    fell_too,
    together,
    what_moved,
)
from agent_eval.gate.drift_cause import KnownLoss
from agent_eval.contracts.history import RunRecord
from agent_eval.history.record import record_of
from agent_eval.operations.history import read_history_at
from agent_eval.operations.packs import open_run

FEWEST_SHARE = 0.5
"""Share of the release's cases that must be defined as they were: below it, what is left out weighs more than
what is compared, and a loss or none in the rest says little of the release."""

WHOLE = 0.9
"""Share of the compared cases that a run must have scored to be held against the release."""

_DIGEST_LENGTH = 8


@dataclass(frozen=True)
class ComparedCases:
    """The one set of cases over which the release, every run since and the released agent are counted.

    Example:
        `compared_cases(records, released).count(records[0]).rate` is the newest run's pass rate.

    Attributes:
        definitions: Their definitions by case id.
        released: The release's trials by case id, each at least one.
        left_out: How many cases of the release are not among them, because they changed or are gone.
    """

    definitions: Mapping[str, str]
    released: Mapping[str, Counted]
    left_out: int

    @property
    def release(self) -> SuiteCount:
        """The release's trials."""
        return self._together(self.released)

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that differ where the cases do."""
        return digest(dict(self.definitions))[:_DIGEST_LENGTH]

    def count(self, record: RunRecord) -> SuiteCount:
        """Count a run. A case of which it scored no trial has the release's rate in the mean."""
        return self._together(self._by_case(record))

    def are_scored_by(self, record: RunRecord) -> bool:
        """Whether a run scored enough of the cases to be compared."""
        return len(self._by_case(record)) >= WHOLE * len(self.definitions)

    def _by_case(self, record: RunRecord) -> dict[str, Counted]:
        return {
            case_id: Counted(case.passed, case.scored)
            for case_id, definition in self.definitions.items()
            if (case := record.cases.get(case_id)) is not None
            and case.definition == definition
            and case.scored
        }

    def _together(self, counts: Mapping[str, Counted]) -> SuiteCount:
        total = together(counts.values())
        rates = [counts.get(case_id, released).rate for case_id, released in self.released.items()]
        return SuiteCount(total.passed, total.scored, fsum(rates) / len(rates) if rates else 0.0)


def check_drift(
    where: Path,
    release: Sequence[Path],
    *,
    release_again: Path | None = None,
    budget: float = QUALITY_BUDGET,
    dataset_id: str | None = None,
) -> DriftReport:
    """Hold the history at `where` against a release.

    Args:
        where: Evidence of a run on the base branch, or a directory of its records.
        release: Packs of the release: one run, or several of the same commit.
        release_again: Pack of the released agent, run again today.
        budget: Share of the pass rate that all changes since the release may lose.
        dataset_id: Which dataset of the history, where it has several.

    Only cases that the newest run defines as the release did count, on both sides: a suite that became harder
    is no drift. Runs that were judged otherwise are left out, known by another key at the same model; another
    model is what drifted. Runs from before the release are left out as well.

    Raises:
        InvalidInput: There is no history, or a record is not what was written.
        InvalidPack: A pack does not verify.
        NothingMeasured: No trial of the release was scored.
        UsageError: The packs are of another dataset, or share too few cases with the history.
    """
    records = read_history_at(where, dataset_id)
    named = records[0].run.dataset_id
    released = [_record(path, named) for path in release]
    again = None if release_again is None else _record(release_again, named)
    try:
        return drift_of(records, released, again=again, budget=budget)
    except UsageError as error:
        error.message = f"{where}: {error.message}"
        raise


def drift_of(
    records: Sequence[RunRecord],
    released: Sequence[RunRecord],
    *,
    again: RunRecord | None = None,
    budget: float = QUALITY_BUDGET,
) -> DriftReport:
    """Hold records of the base branch against those of a release.

    Args:
        records: Of the base branch, the newest first. Those from before the release, and the release itself,
            are left out: what was worse or better then is no drift since.
        released: Of the release: one run, or several of the same commit.
        again: The released agent, run again; None where it was not.
        budget: Share of the pass rate that all changes since the release may lose.

    Raises:
        NothingMeasured: No trial of the release was scored.
        UsageError: No record can be held against the release, or too few of its cases are as they were.
    """
    cases = compared_cases(records, released, again=again)
    counted = [
        (record, cases.count(record))
        for record in reversed(_since(records, released))
        if cases.are_scored_by(record)
    ]
    if not counted:
        raise _too_few_scored("no run since the release", cases)
    if again is not None and not cases.are_scored_by(again):
        raise _too_few_scored("the released agent, run again, has not", cases)
    drift = drift_since(cases.release, [count for _, count in counted], budget=budget)
    first = max(0, len(counted) - LATEST_RUNS) if drift.began_at is None else drift.began_at
    return DriftReport(
        drift,
        [record.run for record, _ in counted],
        len(records) - len(counted),
        len(cases.definitions),
        None if again is None else fell_too(cases.release, cases.count(again)),
        release=cases.release,
        again=None if again is None else cases.count(again),
        cause=None if again is None else _cause(cases, again, drift, [count for _, count in counted]),
        cases_left_out=cases.left_out,
        fallen=_fallen(cases, [record for record, _ in counted[first:]]),
        newest_scored=counted[-1][1].scored,
    )


def loss_with_night(
    loss: KnownLoss | None,
    records: Sequence[RunRecord],
    released: Sequence[RunRecord],
    again: RunRecord,
) -> KnownLoss:
    """Add a night of the released agent to a loss, and test what moved where it is time to.

    Args:
        loss: As it was; None where the newest record is the first to show it. That night says nothing of the
            code, since it is known for its misses.
        records: Of the base branch, the newest first.
        released: Of the release.
        again: The released agent, run in the night of the newest record.

    Raises:
        NothingMeasured, UsageError: As `drift_of`; or one of the two scored too few of the cases.
    """
    cases = compared_cases(records, released, again=again)
    if not cases.are_scored_by(again):
        raise _too_few_scored("the released agent, run again, has not", cases)
    if not cases.are_scored_by(records[0]):
        raise _too_few_scored("the base branch has not", cases)
    branch = Counted(0, 0) if loss is None else cases.count(records[0])
    night = (loss or KnownLoss()).with_night(together([cases.count(again)]), together([branch]), cases.digest)
    return night.tested(cases.release)


def compared_cases(
    records: Sequence[RunRecord], released: Sequence[RunRecord], *, again: RunRecord | None = None
) -> ComparedCases:
    """Select the cases that the newest run, and the released agent run again, define as the release did.

    Args:
        records: Of the base branch, the newest first.
        released: Of the release.
        again: The released agent, run again; None where it was not.

    Raises:
        UsageError: No record can be held against the release, or too few of its cases are left.
    """
    since = _since(records, released)
    if not since:
        raise UsageError(
            "there is no run since the release to hold against it: none was judged alike.",
            remedy="Evaluate the release again with today's suite and judges.",
            field="release",
        )
    trials = _released_trials(released)
    sides = [since[0], *([again] if again is not None else [])]
    definitions = {
        case_id: definition
        for case_id, (definition, _) in sorted(trials.items())
        if all(_defines(side, case_id, definition) for side in sides)
    }
    if len(definitions) < FEWEST_SHARE * len(trials):
        raise UsageError(
            f"nothing can be told: only {len(definitions)} of the release's {len(trials)} cases are defined "
            "as they were then, fewer than half.",
            remedy="Evaluate the release again with today's suite and judges.",
            field="release",
        )
    counts = {case_id: trials[case_id][1] for case_id in definitions}
    return ComparedCases(definitions, counts, len(trials) - len(definitions))


def _released_trials(released: Sequence[RunRecord]) -> dict[str, tuple[str, Counted]]:
    """Count the release's scored trials by case id, each with the definition that its last run has."""
    trials: dict[str, tuple[str, Counted]] = {}
    for record in released:
        for case_id, case in record.cases.items():
            definition, before = trials.get(case_id, (case.definition, Counted(0, 0)))
            own = Counted(case.passed, case.scored)
            same = definition == case.definition
            trials[case_id] = (case.definition, together([before, own]) if same else own)
    return {case_id: each for case_id, each in trials.items() if each[1].scored}


def _defines(record: RunRecord, case_id: str, definition: str) -> bool:
    case = record.cases.get(case_id)
    return case is not None and case.definition == definition


def _cause(cases: ComparedCases, again: RunRecord, drift: Drift, counts: Sequence[Counted]) -> Cause | None:
    """Tell what moved, by one test; the runs that raised the alarm were chosen for their misses."""
    if not (tonight := cases.count(again)).scored:
        return None
    first = len(counts) - LATEST_RUNS if drift.alarmed_at is None else drift.alarmed_at + 1
    return what_moved(cases.release, tonight, together(counts[max(0, first) :]))


def _too_few_scored(whose: str, cases: ComparedCases) -> UsageError:
    return UsageError(
        f"nothing can be told: {whose} scored nine tenths of the {len(cases.definitions)} cases that are "
        "defined as in the release.",
        remedy="See what the trials were lost to, and run the suite again.",
        field="release",
    )


def _since(records: Sequence[RunRecord], released: Sequence[RunRecord]) -> list[RunRecord]:
    """Select the records that say something of the branch since the release."""
    own = released[0].run
    packs = {record.run.manifest_sha256 for record in released} - {None}
    began = min(instant(record.run.started_at) for record in released)
    return [
        record
        for record in records
        if (record.run.key == own.key or record.run.model != own.model)
        and record.run.manifest_sha256 not in packs
        and instant(record.run.started_at) >= began
    ]


def _fallen(cases: ComparedCases, latest: Sequence[RunRecord]) -> list[FallenCase]:
    """List the cases that pass less often now, those that fell the most first."""
    now = {
        case_id: together(
            Counted(record.cases[case_id].passed, record.cases[case_id].scored)
            for record in latest
            if _defines(record, case_id, definition)
        )
        for case_id, definition in cases.definitions.items()
    }
    listed = [FallenCase(case_id, cases.released[case_id], count) for case_id, count in now.items()]
    fell = [case for case in listed if case.latest.scored and case.fell_by > 0]
    return sorted(fell, key=lambda case: (-case.fell_by, case.case_id))


def _record(path: Path, dataset_id: str) -> RunRecord:
    pack = open_run(path)
    if pack.manifest.dataset_id != dataset_id:
        raise UsageError(
            f"{path} is not of the history's dataset {dataset_id[:200]!r}, but of "
            f"{pack.manifest.dataset_id[:200]!r}",
            remedy="Give a run of the same dataset.",
            field="release",
        )
    return record_of(pack)
