"""Adding to a file that another program owns, such as the runner's output and summary files."""

from __future__ import annotations

from pathlib import Path

from agent_eval.storage.atomic import writing_failed


def append_file(path: Path, data: bytes) -> None:
    """Add `data` to the end of `path`, which is created when missing.

    Not atomic: the file is a log that others write to as well.

    Raises:
        StorageError: It cannot be written; names path and remedy.
    """
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise writing_failed(path, error) from error
