"""A log of finished work that survives whatever ends its writer.

One record a line: the CRC-32 of the JSON in eight hexadecimal digits, a space, the JSON, a line feed. The
first record is the header. What `Journal.append` took is on disk when it returns; `BackgroundWriter` has many
records share one sync. What a killed writer left half-written at the end is cut off by the next one; a
broken record anywhere else is told, never skipped.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from agent_eval.errors import InvalidInput, StorageError, UsageError
from agent_eval.storage.atomic import sync_directory, writing_failed
from agent_eval.storage.files import reading_failed
from agent_eval.storage.json import dumps

_PREFIX = 9
"""Bytes before the JSON: the checksum and a space."""

_sync = getattr(os, "fdatasync", os.fsync)


class JournalInUse(StorageError):
    """Another process writes to the journal."""


class JournalExists(UsageError):
    """A journal with records would be overwritten."""


def encode(record: Any) -> bytes:
    """The line of a record."""
    data = dumps(record)
    return b"%08x %b\n" % (zlib.crc32(data), data)


def decode(line: bytes) -> Any:
    """The record of a line.

    Raises:
        ValueError: The line is not whole, or not as it was written.
    """
    data = line[_PREFIX:-1]
    if line[-1:] != b"\n" or line[:_PREFIX] != b"%08x " % zlib.crc32(data):
        raise ValueError("broken record")
    return orjson.loads(data)


class JournalReader:
    """Reads records by their offset. Can be sent to other processes. A context manager.

    Args:
        path: The journal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_file": None}

    def read(self, offset: int) -> Any:
        """The record at an offset that `Journal.append` or `Journal.entries` gave.

        Raises:
            StorageError: It cannot be read.
            InvalidInput: It is not as it was written.
        """
        try:
            if self._file is None:
                self._file = self.path.open("rb")
            self._file.seek(offset)
            line = self._file.readline()
        except OSError as error:
            raise reading_failed(self.path, error) from error
        try:
            return decode(line)
        except ValueError:
            raise _broken(self.path, offset) from None

    def close(self) -> None:
        """Close the file; reading opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Journal:
    """An open journal, held by this process alone. Made by `create` or `resume`; a context manager.

    Attributes:
        path: The file.
        header: Its first record.
    """

    def __init__(self, path: Path, descriptor: int, header: Any, end: int) -> None:
        self.path, self.header = path, header
        self._descriptor = descriptor
        self._end = end
        self._failed: OSError | None = None
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether it has no record but the header."""
        return self._end <= len(encode(self.header))

    @classmethod
    def create(cls, path: Path, header: Any) -> Journal:
        """A new journal. A file in its place that holds no record but a header is replaced.

        Raises:
            StorageError: It cannot be written; `JournalInUse` when another process holds it.
            JournalExists: There is a journal with records.
        """
        descriptor = _open(path, os.O_CREAT)
        line = encode(header)
        try:
            if sum(1 for _ in islice(_scan(path), 2)) > 1:
                raise JournalExists(
                    f"{path} has what an unfinished run did",
                    remedy="Give --resume to go on with it, or delete it to begin anew.",
                    file=str(path),
                )
            os.ftruncate(descriptor, 0)
            _write(descriptor, line, 0)
            os.fsync(descriptor)
            sync_directory(path.parent)
        except OSError as error:
            os.close(descriptor)
            raise writing_failed(path, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, header, len(line))

    @classmethod
    def resume(cls, path: Path) -> Journal | None:
        """The journal that another process began, cut after its last whole record; None without one.

        Raises:
            StorageError: It cannot be read or written; `JournalInUse` when another process holds it.
            InvalidInput: A record that is not the last one is broken.
        """
        if not path.exists():
            return None
        descriptor = _open(path, 0)
        try:
            header, end = None, 0
            for offset, length, record in _scan(path):
                header = record if offset == 0 else header
                end = offset + length
            if not end:
                os.close(descriptor)
                return None
            os.ftruncate(descriptor, end)
            os.fsync(descriptor)
        except OSError as error:
            os.close(descriptor)
            raise writing_failed(path, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, header, end)

    def entries(self) -> Iterator[tuple[int, Any]]:
        """Offset and content of every record but the header, in the order they were written."""
        for offset, _, record in _scan(self.path):
            if offset:
                yield offset, record

    def append(self, record: Any) -> int:
        """Add a record; it is on disk when this returns. Any thread may call it.

        Returns:
            Its offset, for `JournalReader.read`.

        Raises:
            StorageError: Disk full or the like; nothing more can be written then.
        """
        return self.append_lines([encode(record)])

    def append_lines(self, lines: Sequence[bytes]) -> int:
        """Add records that `encode` has encoded, with one sync. Returns the first one's offset.

        Raises:
            StorageError: As `append`.
        """
        data = b"".join(lines)
        with self._lock:
            start = self._end
            if self._descriptor < 0:
                self._failed = self._failed or OSError(errno.EBADF, "the journal is closed")
            if self._failed is not None:
                raise writing_failed(self.path, self._failed) from self._failed
            try:
                _write(self._descriptor, data, start)
                _sync(self._descriptor)
            except OSError as error:
                self._failed = error
                # So that a full disk leaves whole records only; resuming would cut the rest as well.
                with suppress(OSError):
                    os.ftruncate(self._descriptor, start)
                raise writing_failed(self.path, error) from error
            self._end = start + len(data)
        return start

    def close(self) -> None:
        """Let go of the file. Harmless when done twice."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def remove(self) -> None:
        """Close and delete it: its records are kept elsewhere now.

        Raises:
            StorageError: It cannot be deleted.
        """
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise writing_failed(self.path, error) from error
        finally:
            self.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(path: Path, flags: int) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o644)
    except OSError as error:
        raise writing_failed(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise JournalInUse(
            f"{path} is in use: another process runs the same thing",
            remedy="Wait for it to end, or end it; then resume.",
            file=str(path),
        ) from None
    return descriptor


def _write(descriptor: int, data: bytes, position: int) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(descriptor, left, position)
        left, position = left[written:], position + written


def _scan(path: Path) -> Iterator[tuple[int, int, Any]]:
    """Offset, length and content of every record up to a broken one, which must be the last line.

    Raises:
        InvalidInput: Something whole follows a broken record.
    """
    offset = 0
    with path.open("rb") as file:
        while line := file.readline():
            try:
                record = decode(line)
            except ValueError:
                if any(_is_whole(later) for later in file):
                    raise _broken(path, offset) from None
                return
            yield offset, len(line), record
            offset += len(line)


def _is_whole(line: bytes) -> bool:
    try:
        decode(line)
    except ValueError:
        return False
    return True


def _broken(path: Path, offset: int) -> InvalidInput:
    return InvalidInput(
        f"{path}: the record at byte {offset} is not as it was written",
        remedy="The disk or another program changed the file: delete it and run again from the start.",
        file=str(path),
        offset=offset,
    )


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
