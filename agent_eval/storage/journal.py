"""Append-only files that survive a killed writer: journals of finished work, and logs under a lock.

A journal has one record on each line: the CRC-32 of the JSON in eight hexadecimal digits, a space, the JSON,
a line feed. The first record is the header. A record is on disk when `Journal.append` returns;
`BackgroundWriter` lets many records share one sync. A writer that is killed can leave an incomplete record
at the end, which `Journal.resume` cuts off; a broken record anywhere else is an error and is never skipped.

`exclusive` and `append_at` serve logs with a format of their own, which several processes write in turn.
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

# The file's size is part of what fdatasync writes; only its times are not, and nothing reads those.
_sync = getattr(os, "fdatasync", os.fsync)


class JournalInUse(StorageError):
    """Another process has the journal open for writing."""


class JournalExists(UsageError):
    """Creating a journal would overwrite one that has records."""


class Journal:
    """An open journal, locked by this process. Use `create` or `resume`; a context manager.

    Attributes:
        path: The journal's file.
        header: The journal's first record.

    Example:
        >>> with Journal.create(Path("run.journal"), {"run_id": "1"}) as journal:
        ...     offset = journal.append({"case_id": "refund"})
        >>> with Journal.resume(Path("run.journal")) as journal:
        ...     journal.header, list(journal.entries()) == [(offset, {"case_id": "refund"})]
        ({'run_id': '1'}, True)
    """

    def __init__(self, path: Path, descriptor: int, header: Any, end: int) -> None:
        self.path, self.header = path, header
        self._descriptor = descriptor
        self._end = end
        self._failed: OSError | None = None
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether the journal has no record but the header."""
        return self._end <= len(encode(self.header))

    @classmethod
    def create(cls, path: Path, header: Any) -> Journal:
        """Create a journal, replacing a file that has no record but a header.

        Raises:
            StorageError: The file cannot be written; `JournalInUse` if another process has locked it.
            JournalExists: The file is a journal with records.
        """
        descriptor = _open_locked(path, os.O_CREAT)
        line = encode(header)
        try:
            if sum(1 for _ in islice(_scan(path), 2)) > 1:
                raise JournalExists(
                    f"{path} has the results of an unfinished run",
                    remedy="Continue that run with --resume, or delete the file to start again.",
                    file=str(path),
                )
            os.ftruncate(descriptor, 0)
            _write(descriptor, line, 0)
            os.fsync(descriptor)
            # Without this a crash of the machine could lose the new file's name.
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
        """Open the journal of an earlier process and cut it after its last whole record.

        Returns:
            None if there is no file, or no whole record in it.

        Raises:
            StorageError: The file cannot be read or written; `JournalInUse` if another process has locked it.
            InvalidInput: A record other than the last one is broken.
        """
        if not path.exists():
            return None
        descriptor = _open_locked(path, 0)
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
        """Yield offset and content of every record but the header, in the order of writing."""
        for offset, _, record in _scan(self.path):
            if offset:
                yield offset, record

    def append(self, record: Any) -> int:
        """Append a record, which is on disk when this returns. Any thread may call this.

        Returns:
            The record's offset, for `JournalReader.read`.

        Raises:
            StorageError: Writing failed, now or earlier; after a failure nothing more is written.
        """
        return self.append_lines([encode(record)])

    def append_lines(self, lines: Sequence[bytes]) -> int:
        """Append records that `encode` has encoded, with one sync; return the offset of the first.

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
                # A full disk then leaves whole records only; `resume` would cut off the rest as well.
                with suppress(OSError):
                    os.ftruncate(self._descriptor, start)
                raise writing_failed(self.path, error) from error
            self._end = start + len(data)
        return start

    def close(self) -> None:
        """Close the file, which releases its lock; closing it again has no effect."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def remove(self) -> None:
        """Delete the journal, once its records are stored elsewhere, and close it.

        Raises:
            StorageError: The file cannot be deleted.
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


class JournalReader:
    """Reads a journal's records by their offset. It can be pickled, and is a context manager.

    Args:
        path: The journal's file.

    Example:
        >>> with Journal.create(Path("run.journal"), {}) as journal:
        ...     offset = journal.append({"case_id": "refund"})
        >>> with JournalReader(Path("run.journal")) as reader:
        ...     reader.read(offset)
        {'case_id': 'refund'}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_file": None}

    def read(self, offset: int) -> Any:
        """Read the record at an offset from `Journal.append` or `Journal.entries`.

        Raises:
            StorageError: The file cannot be read.
            InvalidInput: The record is broken.
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
        """Close the file; `read` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encode(record: Any) -> bytes:
    """Encode a record as a line of a journal."""
    data = dumps(record)
    return b"%08x %b\n" % (zlib.crc32(data), data)


def decode(line: bytes) -> Any:
    """Decode a line of a journal.

    Raises:
        ValueError: The line is incomplete or damaged.
    """
    data = line[_PREFIX:-1]
    if line[-1:] != b"\n" or line[:_PREFIX] != b"%08x " % zlib.crc32(data):
        raise ValueError("broken record")
    return orjson.loads(data)


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


def _open_locked(path: Path, flags: int) -> int:
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
            f"{path} is in use by another process with the same run",
            remedy="Wait for it to end, or end it; then resume.",
            file=str(path),
        ) from None
    return descriptor


def _write(descriptor: int, data: bytes, position: int) -> None:
    remaining = memoryview(data)
    while remaining:
        written = os.pwrite(descriptor, remaining, position)
        remaining, position = remaining[written:], position + written


def _scan(path: Path) -> Iterator[tuple[int, int, Any]]:
    """Yield offset, length and content of every record before the first broken one.

    Lines after a broken one may be broken too, if the writer was killed while writing several records.

    Raises:
        InvalidInput: A whole record follows a broken one, so it was not left by a killed writer.
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
