"""Logs with a format of their own, which several processes write in turn: `exclusive` and `append_at`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_eval.errors import StorageError
from agent_eval.storage.atomic import sync_directory, writing_failed

PATIENCE_SECONDS = 60.0
"""How long `exclusive` waits for another process."""


@contextmanager
def exclusive(path: Path, *, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Lock the file `path` while the block runs. The system releases the lock of a killed process.

    Raises:
        StorageError: Another process keeps the lock for too long, or the file cannot be created.
    """
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, timeout=patience_seconds)
        lock.acquire()
    except Timeout:
        raise StorageError(
            f"{path} is locked by another process for more than {patience_seconds:g} s",
            remedy="Wait for it to end, or end it; that releases the lock.",
            file=str(path),
        ) from None
    except OSError as error:
        raise writing_failed(path, error) from error
    try:
        yield
    finally:
        lock.release()


def append_at(path: Path, data: bytes, *, position: int) -> None:
    """Write `data` durably after the first `position` bytes of a file, replacing what follows them.

    Creates the file if it is missing. Overwriting removes an incomplete entry of a killed writer.

    Raises:
        StorageError: The file cannot be written, or is shorter than `position`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "r+b") as file:
            if file.seek(0, os.SEEK_END) < position:
                raise StorageError(
                    f"{path} is shorter than it was: {position} bytes were written to it",
                    remedy="Restore it from a backup or from version control.",
                    file=str(path),
                )
            file.truncate(position)
            file.seek(position)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_directory(path.parent)
    except OSError as error:
        raise writing_failed(path, error) from error
