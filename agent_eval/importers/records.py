"""Read the records of exports: JSON, JSON Lines, event streams; plain, gzip, zip, directories, stdin.

A record is what an export has many of: a line of JSON Lines, an item of a JSON array, a whole JSON document,
the text of a server-sent event stream. JSON Lines are read one by one, so such a file may be of any size.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from typing_extensions import override

from agent_eval.errors import InvalidInput, StorageError
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import items, mapping
from agent_eval.storage.files import check_member_name, open_regular, reading_failed
from agent_eval.storage.json import Limits, parse_and_encode, within_64_bits
from agent_eval.storage.json import dumps as encode

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
            for inner in sorted(inner for inner in path.rglob("*") if inner.is_file()):
                name = inner.relative_to(path).as_posix()
                if name.lower().endswith(SUFFIXES):
                    with open_regular(inner) as file:
                        yield from _unpacked(Stream(name, file), diagnostics)
                else:
                    reason = f"is left out: its name ends in none of {' '.join(SUFFIXES)}"
                    diagnostics.note(name, "", reason)
        else:
            with open_regular(path, pipes=True) as file:
                yield from _unpacked(Stream(path.name, file), diagnostics)


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


_UNREADABLE = (zipfile.BadZipFile, RuntimeError, NotImplementedError, UnicodeDecodeError)
"""What `zipfile` raises of an archive: it is damaged, locked, of a later version, or a name is no UTF-8."""


def _members(
    name: str, file: io.BufferedReader[_Bounded], diagnostics: Diagnostics, depth: int
) -> Iterator[Stream]:
    # A zip archive is read from its end: in another one, it is read whole before.
    original = file.raw.original
    is_seekable = original.seekable() and not isinstance(original, zipfile.ZipExtFile)
    packed = original if is_seekable else cast(IO[bytes], io.BytesIO(file.read()))
    packed.seek(0)
    try:
        archive = zipfile.ZipFile(packed)
    except _UNREADABLE as error:
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
                if member.header_offset < 0:
                    raise zipfile.BadZipFile("bytes before it are missing")
                opened = archive.open(member)
            except _UNREADABLE as error:
                diagnostics.lost(place, "", f"cannot be unpacked: {error}")
                continue
            with opened:
                yield from _unpacked(Stream(place, opened, source), diagnostics, depth)


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


RECORD_BYTES = 1 << 30
"""Size up to which one record, or one JSON document, is read."""

# A suite is read up to 64 levels, and a case holds the content of a record some levels down.
LIMITS = Limits(max_bytes=RECORD_BYTES, max_depth=56)
_WIDE = Limits(max_bytes=RECORD_BYTES, max_depth=56, wide_integers=True)

_BOM = b"\xef\xbb\xbf"
_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b": ")
_DATA_STREAM = re.compile(rb"[0-9a-k]:[\"{\[]")
"""A line of a stream to the AI SDK's user interface, version 4."""
_JSON_LINES = (".jsonl", ".ndjson")
_LIST_KEYS = {"object", "data", "has_more", "first_id", "last_id", "next_cursor", "meta"}


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an export, with its place for diagnostics.

    Attributes:
        value: Plain JSON; a text for a server-sent event stream.
        source: The file, by its name within the input: `dump.json`, `logs.zip!day-1.jsonl`.
        position: Number of the line from 1, or of the item in the document's array from 0; None if the
            record is the whole document.

    Example:
        >>> Record({}, "dump.jsonl", 3, is_line=True).place, Record({}, "dump.json", 0).place
        ('dump.jsonl:3', 'dump.json[0]')
    """

    value: Any
    source: str
    position: int | None = None
    is_line: bool = False

    @property
    def place(self) -> str:
        """File and position in one word."""
        if self.position is None:
            return self.source
        return f"{self.source}:{self.position}" if self.is_line else f"{self.source}[{self.position}]"


IsOneRecord = Callable[[list[Any]], bool]
"""Tells whether an array is one record, such as the messages of a conversation, and not several."""


def read_records(
    inputs: Sequence[Path], diagnostics: Diagnostics, is_one_record: IsOneRecord
) -> Iterator[tuple[Record, bytes]]:
    """Yield every record of the inputs with its canonical JSON; what cannot be read becomes a diagnostic.

    The input `-` is standard input. `is_one_record` tells whether an array, which is a whole document, is one
    record.

    Raises:
        InvalidInput: An input is missing, or what cannot be read is met in a strict import.
        StorageError: The disk failed.
    """
    for stream in streams_of(inputs, diagnostics):
        yield from _records_of(stream, diagnostics, is_one_record)


def _records_of(
    stream: Stream, diagnostics: Diagnostics, is_one_record: IsOneRecord
) -> Iterator[tuple[Record, bytes]]:
    try:
        first = stream.file.peek(2)[:2] if isinstance(stream.file, io.BufferedReader) else b""
        if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):  # as PowerShell writes texts
            text = stream.file.read(RECORD_BYTES + 1).decode("utf-16", "replace")
            stream.file = io.BufferedReader(io.BytesIO(text.encode("utf-8")))
        blank, start = 0, stream.file.readline(RECORD_BYTES + 1).removeprefix(_BOM)
        while start and not start.strip():
            blank, start = blank + 1, stream.file.readline(RECORD_BYTES + 1)
        if not start:
            diagnostics.lost(stream.name, "", "is empty")
        elif start.startswith(_STREAM_STARTS) or _DATA_STREAM.match(start):
            data = start + stream.file.read(RECORD_BYTES + 1)
            if len(data) > RECORD_BYTES:
                reason = f"is longer than the {RECORD_BYTES:,} bytes that are read"
                diagnostics.lost(stream.name, "", reason)
                return
            text = data.decode("utf-8")
            yield Record(text, stream.name), encode(text)
        elif stream.name.lower().endswith(_JSON_LINES) or _is_whole(start, stream.name):
            yield from _lines(stream, start, blank + 1, diagnostics, is_one_record)
        else:
            yield from _document(stream, start, diagnostics, is_one_record)
    except DamagedFile as error:
        diagnostics.lost(stream.name, "", _reason(error, stream.name))
    except UnicodeDecodeError as error:
        diagnostics.lost(stream.name, "", f"is not UTF-8 at byte {error.start}")


def _is_whole(line: bytes, name: str) -> bool:
    """Whether a line ends, as far as can be seen, where its JSON value does: then the file may have more."""
    if not line.endswith(b"\n") or line.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        _parse(line, name, 1)
    except InvalidInput:
        return False
    return True


def _lines(
    stream: Stream, first: bytes, number: int, diagnostics: Diagnostics, is_one_record: IsOneRecord
) -> Iterator[tuple[Record, bytes]]:
    try:
        following = stream.file.readline(RECORD_BYTES + 1)
    except (InvalidInput, StorageError):
        yield from _line(stream.name, first, number, diagnostics)
        raise
    if not following.strip() and not stream.name.lower().endswith(_JSON_LINES):
        # One line that is a whole document: a minified file that ends with a line feed.
        rest = stream.file.read(RECORD_BYTES + 1) if following else b""
        if not rest.strip():
            yield from _document(stream, first, diagnostics, is_one_record)
            return
        stream.file, following = io.BufferedReader(io.BytesIO(rest)), b"\n"
    yield from _line(stream.name, first, number, diagnostics)
    while following:
        number += 1
        yield from _line(stream.name, following, number, diagnostics)
        following = stream.file.readline(RECORD_BYTES + 1)


def _line(name: str, line: bytes, number: int, diagnostics: Diagnostics) -> Iterator[tuple[Record, bytes]]:
    line = line.strip()
    if not line:
        return
    try:
        value, encoded = _parse(line, name, number)
    except InvalidInput as error:
        diagnostics.lost(f"{name}:{number}", "", _reason(error, name))
    else:
        yield Record(value, name, number, is_line=True), encoded


def _document(
    stream: Stream, start: bytes, diagnostics: Diagnostics, is_one_record: IsOneRecord
) -> Iterator[tuple[Record, bytes]]:
    """Read the rest of a document, and yield its records.

    These are the items of an array, or of a page of an API's list; anything else is one record.
    """
    data = start + stream.file.read(RECORD_BYTES + 1)
    try:
        value, encoded = _parse(data, stream.name, 1)
    except InvalidInput as error:
        documents = _one_after_the_other(data)
        if len(documents) < 2:
            diagnostics.lost(stream.name, "", _reason(error, stream.name))
        for position, document in enumerate(documents if len(documents) > 1 else ()):
            yield Record(document, stream.name, position), encode(document)
        return
    del data
    if (listed := _listed(value)) is not None:
        value, encoded = listed, b""
    if not isinstance(value, list) or is_one_record(value):
        yield Record(value, stream.name), encoded or encode(value)
        return
    for position, item in enumerate(value):
        yield Record(item, stream.name, position), encode(item)


_BLANK = re.compile(r"\s*")


def _one_after_the_other(data: bytes) -> list[Any]:
    """Return the documents of a file that has one after the other, as exporters to a console write them."""
    decoder, documents, position = json.JSONDecoder(), [], 0
    try:
        text = data.decode("utf-8")
        while (position := _BLANK.match(text, position).end()) < len(text):  # type: ignore[union-attr]
            _, end = decoder.raw_decode(text, position)
            documents.append(_parse(text[position:end].encode("utf-8"), "document", 1)[0])
            position = end
    except (ValueError, RecursionError, InvalidInput):
        return []
    return documents


def _listed(value: Any) -> list[Any] | None:
    """Return the records of a page of the lists that APIs return, or of columns; None for anything else."""
    if not isinstance(value, dict):
        return None
    data, columns = value.get("data"), value.get("columns")
    if isinstance(data, list) and set(value) <= _LIST_KEYS:
        is_page = value.get("object") == "list" or "next_cursor" in value or "meta" in value
        return data if is_page else None
    stated = [(mapping(column).get("name"), mapping(column).get("values")) for column in items(columns)]
    if stated and all(isinstance(name, str) and isinstance(values, list) for name, values in stated):
        names = [name for name, _ in stated]
        return [
            dict(zip(names, row, strict=True)) for row in zip(*(each for _, each in stated), strict=False)
        ]
    return None


def _parse(data: bytes, source: str, line: int) -> tuple[Any, bytes]:
    """Parse strict JSON; integers beyond 64 bits become text, because later readers would change them."""
    try:
        return parse_and_encode(data, source=source, limits=LIMITS, first_line=line)
    except InvalidInput as error:
        if "outside 64 bit" not in error.message:
            raise
    value, _ = parse_and_encode(data, source=source, limits=_WIDE, first_line=line)
    exact = within_64_bits(value)
    return exact, encode(exact)


def _reason(error: InvalidInput, source: str) -> str:
    return f"cannot be read: {error.message.removeprefix(f'{source}: ')}"
