"""Read the history that evidence, an archive or a directory has, for a person who wants to look at it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_eval.contracts.history import HistoryRun, RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.derived import is_pack
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.gate.policy_file import unknown_case_warnings
from agent_eval.history.board import Board, CaseBoard
from agent_eval.history.evidence import read_history
from agent_eval.history.files import decode_file, is_record_name, newest_first
from agent_eval.operations.gate import parse_policy_file
from agent_eval.storage.files import read_bytes

_MAX_POLICY = 1 << 20


def read_history_at(where: Path, dataset_id: str | None) -> list[RunRecord]:
    """Read the records of one dataset, the newest first.

    Args:
        where: A pack, an archive of packs, a directory of packs, or a directory of records.
        dataset_id: Which dataset, where there are several.

    Raises:
        InvalidInput: There is no history, or a record is not what was written.
        InvalidPack: A pack does not verify.
        UsageError: There are several datasets and none is named, or another one is.
    """
    histories = _histories(where)
    if not histories:
        raise InvalidInput(
            f"{where} has no history.",
            remedy="Give the evidence of a run of `agent-eval ci` on the base branch.",
            file=str(where),
        )
    if dataset_id is None and len(histories) == 1:
        return next(iter(histories.values()))
    if dataset_id is None or dataset_id not in histories:
        stated = "is of several datasets" if dataset_id is None else f"has no dataset {dataset_id[:200]!r}"
        raise UsageError(
            f"{where} {stated}.",
            remedy=f"Name one with --dataset-id: {', '.join(sorted(histories))[:500]}.",
            field="dataset-id",
        )
    return histories[dataset_id]


def _histories(where: Path) -> dict[str, list[RunRecord]]:
    if not where.exists():
        raise InvalidInput(f"{where} does not exist.", remedy="Correct the path.", file=str(where))
    if where.is_file():
        return _of_packs(list(open_bundle(where).values()))
    if is_pack(where):
        return _of_packs([open_pack(where)])
    folders = sorted(entry for entry in where.iterdir() if entry.is_dir())
    if packs := [open_pack(folder) for folder in folders if is_pack(folder)]:
        return _of_packs(packs)
    if any(is_record_name(entry.name) for entry in where.iterdir()):
        return _by_dataset(_records_in(where))
    return _by_dataset([record for folder in folders for record in _records_in(folder)])


def _of_packs(packs: list[Pack]) -> dict[str, list[RunRecord]]:
    read = {pack.manifest.dataset_id: read_history(pack) for pack in packs}
    return {dataset_id: records for dataset_id, records in read.items() if records}


def _records_in(folder: Path) -> list[RunRecord]:
    names = [entry.name for entry in folder.iterdir() if is_record_name(entry.name)]
    return [
        decode_file(name, read_bytes(folder / name, max_bytes=1 << 24), source=str(folder)) for name in names
    ]


def _by_dataset(records: list[RunRecord]) -> dict[str, list[RunRecord]]:
    histories: dict[str, list[RunRecord]] = {}
    for record in records:
        histories.setdefault(record.run.dataset_id, []).append(record)
    return {dataset_id: newest_first(each) for dataset_id, each in histories.items()}


def policy_at(path: Path | None) -> GatePolicy:
    """Read the policy that says which cases are in quarantine; none lists none.

    Raises:
        InvalidInput: The policy cannot be read.
    """
    if path is None:
        return GatePolicy()
    return parse_policy_file(read_bytes(path, max_bytes=_MAX_POLICY), str(path))


def unknown_cases(policy: GatePolicy, records: Sequence[RunRecord]) -> list[str]:
    """Warn of cases that a policy holds in quarantine and that no run of a history has, as sentences."""
    known = {case_id for record in records for case_id in record.cases}
    return unknown_case_warnings(policy, known, where="none of these runs has it")


def history_json(history: Board, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Describe a history as JSON: the runs, the oldest first, and the cases."""
    return {
        "runs": [
            {
                **run.run.to_json(),
                "pass_rate": run.pass_rate,
                "counted": history.counts(run),
            }
            for run in history.runs
        ],
        "cases": [_case_json(case) for case in history.cases],
        "warnings": list(warnings),
    }


def _case_json(case: CaseBoard) -> dict[str, Any]:
    since: HistoryRun | None = case.since
    return {
        "case_id": case.case_id,
        "kind": case.kind,
        "passed": case.passed,
        "scored": case.scored,
        "letters": case.letters,
        "missed": dict(case.missed),
        "lost": dict(case.lost),
        "since": since.to_json() if since is not None else None,
    }
