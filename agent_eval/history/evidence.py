"""A history in evidence: the records of a run of the base branch and of the runs before it, in its pack."""

from __future__ import annotations

from pathlib import Path

from agent_eval.contracts.history import RunRecord
from agent_eval.errors import InvalidInput
from agent_eval.evidence import layout
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import Pack
from agent_eval.history.directory import of_dataset
from agent_eval.history.files import MAX_RUNS, decode, encode_all, newest_first

HISTORY = f"{layout.HISTORY}/runs.jsonl"
"""The file in a pack; `derived.json` lists it with its digest."""


def read_history(pack: Pack) -> list[RunRecord]:
    """Read the history that a verified pack carries, the newest first; empty where it carries none.

    Raises:
        InvalidInput: It cannot be read, is of another dataset, or its newest run is not that of the pack: a
            history is never moved from one pack to another.
    """
    if pack.derived is None or all(entry.path != HISTORY for entry in pack.derived.files):
        return []
    source = f"{pack.name}/{HISTORY}"
    records = of_dataset(decode(pack.read(HISTORY), source=source), pack.manifest.dataset_id, source=source)
    if not records or records[0].run.manifest_sha256 != pack.manifest_sha256:
        raise InvalidInput(
            f"{source}: its first record is not that of the run in this pack.",
            remedy="The file was put there from elsewhere: make a new run on the base branch.",
            file=source,
        )
    return newest_first(records)


def write_history(pack: Path, own: RunRecord, earlier: list[RunRecord]) -> None:
    """Write a run's record and those of the runs before it into its pack.

    Raises:
        StorageError: Disk full, no permission.
    """
    before = [record for record in earlier if record.run.run_id != own.run.run_id]
    write_output(pack / HISTORY, encode_all([own, *newest_first(before, most=MAX_RUNS - 1)]))
