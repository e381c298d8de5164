"""Hold the history of the base branch against a release: what was lost since, and whose doing that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.gate.drift import QUALITY_BUDGET, Counted, DriftReport, drift_since, fell_too, together
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

    Raises:
        InvalidInput: There is no history, or a record is not what was written.
        InvalidPack: A pack does not verify.
        NothingMeasured: No trial of the release was scored.
        UsageError: The packs are of another dataset, or share no case with the history.
    """
    records = read_history_at(where, dataset_id)
    released = [_record(path, records[0].run.dataset_id) for path in release]
    definitions = {case_id: case.definition for record in released for case_id, case in record.cases.items()}
    own = released[0].run
    alike = [record for record in records if record.run.key == own.key or record.run.model != own.model]
    counts = [(record, counted_in(record, definitions)) for record in reversed(alike)]
    counted = [(record, count) for record, count in counts if count.scored]
    if not counted:
        raise UsageError(
            f"{where} has no run to hold against the release: no case is defined alike and judged alike",
            remedy="Evaluate the release again with today's suite and judges.",
            field="release",
        )
    at_release = together(counted_in(record, definitions) for record in released)
    again = None
    if release_again is not None:
        today = _record(release_again, records[0].run.dataset_id)
        again = fell_too(at_release, counted_in(today, definitions))
    return DriftReport(
        drift_since(at_release, [count for _, count in counted], budget=budget),
        [record.run for record, _ in counted],
        len(records) - len(counted),
        sum(records[0].cases[name].definition == definitions.get(name) for name in records[0].cases),
        again,
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
