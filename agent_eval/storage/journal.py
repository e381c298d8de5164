"""Append-only files that survive a killed writer: journals of finished work, and logs written in turn.

A journal has one record on each line: the CRC-32 of its JSON in eight hexadecimal digits, a space, the JSON.
The header is written twice at the start, so that no single damaged byte loses a run. A record is on disk when
`Journal.append` returns; with `append_lines` many records share one sync. A killed writer can leave
an incomplete record at the end, which `Journal.resume` cuts off. A broken record anywhere else was damaged by
something else: it is skipped and counted (`Journal.damaged`).

A log with a format of its own, which several processes write in turn, is locked by `exclusive` and written by
`append_at`.

The checksum stops accidents only. A writer can keep the `record_digest` of each line in memory and have
`read_records` check it, so that no other program rewrites what is finished.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from agent_eval.errors import InvalidInput, NotEvaluable, StorageError, UsageError
from agent_eval.storage.atomic import is_open_as, new_file, sync_directory, writing_failed
from agent_eval.storage.files import reading_failed
from agent_eval.storage.json import dumps

# The file's size is part of what fdatasync writes; only its times are not, and nothing reads those.
_sync = getattr(os, "fdatasync", os.fsync)


_PREFIX = 9
"""Bytes before the JSON: the checksum and a space."""

_HEADER = "header"
_EMPTY = b"\n"


def encode(record: Any) -> bytes:
    """Encode a record as a line of a journal."""
    data = dumps(record)
    return b"%08x %b\n" % (zlib.crc32(data), data)


def record_digest(line: bytes) -> bytes:
    """First 16 bytes of the SHA-256 of a record's line: no other line has them."""
    return hashlib.sha256(line).digest()[:16]


def decode(line: bytes) -> Any:
    """Decode a line of a journal.

    Raises:
        ValueError: The line is incomplete or damaged.
    """
    data = line[_PREFIX:-1]
    if line[-1:] != b"\n" or line[:_PREFIX] != b"%08x " % zlib.crc32(data):
        raise ValueError("broken record")
    return orjson.loads(data)


class RecordLine(NamedTuple):
    """A whole record's line."""

    offset: int
    data: bytes
    record: Any

    @property
    def digest(self) -> bytes:
        """The `record_digest` of the line."""
        return record_digest(self.data)

    @property
    def is_header(self) -> bool:
        """Whether the record is a copy of the header."""
        return self.offset == 0 or self.header is not self.record

    @property
    def header(self) -> Any:
        """The header that the record is a copy of. The first line of a journal of 0.1.0 is itself one."""
        is_copy = isinstance(self.record, dict) and self.record.keys() == {_HEADER}
        return self.record[_HEADER] if is_copy else self.record


def header_lines(header: Any) -> bytes:
    """Encode a header: two copies and an empty line between, so that no single damaged byte loses both."""
    line = encode({_HEADER: header})
    return line + _EMPTY + line


def _lines(path: Path) -> Iterator[RecordLine | None]:
    """Yield every line that is not empty; None for one that is not whole."""
    offset = 0
    with path.open("rb") as file:
        for data in file:
            if data != _EMPTY:
                try:
                    yield RecordLine(offset, data, decode(data))
                except ValueError:
                    yield None
            offset += len(data)


def whole_lines(path: Path) -> Iterator[RecordLine]:
    """Yield the whole records of a file, the header included."""
    return (line for line in _lines(path) if line is not None)


class JournalInUse(StorageError):
    """Another process has the journal open for writing."""


class JournalExists(UsageError):
    """Creating a journal would overwrite one that has records."""


class RecordsChanged(NotEvaluable):
    """Raised when another program, such as the agent under test, rewrote finished records of a journal."""

    code = "journal_changed"

    def __init__(self, path: Path, count: int) -> None:
        records = "a finished record was" if count == 1 else f"{count:,} finished records were"
        super().__init__(
            f"{path}: {records} changed by another program while the run was going on",
            remedy="Find out whether the agent did that, then run those trials again with --resume.",
            file=str(path),
            records=count,
        )


