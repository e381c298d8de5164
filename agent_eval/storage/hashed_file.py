"""New files that are hashed while they are written, so that sealing reads nothing back.

They are for directories made by `atomic.new_directory`, which turns every OSError into a StorageError.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_BUFFER = 1 << 20


class HashedFile:
    """A new file, written piece by piece, synced when closed. Parent directories must exist.

    Use it as a context manager; `sha256` and `size` hold after it is closed.

    Raises:
        OSError: It exists already, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=_BUFFER)  # noqa: SIM115
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._digest.update(data)
        self.size += len(data)
        self._file.write(data)

    @property
    def sha256(self) -> str:
        """Lower-case hexadecimal digest of everything written so far."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Sync and close. Harmless when it is closed already."""
        if self._file.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self.discard()

    def discard(self) -> None:
        """Close a file that nobody will read, whatever becomes of its content."""
        with suppress(OSError):
            self._file.close()

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def write_unsynced(path: Path, data: bytes) -> None:
    """Write a small file that `sync_file_system` will make durable together with many others.

    Raises:
        OSError: It cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, data[written:])
    finally:
        os.close(descriptor)
