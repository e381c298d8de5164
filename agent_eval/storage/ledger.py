"""An append-only file with one writer at a time: what a lock and a known length make safe.

The owner of the file knows how many of its bytes count. Anything beyond them was written by somebody who
was killed before saying so, and is cut off by the next writer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_eval.errors import StorageError
from agent_eval.storage.atomic import sync_directory, writing_failed

PATIENCE_SECONDS = 60.0


@contextmanager
def exclusive(path: Path, *, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Hold the lock `path` while the block runs. A killed holder's lock is free.

    Raises:
        StorageError: Somebody else held it for too long, or it cannot be created.
    """
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, timeout=patience_seconds)
        lock.acquire()
    except Timeout:
        raise StorageError(
            f"{path} is held by another process for more than {patience_seconds:g} s",
            remedy="Wait for it to end, or end it; the lock frees itself then.",
            file=str(path),
        ) from None
    except OSError as error:
        raise writing_failed(path, error) from error
    try:
        yield
    finally:
        lock.release()


def append_at(path: Path, data: bytes, *, position: int) -> None:
    """Make `data` follow the first `position` bytes of a file, durably; creates the file.

    Raises:
        StorageError: It cannot be written, or it is shorter than `position`.
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