class Journal:
    """An open journal, locked by this process. Use `create` or `resume`; a context manager.

    `header` is what `create` was given. `damaged` counts the broken records that were skipped; an incomplete
    one at the end is none.
    """

    def __init__(self, path: Path, descriptor: int, header: Any, end: int, damaged: int = 0) -> None:
        self.path, self.header, self.damaged = path, header, damaged
        self._descriptor = descriptor
        self._end = end
        self._failed: OSError | None = None
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether the journal has no record but the header."""
        return self._end <= len(header_lines(self.header))

    @classmethod
    def create(cls, path: Path, header: Any) -> Journal:
        """Create a journal, replacing a file that has no record but a header.

        Raises:
            StorageError: The file cannot be written; `JournalInUse` if another process has locked it.
            JournalExists: The file is a journal with records.
        """
        lines = header_lines(header)
        with _opened(path, os.O_CREAT) as descriptor:
            if any(not line.is_header for line in whole_lines(path)):
                raise JournalExists(
                    f"{path} has the results of an unfinished run",
                    remedy="Continue that run with --resume, or start over with --fresh.",
                    file=str(path),
                )
            os.ftruncate(descriptor, 0)
            _write(descriptor, lines, 0)
            os.fsync(descriptor)
            # Without this a crash of the machine could lose the new file's name.
            sync_directory(path.parent)
        return cls(path, descriptor, header, len(lines))

    @classmethod
    def resume(cls, path: Path) -> Journal | None:
        """Open the journal of an earlier process and cut it after its last whole record; None without one.

        Raises:
            StorageError: The file cannot be read or written; `JournalInUse` if another process has locked it.
            InvalidInput: There are records, and both copies of the header are broken.
        """
        if not path.exists():
            return None
        with _opened(path, 0) as descriptor:
            header, end, damaged, broken = None, 0, 0, 0
            for line in _lines(path):
                if line is None:
                    broken += 1
                    continue
                damaged, broken = damaged + broken, 0
                end = line.offset + len(line.data)
                header = line.header if header is None and line.is_header else header
            if end and header is None:
                raise _broken(path, 0)
            if end:
                os.ftruncate(descriptor, end)
                os.fsync(descriptor)
        if not end:
            os.close(descriptor)
            return None
        return cls(path, descriptor, header, end, damaged)

    def entries(self) -> Iterator[RecordLine]:
        """Yield every whole record but the header, in the order of writing."""
        return (line for line in whole_lines(self.path) if not line.is_header)

    def restore(self, records: Sequence[tuple[int, bytes]]) -> int:
        """Write the file again where another program changed, replaced or deleted it.

        This process reads through the descriptor that it has kept open. Offsets stay as they are, unless
        records are lost. Not for a journal that is still being appended to.

        `records` are offset and `record_digest` of each record that it must have. Returns how many of them
        were changed; they are left out of the new file.

        Raises:
            StorageError: The file cannot be read or written.
        """
        with self._lock:
            try:
                with os.fdopen(os.dup(self._descriptor), "rb") as open_file:
                    intact = [
                        place for place in records if record_digest(_line_at(open_file, place[0])) == place[1]
                    ]
                    lost = len(records) - len(intact)
                    if lost:
                        with new_file(self.path) as file:
                            file.write(header_lines(self.header))
                            file.writelines(_line_at(open_file, at) for at, _ in intact)
                    elif not is_open_as(self.path, self._descriptor):
                        open_file.seek(0)
                        with new_file(self.path) as file:
                            file.writelines(open_file)
            except OSError as error:
                raise writing_failed(self.path, error) from error
        return lost

    def append(self, record: Any) -> int:
        """Append a record, which is on disk when this returns; return its offset. Any thread may call this.

        Raises:
            StorageError: Writing failed, now or earlier; after a failure nothing more is written.
        """
        return self.append_lines([encode(record)])

    def append_lines(self, lines: Sequence[bytes]) -> int:
        """Append records that `encode` has encoded, with one sync; return the offset of the first."""
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
        """Delete the journal, once its records are stored elsewhere, and close it."""
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


def read_records(path: Path, places: Iterable[tuple[int, bytes | None]]) -> Iterator[Any]:
    """Read the records at offsets from `Journal.append` or `Journal.entries`.

    With each offset goes the `record_digest`; None to check nothing but the checksum.

    Raises:
        StorageError: The file cannot be read.
        InvalidInput: A record is broken.
        RecordsChanged: One is not that with its digest.
    """
    try:
        with path.open("rb") as file:
            for offset, digest in places:
                line = _line_at(file, offset)
                try:
                    record = decode(line)
                except ValueError:
                    raise _broken(path, offset) from None
                if digest is not None and record_digest(line) != digest:
                    raise RecordsChanged(path, 1)
                yield record
    except OSError as error:
        raise reading_failed(path, error) from error


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Open and lock a file; yield its descriptor, which stays open unless the block raises."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o644)
    except OSError as error:
        raise writing_failed(path, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JournalInUse(
                f"{path} is in use by another process with the same run",
                remedy="Wait for it to end, or end it; then resume.",
                file=str(path),
            ) from None
        yield descriptor
    except OSError as error:
        os.close(descriptor)
        raise writing_failed(path, error) from error
    except BaseException:
        os.close(descriptor)
        raise


def _write(descriptor: int, data: bytes, position: int) -> None:
    remaining = memoryview(data)
    while remaining:
        written = os.pwrite(descriptor, remaining, position)
        remaining, position = remaining[written:], position + written


def _line_at(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    return file.readline()


def _broken(path: Path, offset: int) -> InvalidInput:
    return InvalidInput(
        f"{path}: the record at byte {offset} is not as it was written",
        remedy="The disk or another program changed the file: delete it and run again from the start.",
        file=str(path),
        offset=offset,
    )


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
