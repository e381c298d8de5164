"""Open what exports come in: files, gzip, zip archives, directories of these, standard input."""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from typing_extensions import override

from agent_eval.errors import InvalidInput
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.storage.files import check_member_name, open_regular, reading_failed

STDIN = "-"

SUFFIXES = (".json", ".jsonl", ".ndjson", ".sse", ".txt", ".gz", ".zip", ".eval", ".traj", ".log")
"""Endings of the files that are read from directories and archives; others become a diagnostic."""

UNPACKED_BYTES = 64 << 30
"""Size up to which an input is read, after unpacking."""

_TIMES_PACKED = 200
"""How many times its packed size a file may unpack to, beyond the first 64 MiB: logs reach about 40 times."""
_ALWAYS_UNPACKED = 64 << 20

_MOST_FILES = 1_000_000
_DEEPEST = 4
"""Archives within archives that are unpacked: some contain themselves."""
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_BUFFER = 1 << 16


class DamagedFile(InvalidInput):
    """A file ends early, or its compression is broken; what came before was read."""


@dataclass
class Stream:
    """One open file, or one member of an archive, with its name within the input."""

    name: str
    file: IO[bytes]
    packed: _Packed | None = None


@dataclass
class _Packed:
    """What a file was packed in: its bytes so far, and how many came out of it."""

    size: Callable[[], int]
    unpacked: int = 0


def streams_of(inputs: Sequence[Path], diagnostics: Diagnostics) -> Iterator[Stream]:
    """Yield the files of the inputs in order, those of a directory or an archive sorted by name.

    The input `-` is standard input. Files that are left out become diagnostics.

    Raises:
        InvalidInput: An input is missing, or is no file and no directory.
        StorageError: The disk failed.
    """
    for path in inputs:
        if str(path) == STDIN:
            yield from _unpacked(Stream("stdin", sys.stdin.buffer), diagnostics)
        elif path.is_dir():
            yield from _directory(path, diagnostics)
        else:
            with open_regular(path, pipes=True) as file:
                yield from _unpacked(Stream(path.name, file), diagnostics)


def _directory(root: Path, diagnostics: Diagnostics) -> Iterator[Stream]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for path in files:
        name = path.relative_to(root).as_posix()
        if not name.lower().endswith(SUFFIXES):
            diagnostics.note(name, "", f"is left out: its name ends in none of {' '.join(SUFFIXES)}")
            continue
        with open_regular(path) as file:
            yield from _unpacked(Stream(name, file), diagnostics)


def _unpacked(stream: Stream, diagnostics: Diagnostics, depth: int = 0) -> Iterator[Stream]:
    """Unpack what the first bytes say is compressed, whatever its name."""
    bounded = _Bounded(stream)
    file = io.BufferedReader(bounded, _BUFFER)
    try:
        start = file.peek(4)[:4]
        if not start.startswith(_GZIP) and start != _ZIP:
            yield Stream(stream.name, file)
        elif depth == _DEEPEST:
            diagnostics.lost(stream.name, "", f"is packed more than {_DEEPEST} times over")
        elif start == _ZIP:
            yield from _members(stream.name, file, diagnostics, depth + 1)
        else:
            unzipped = cast(IO[bytes], gzip.GzipFile(fileobj=file))
            inner = Stream(stream.name.removesuffix(".gz"), unzipped, _Packed(lambda: bounded.bytes))
            yield from _unpacked(inner, diagnostics, depth + 1)
    except DamagedFile as error:
        diagnostics.lost(stream.name, "", error.message.removeprefix(f"{stream.name}: "))


def _members(
    name: str, file: io.BufferedReader[_Bounded], diagnostics: Diagnostics, depth: int
) -> Iterator[Stream]:
    packed = _seekable(file)
    try:
        archive = zipfile.ZipFile(packed)
    except zipfile.BadZipFile as error:
        raise _damaged(name, error) from error
    size = packed.seek(0, io.SEEK_END)
    source = _Packed(lambda: size)
    with archive:
        if len(archive.infolist()) > _MOST_FILES:
            raise InvalidInput(f"{name}: more than {_MOST_FILES:,} files", remedy="Split it.", file=name)
        for member in sorted(archive.infolist(), key=lambda info: info.filename):
            place = f"{name}!{member.filename}"
            if member.is_dir():
                continue
            problem = check_member_name(member.filename)
            if problem is not None or not member.filename.lower().endswith(SUFFIXES):
                reason = problem or f"ends in none of {' '.join(SUFFIXES)}"
                diagnostics.note(place, "", f"is left out: its name {reason}")
                continue
            try:
                opened = archive.open(member)
            except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
                diagnostics.lost(place, "", f"cannot be unpacked: {error}")
                continue
            with opened:
                yield from _unpacked(Stream(place, opened, source), diagnostics, depth)


def _seekable(file: io.BufferedReader[_Bounded]) -> IO[bytes]:
    """Return the file, or what it holds: a zip archive is read from its end."""
    original = file.raw.original
    if original.seekable() and not isinstance(original, zipfile.ZipExtFile):
        original.seek(0)
        return original
    return io.BytesIO(file.read())


class _Bounded(io.RawIOBase):
    """Reads from another file, up to a limit, and reports its damage as an error of this program."""

    def __init__(self, stream: Stream) -> None:
        self.original, self._name, self._packed = stream.file, stream.name, stream.packed
        self.bytes = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        try:
            data = self.original.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
            raise _damaged(self._name, error) from error
        except OSError as error:
            raise reading_failed(Path(self._name), error) from error
        self.bytes += len(data)
        if self.bytes > UNPACKED_BYTES:
            message = f"{self._name}: more than {UNPACKED_BYTES:,} bytes"
            raise InvalidInput(message, remedy="Split it.", file=self._name)
        if (packed := self._packed) is not None:
            packed.unpacked += len(data)
            if packed.unpacked > max(_ALWAYS_UNPACKED, _TIMES_PACKED * packed.size()):
                message = f"{self._name}: unpacks to more than {_TIMES_PACKED} times its packed size"
                remedy = "Import the unpacked file, if you trust who made it."
                raise InvalidInput(message, remedy=remedy, file=self._name)
        buffer[: len(data)] = data
        return len(data)


def _damaged(name: str, error: Exception) -> DamagedFile:
    return DamagedFile(
        f"{name}: cannot be unpacked: {error}", remedy="Write or download the file again.", file=name
    )
