"""Read the history that evidence or an archive has, for a person who wants to look at it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_eval.contracts.history import HistoryRun, RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.derived import is_pack
from agent_eval.evidence.reader import open_pack
from agent_eval.gate.policy_file import unknown_case_warnings
from agent_eval.history.board import Board, CaseBoard
from agent_eval.history.records import read_history
from agent_eval.operations.gate import parse_policy_file
from agent_eval.operations.packs import packs_below
from agent_eval.storage.files import read_bytes

_MAX_POLICY = 1 << 20


def read_history_at(where: Path, dataset_id: str | None) -> list[RunRecord]:
    """Read the records of one dataset, the newest first.

    Args:
        where: A pack, an archive of packs, or a directory of packs.
        dataset_id: Which dataset, where there are several.

    Raises:
        InvalidInput: There is no history, or it is not what was written.
        InvalidPack: A pack does not verify.
        UsageError: There are several datasets and none is named, or another one is.
    """
    if not where.exists():
        raise InvalidInput(f"{where} does not exist.", remedy="Correct the path.", file=str(where))
    if where.is_file():
        packs = list(open_bundle(where).values())
    else:
        packs = [open_pack(pack) for pack in packs_below(where) if is_pack(pack)]
    read = {pack.manifest.dataset_id: read_history(pack) for pack in packs}
    histories = {dataset_id: records for dataset_id, records in read.items() if records}
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
