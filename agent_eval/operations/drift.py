"""`drift`: hold main's last runs against a release, by the totals of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_eval.contracts.base import instant
from agent_eval.contracts.history import RunRecord
from agent_eval.errors import UsageError
from agent_eval.evidence.reader import Pack
from agent_eval.gate.release import FEWEST, LATEST, DriftReport, FallenCase, drift
from agent_eval.history.records import record_of
from agent_eval.operations.history import read_history_at
from agent_eval.operations.packs import open_run

FEWEST_SHARE = 0.5
"""Share of the release's cases that must be defined as they were: below it, what is left out weighs more than
what is compared, and a loss or none in the rest says little of the release."""

WHOLE = 0.9
"""Share of the compared cases that a run must have judged to be held against the release."""


def check_drift(where: Path, release: Sequence[Path], *, dataset_id: str | None = None) -> DriftReport:
    """Hold the history at `where` against a release.

    Args:
        where: Evidence of a run of main, or a directory of its records.
        release: Packs of the release: several runs of one commit, or one whose cases have several trials.
        dataset_id: Which dataset of the history, where it has several.

    Only cases that main's newest run defines as the release did count, on both sides: a suite that became
    harder is no drift. Runs that were judged otherwise are left out, known by another key at the same model;
    another model is what drifted. Runs from before the release are left out as well.

    Raises:
        InvalidInput: There is no history, or a record is not what was written.
        InvalidPack: A pack does not verify.
        UsageError: The packs are of another dataset, have too few trials, or share too few cases with the
            history.
    """
    records = read_history_at(where, dataset_id)
    packs = [_opened(path, records[0].run.dataset_id) for path in release]
    released = [record_of(pack) for pack in packs]
    since = _since(records, released)
    if not since:
        raise _unusable(
            f"{where}: there is no run since the release to hold against it: none was judged alike"
        )
    definitions = _definitions(since[0], released)
    whole = [record for record in since if len(_shares(record, definitions)) >= WHOLE * len(definitions)]
    runs = whole[:LATEST]
    totals = [total for pack in packs for total in _totals_by_trial(pack, definitions)]
    if len(totals) < FEWEST:
        raise UsageError(
            f"the release has {len(totals)} trial of each case: how much its runs vary is not known"
            if len(totals) == 1
            else f"the release has {len(totals)} trials of each case: how much its runs vary is not known",
            remedy=f"Run the released commit with `--trials {LATEST}`, or give at least {FEWEST} runs of it.",
            field="release",
        )
    before = _mean_shares([_shares(record, definitions) for record in released])
    now = [{**before, **_shares(record, definitions)} for record in runs]
    return DriftReport(
        drift=drift(totals, [sum(shares.values()) for shares in now], len(definitions)),
        runs=[record.run for record in runs],
        left_out_runs=len(records) - len(whole),
        left_out_cases=len(set().union(*(record.cases for record in released)) - definitions.keys()),
        fallen=_fallen(before, now),
    )


def _opened(path: Path, dataset_id: str) -> Pack:
    pack = open_run(path)
    if pack.manifest.dataset_id != dataset_id:
        raise UsageError(
            f"{path} is not of the history's dataset {dataset_id[:200]!r}, but of "
            f"{pack.manifest.dataset_id[:200]!r}",
            remedy="Give a run of the same dataset.",
            field="release",
        )
    return pack


def _since(records: Sequence[RunRecord], released: Sequence[RunRecord]) -> list[RunRecord]:
    """Select the records that say something of main since the release, the newest first."""
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


def _definitions(newest: RunRecord, released: Sequence[RunRecord]) -> dict[str, str]:
    """Definitions by case id of the cases that the newest run and every run of the release define alike."""
    definitions = {
        case_id: case.definition
        for case_id, case in newest.cases.items()
        if all(
            case_id in record.cases
            and record.cases[case_id].definition == case.definition
            and record.cases[case_id].trials
            for record in released
        )
    }
    number = len(released[0].cases)
    if len(definitions) < FEWEST_SHARE * number or not definitions:
        raise _unusable(
            f"nothing can be told: only {len(definitions)} of the release's {number} cases are defined as "
            "they were then, fewer than half"
        )
    return definitions


def _unusable(message: str) -> UsageError:
    remedy = "Evaluate the release again with today's suite and judges."
    return UsageError(message, remedy=remedy, field="release")


def _shares(record: RunRecord, definitions: Mapping[str, str]) -> dict[str, float]:
    """Shares of passed trials of the compared cases that a run judged, by case id."""
    return {
        case_id: case.passed / case.trials
        for case_id, definition in definitions.items()
        if (case := record.cases.get(case_id)) is not None and case.definition == definition and case.trials
    }


def _mean_shares(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {case_id: sum(run[case_id] for run in runs) / len(runs) for case_id in runs[0]}


def _totals_by_trial(pack: Pack, definitions: Mapping[str, str]) -> list[float]:
    """Cases that passed in the first trial, in the second, and so on, as far as every case has that trial."""
    rows = [row for row in pack.results() if row["case_id"] in definitions]
    passed = [[trial["passed"] for trial in row.get("trials") or [row]] for row in rows]
    return [float(sum(trials)) for trials in zip(*passed, strict=False)]


def _fallen(before: Mapping[str, float], now: Sequence[Mapping[str, float]]) -> list[FallenCase]:
    """Cases that pass less often now, those that fell the most first."""
    latest = _mean_shares(now) if now else {}
    fell = [FallenCase(case_id, before[case_id], share) for case_id, share in latest.items()]
    fell = [case for case in fell if case.main < case.release]
    return sorted(fell, key=lambda case: (case.main - case.release, case.case_id))
