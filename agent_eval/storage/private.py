"""Files that only their owner may read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.storage.atomic import sync_directory, writing_failed


def write_private(path: Path, data: bytes) -> None:
    """Write a new file with mode 0600. An existing file is never replaced, nor is a link followed.

    Raises:
        UsageError: Something is at `path` already.
        StorageError: Disk full, no permission.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise writing_failed(path, error) from error
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(
            f"{path} exists and is not overwritten",
            remedy="Choose another name, or remove it if nothing needs it any more.",
            file=str(path),
        ) from None
    except OSError as error:
        raise writing_failed(path, error) from error
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise writing_failed(path, error) from error
