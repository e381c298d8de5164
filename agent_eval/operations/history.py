"""Main's history: shown, held against a release (`drift`), and what judges and cases were worth in it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_eval.config.project_file import CONFIG_FILE
from agent_eval.contracts.base import instant
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.derived import is_pack
from agent_eval.evidence.reader import Pack
from agent_eval.gate.health import GateHealth
from agent_eval.gate.policy_file import unknown_case_warnings, with_keys
from agent_eval.gate.release import FEWEST, LATEST, Drift, FallenCase, drift
from agent_eval.history.board import Board
from agent_eval.history.records import read_history, record_of
from agent_eval.operations.gate import read_policy
from agent_eval.operations.packs import open_below, open_run, packs_below, to_show
from agent_eval.text.numbers import count

FEWEST_SHARE = 0.5
"""Share of the release's cases that must be defined as they were: below it, what is left out weighs more than
what is compared, and a loss or none in the rest says little of the release."""

WHOLE = 0.9
"""Share of the compared cases that a run must have judged to be held against the release."""


def read_history_at(where: Path, dataset_id: str | None) -> list[RunRecord]:
    """Read the records of one dataset, the newest first; as `read_histories_at`, but of one alone.

    Raises:
        UsageError: There are several datasets, and none is named.
    """
    histories = read_histories_at(where, dataset_id)
    if len(histories) > 1:
        raise _name_one(where, "is of several datasets", histories)
    return next(iter(histories.values()))


def read_histories_at(where: Path, dataset_id: str | None = None) -> dict[str, list[RunRecord]]:
    """Read the records of each dataset, the newest first, or of the one that is named.

    `where` is a pack, an archive or a directory of packs.

    Raises:
        InvalidInput: There is no history, or it is not what was written.
        UsageError: The dataset that is named is not among them.
    """
    if not where.exists():
        raise InvalidInput(f"{where} does not exist.", remedy="Correct the path.", file=str(where))
    is_empty = where.is_dir() and not any(map(is_pack, packs_below(where)))
    packs = () if is_empty else open_below(where)
    read = {pack.manifest.dataset_id: read_history(pack) for _, pack in packs}
    histories = {name: records for name, records in read.items() if records}
    if not histories:
        raise InvalidInput(
            f"{where} has no history.",
            remedy="Give the evidence of a run of `agent-eval ci` on the base branch.",
            file=str(where),
        )
    if dataset_id is None:
        return histories
    if dataset_id not in histories:
        raise _name_one(where, f"has no dataset {dataset_id[:200]!r}", histories)
    return {dataset_id: histories[dataset_id]}


def _name_one(where: Path, problem: str, histories: Mapping[str, object]) -> UsageError:
    return UsageError(
        f"{where} {problem}.",
        remedy=f"Name one with --dataset-id: {', '.join(sorted(histories))[:500]}.",
        field="dataset-id",
    )


def quarantine_at(
    path: Path | None, records: Sequence[RunRecord], stated: Sequence[Mapping[str, Any]] = ()
) -> tuple[set[str], list[str]]:
    """Read which cases a policy holds in quarantine, and warn of those that no run of a history has.

    `stated` are the entries of `agent-eval.yml`, if it has some.
    """
    policy = GatePolicy() if path is None else read_policy(path)
    if stated:
        policy = with_keys(policy, {"quarantine": stated}, source=CONFIG_FILE)
    known = {case_id for record in records for case_id in record.cases}
    warnings = unknown_case_warnings(policy, known, where="none of these runs has it")
    return {entry.case for entry in policy.quarantine}, warnings


def history_json(history: Board, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Describe a history as JSON: the runs, the oldest first, and the cases."""
    return {
        "runs": [
            {**run.run.to_json(), "pass_rate": run.pass_rate, "counted": history.counts(run)}
            for run in history.runs
        ],
        "cases": [
            {
                "case_id": case.case_id,
                "kind": case.kind,
                "passed": case.passed,
                "scored": case.scored,
                "letters": case.letters,
                "missed": dict(case.missed),
                "lost": dict(case.lost),
                "since": case.since.to_json() if case.since is not None else None,
            }
            for case in history.cases
        ],
        "warnings": list(warnings),
    }


