"""A history in a directory: DIRECTORY/DATASET/TIME-RUN-DIGEST.jsonl, one file a run, never changed."""

from __future__ import annotations

from pathlib import Path

from agent_eval.contracts.history import RunRecord
from agent_eval.errors import InvalidInput
from agent_eval.history.files import (
    MAX_RECORD_BYTES,
    MAX_RUNS,
    decode_file,
    encode,
    file_name,
    is_record_name,
    newest_first,
)
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes, safe_name


class HistoryDirectory:
    """The records of runs as files. Several jobs may write at once: each writes a file of its own.

    Args:
        root: The directory; created when the first record is written.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, dataset_id: str) -> list[RunRecord]:
        """Read the newest records of a dataset, the newest first.

        Raises:
            InvalidInput: A record is not what was written, or is of another dataset.
        """
        place = self._place(dataset_id)
        if not place.is_dir():
            return []
        names = sorted((entry.name for entry in place.iterdir() if is_record_name(entry.name)), reverse=True)
        records = [
            decode_file(name, read_bytes(place / name, max_bytes=MAX_RECORD_BYTES), source=str(place))
            for name in names[:MAX_RUNS]
        ]
        return newest_first(of_dataset(records, dataset_id, source=str(place)))

    def write(self, record: RunRecord) -> Path:
        """Write the record of a run; one that is there already is not changed.

        Raises:
            StorageError: It cannot be written.
        """
        path = self._place(record.run.dataset_id) / file_name(record)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, encode(record))
        return path

    def _place(self, dataset_id: str) -> Path:
        return self._root / safe_name(dataset_id)


def of_dataset(records: list[RunRecord], dataset_id: str, *, source: str) -> list[RunRecord]:
    """Return the records, which must all be of one dataset.

    Raises:
        InvalidInput: One is of another.
    """
    for record in records:
        if record.run.dataset_id != dataset_id:
            raise InvalidInput(
                f"{source}: the record of run {record.run.run_id[:200]!r} is of dataset "
                f"{record.run.dataset_id[:200]!r}, not of {dataset_id[:200]!r}.",
                remedy="Keep the records of each dataset in the directory that was made for it.",
                file=source,
            )
    return records
