"""Read the records of exports: JSON, JSON Lines, event streams; plain, gzip, zip, directories, stdin.

A record is what an export has many of: a line of JSON Lines, an item of a JSON array, a whole JSON document,
the text of a server-sent event stream. JSON Lines are read one by one, so such a file may be of any size.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from agent_eval.errors import InvalidInput, StorageError
from agent_eval.importers.containers import DamagedFile, Stream, streams_of
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.storage.json import Limits, parse_and_encode, within_64_bits
from agent_eval.storage.json import dumps as encode

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
        stream.file = _utf8(stream.file)
        blank, start = _skip_blank(stream.file)
        if not start:
            diagnostics.lost(stream.name, "", "is empty")
        elif start.startswith(_STREAM_STARTS) or _DATA_STREAM.match(start):
            yield from _event_stream(stream, start + stream.file.read(RECORD_BYTES + 1), diagnostics)
        elif stream.name.lower().endswith(_JSON_LINES) or _is_whole(start, stream.name):
            yield from _lines(stream, start, blank + 1, diagnostics, is_one_record)
        else:
            yield from _document(stream, start, diagnostics, is_one_record)
    except DamagedFile as error:
        diagnostics.lost(stream.name, "", _reason(error, stream.name))


def _utf8(file: IO[bytes]) -> IO[bytes]:
    """Return the file; one that begins as UTF-16, as PowerShell writes texts, in UTF-8."""
    start = file.peek(2)[:2] if isinstance(file, io.BufferedReader) else b""
    if start not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return file
    text = file.read(RECORD_BYTES + 1).decode("utf-16", "replace")
    return io.BufferedReader(io.BytesIO(text.encode("utf-8")))


def _skip_blank(file: IO[bytes]) -> tuple[int, bytes]:
    """Read up to the first line that is not blank. Return how many were, and that line without its mark."""
    blank, line = 0, file.readline(RECORD_BYTES + 1).removeprefix(_BOM)
    while line and not line.strip():
        blank, line = blank + 1, file.readline(RECORD_BYTES + 1)
    return blank, line


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
    """Read the rest of a document, and yield its records."""
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
    yield from _items(stream.name, value, encoded, is_one_record)


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


def _items(
    name: str, value: Any, encoded: bytes, is_one_record: IsOneRecord
) -> Iterator[tuple[Record, bytes]]:
    """Yield the items of an array, or of a page of an API's list; anything else as one record."""
    listed = _listed(value)
    if listed is not None:
        value, encoded = listed, b""
    if not isinstance(value, list) or is_one_record(value):
        yield Record(value, name), encoded or encode(value)
        return
    for position, item in enumerate(value):
        yield Record(item, name, position), encode(item)


def _listed(value: Any) -> list[Any] | None:
    """Return the records of a page of the lists that APIs return, or of columns; None for anything else."""
    if not isinstance(value, dict):
        return None
    data, columns = value.get("data"), value.get("columns")
    if isinstance(data, list) and set(value) <= _LIST_KEYS:
        is_page = value.get("object") == "list" or "next_cursor" in value or "meta" in value
        return data if is_page else None
    if isinstance(columns, list) and columns and all(map(_is_column, columns)):
        rows = zip(*(column["values"] for column in columns), strict=False)
        return [{column["name"]: stated for column, stated in zip(columns, row, strict=True)} for row in rows]
    return None


def _is_column(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("values"), list)
    )


def _event_stream(stream: Stream, data: bytes, diagnostics: Diagnostics) -> Iterator[tuple[Record, bytes]]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        diagnostics.lost(stream.name, "", f"is not UTF-8 at byte {error.start}")
        return
    if len(data) > RECORD_BYTES:
        diagnostics.lost(stream.name, "", f"is longer than the {RECORD_BYTES:,} bytes that are read")
        return
    yield Record(text, stream.name), encode(text)


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