def read_health(packs: Sequence[Path]) -> dict[str, GateHealth]:
    """Verify the packs, and count their verdicts by dataset.

    `packs` are packs, archives or directories of packs, each run once.

    Raises:
        InvalidInput, InvalidPack: A pack cannot be read, or does not verify.
        UsageError: Two are the same run.
    """
    by_dataset: dict[str, GateHealth] = {}
    paths: dict[str, Path] = {}
    for path, pack in (opened for where in packs for opened in open_below(where)):
        if (same := paths.setdefault(pack.manifest_sha256, path)) is not path:
            raise UsageError(
                f"{path} and {same} are the same run",
                remedy="Give each run once: counted twice it looks like more evidence than it is.",
                field="packs",
            )
        health, without_secrets = by_dataset.setdefault(pack.manifest.dataset_id, GateHealth()), to_show(pack)
        health.add(without_secrets.results(), without_secrets.index_by_id())
    return by_dataset


def check_drift(where: Path, release: Sequence[Path], *, dataset_id: str | None = None) -> Drift:
    """Hold the history at `where` against a release.

    Args:
        where: Evidence of a run of main, or a directory of its records.
        release: Packs of several runs of one commit, or of one run whose cases have several trials.
        dataset_id: Which dataset of the history, where it has several.

    Only cases that main's newest run defines as the release did count, on both sides: a suite that became
    harder is no drift. Runs that were judged otherwise are left out, known by another key at the same model;
    another model is what drifted. Runs from before the release are left out as well.

    Raises:
        InvalidInput: There is no history, or a record is not what was written.
        UsageError: The packs are of another dataset, or have too few trials or common cases.
    """
    records = read_history_at(where, dataset_id)
    dataset, packs = records[0].run.dataset_id, [open_run(path) for path in release]
    for path, pack in zip(release, packs, strict=True):
        if pack.manifest.dataset_id != dataset:
            raise UsageError(
                f"{path} is not of the history's dataset {dataset[:200]!r}, but of "
                f"{pack.manifest.dataset_id[:200]!r}",
                remedy="Give a run of the same dataset.",
                field="release",
            )
    released = [record_of(pack) for pack in packs]
    since = _since(released, records)
    if not since:
        raise _unusable(
            f"{where}: there is no run since the release to hold against it: none was judged alike"
        )
    definitions = _defined_alike(since[0], released)
    number = len(released[0].cases)
    if len(definitions) < FEWEST_SHARE * number or not definitions:
        raise _unusable(
            f"nothing can be told: only {len(definitions)} of the release's {number} cases are defined as "
            "they were then, fewer than half"
        )
    whole = [record for record in since if len(_shares(record, definitions)) >= WHOLE * len(definitions)]
    runs = whole[:LATEST]
    totals = [total for pack in packs for total in _passed_by_trial(pack, definitions)]
    if len(totals) < FEWEST:
        trials = count(len(totals), "trial")
        raise UsageError(
            f"the release has {trials} of each case: how much its runs vary is not known",
            remedy=f"Run the released commit with `--trials {LATEST}`, or give at least {FEWEST} runs of it.",
            field="release",
        )
    before = _mean_shares([_shares(record, definitions) for record in released])
    now = [{**before, **_shares(record, definitions)} for record in runs]
    latest = _mean_shares(now) if now else {}
    shares = latest.items()
    fallen = [FallenCase(name, before[name], share) for name, share in shares if share < before[name]]
    return replace(
        drift(totals, [sum(shares.values()) for shares in now], len(definitions)),
        runs=[record.run for record in runs],
        left_out_runs=len(records) - len(whole),
        left_out_cases=len(set().union(*(record.cases for record in released)) - definitions.keys()),
        fallen=sorted(fallen, key=lambda case: (case.main - case.release, case.case_id)),
    )


def _since(released: Sequence[RunRecord], records: Sequence[RunRecord]) -> list[RunRecord]:
    """Select what says something of main since the release, the newest first."""
    own, release_packs = released[0].run, {record.run.manifest_sha256 for record in released} - {None}
    began = min(instant(record.run.started_at) for record in released)
    return [
        record
        for record in records
        if (record.run.key == own.key or record.run.model != own.model)
        and record.run.manifest_sha256 not in release_packs
        and instant(record.run.started_at) >= began
    ]


def _defined_alike(newest: RunRecord, released: Sequence[RunRecord]) -> dict[str, str]:
    """Return the definitions of cases that every run of the release defines as the newest, and counted."""
    return {
        case_id: case.definition
        for case_id, case in newest.cases.items()
        if all(
            (row := record.cases.get(case_id)) is not None
            and row.definition == case.definition
            and row.trials
            for record in released
        )
    }


def _passed_by_trial(pack: Pack, cases: Container[str]) -> list[float]:
    """Count the cases that passed in the first trial, in the second, as far as every case has that trial."""
    rows = [row for row in pack.results() if row["case_id"] in cases]
    passed = [[trial["passed"] for trial in row.get("trials") or [row]] for row in rows]
    return [float(sum(trials)) for trials in zip(*passed, strict=False)]


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
