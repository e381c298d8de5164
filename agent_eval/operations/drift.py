"""Hold the history of the base branch against a release: what was lost since, and whose doing that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_eval.contracts.base import instant
from agent_eval.errors import UsageError
from agent_eval.gate.drift import (
    LATEST_RUNS,
    QUALITY_BUDGET,
    Counted,
    DriftReport,
    FallenCase,
    drift_since,
    fell_too,
    together,
)
from agent_eval.history.record import RunRecord, record_of
from agent_eval.operations.history import read_history_at
from agent_eval.operations.packs import open_run


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

    Only cases with the same definition on both sides count: a suite that became harder is no drift. Runs that
    were judged otherwise are left out, known by another key at the same model; another model is what drifted.
    Runs from before the release are left out as well.

    Raises:
        InvalidInput: There is no history, or a record is not what was written.
        InvalidPack: A pack does not verify.
        NothingMeasured: No trial of the release was scored.
        UsageError: The packs are of another dataset, or share no case with the history.
    """
    records = read_history_at(where, dataset_id)
    named = records[0].run.dataset_id
    released = [_record(path, named) for path in release]
    again = None
    if release_again is not None:
        again = released_counts(released, _record(release_again, named))
    try:
        return drift_of(records, released, again=again, budget=budget)
    except UsageError as error:
        error.message = f"{where}: {error.message}"
        raise


def drift_of(
    records: Sequence[RunRecord],
    released: Sequence[RunRecord],
    *,
    again: Counted | None = None,
    budget: float = QUALITY_BUDGET,
) -> DriftReport:
    """Hold records of the base branch against those of a release.

    Args:
        records: Of the base branch, the newest first. Those from before the release, and the release itself,
            are left out: what was worse or better then is no drift since.
        released: Of the release: one run, or several of the same commit.
        again: Trials of the released agent, run again; None where it was not.
        budget: Share of the pass rate that all changes since the release may lose.

    Raises:
        NothingMeasured: No trial of the release was scored.
        UsageError: No record can be held against the release.
    """
    definitions = definitions_of(released)
    counted = [
        (record, count)
        for record in reversed(_since(records, released))
        if (count := counted_in(record, definitions)).scored
    ]
    if not counted:
        raise UsageError(
            "there is no run since the release to hold against it: no case is defined alike and judged alike",
            remedy="Evaluate the release again with today's suite and judges.",
            field="release",
        )
    at_release = together(counted_in(record, definitions) for record in released)
    drift = drift_since(at_release, [count for _, count in counted], budget=budget)
    first = max(0, len(counted) - LATEST_RUNS) if drift.began_at is None else drift.began_at
    latest = [record for record, _ in counted[first:]]
    return DriftReport(
        drift,
        [record.run for record, _ in counted],
        len(records) - len(counted),
        sum(case.definition == definitions.get(name) for name, case in records[0].cases.items()),
        None if again is None else fell_too(at_release, again),
        release=at_release,
        latest=together(count for _, count in counted[first:]),
        again=again,
        fallen=_fallen(released, latest, definitions),
        newest_scored=counted[-1][1].scored,
    )


def released_counts(released: Sequence[RunRecord], again: RunRecord) -> Counted:
    """Count the trials of the released agent, run again, in the cases that the release has."""
    return counted_in(again, definitions_of(released))


def definitions_of(released: Sequence[RunRecord]) -> dict[str, str]:
    """List the definitions of the release's cases by case id."""
    return {case_id: case.definition for record in released for case_id, case in record.cases.items()}


def _since(records: Sequence[RunRecord], released: Sequence[RunRecord]) -> list[RunRecord]:
    """Select the records that say something of the branch since the release."""
    own, packs = released[0].run, {record.run.manifest_sha256 for record in released}
    began = min(instant(record.run.started_at) for record in released)
    return [
        record
        for record in records
        if (record.run.key == own.key or record.run.model != own.model)
        and record.run.manifest_sha256 not in packs
        and instant(record.run.started_at) >= began
    ]


def _fallen(
    released: Sequence[RunRecord], latest: Sequence[RunRecord], definitions: Mapping[str, str]
) -> list[FallenCase]:
    """List the cases that pass less often now, those that fell the most first."""
    cases = [
        FallenCase(
            case_id,
            _of_case(released, case_id, definition),
            _of_case(latest, case_id, definition),
        )
        for case_id, definition in definitions.items()
    ]
    fell = [case for case in cases if case.latest.scored and case.release.scored and case.fell_by > 0]
    return sorted(fell, key=lambda case: (-case.fell_by, case.case_id))


def _of_case(records: Sequence[RunRecord], case_id: str, definition: str) -> Counted:
    return together(
        Counted(case.passed, case.scored)
        for record in records
        if (case := record.cases.get(case_id)) is not None and case.definition == definition
    )


def counted_in(record: RunRecord, definitions: Mapping[str, str]) -> Counted:
    """Add up the trials of the cases that are defined as in the release."""
    return together(
        Counted(case.passed, case.scored)
        for case_id, case in record.cases.items()
        if definitions.get(case_id) == case.definition
    )


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
