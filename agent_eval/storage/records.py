"""The lines of a journal: how a record is encoded, and how the records of a file are read.

A line is the CRC-32 of the JSON in eight hexadecimal digits, a space, the JSON, a line feed.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from agent_eval.storage.json import dumps

_PREFIX = 9
"""Bytes before the JSON: the checksum and a space."""

_HEADER = "header"
_EMPTY = b"\n"
DIGEST_BYTES = 16


def encode(record: Any) -> bytes:
    """Encode a record as a line of a journal."""
    data = dumps(record)
    return b"%08x %b\n" % (zlib.crc32(data), data)


def record_digest(line: bytes) -> bytes:
    """First 16 bytes of the SHA-256 of a record's line: no other line has them."""
    return hashlib.sha256(line).digest()[:DIGEST_BYTES]


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
    def is_header(self) -> bool:
        """Whether the record is a copy of the header."""
        # The first line of a journal of 0.1.0 is its header as it is.
        return self.offset == 0 or _is_header(self.record)

    @property
    def header(self) -> Any:
        """The header that the record is a copy of."""
        return self.record[_HEADER] if _is_header(self.record) else self.record


@dataclass(frozen=True)
class JournalContents:
    """What resuming needs of a journal's file.

    Attributes:
        header: The header; None if both copies are broken.
        end: Where the last whole record ends; 0 if there is none.
        damaged: Number of broken records before that.
    """

    header: Any
    end: int
    damaged: int

    @classmethod
    def of(cls, path: Path) -> JournalContents:
        """Read a file."""
        header, end, damaged, broken = None, 0, 0, 0
        for data, line in _lines(path):
            if line is None:
                broken += 1
                continue
            damaged, broken = damaged + broken, 0
            end = line.offset + len(data)
            header = line.header if header is None and line.is_header else header
        return cls(header, end, damaged)


def header_lines(header: Any) -> bytes:
    """Encode a header: two copies and an empty line between, so that no single damaged byte loses both."""
    line = encode({_HEADER: header})
    return line + _EMPTY + line


def _is_header(record: Any) -> bool:
    return isinstance(record, dict) and record.keys() == {_HEADER}


def _lines(path: Path) -> Iterator[tuple[bytes, RecordLine | None]]:
    """Yield every line that is not empty, with its record where it is whole."""
    offset = 0
    with path.open("rb") as file:
        for data in file:
            if data != _EMPTY:
                yield data, _record_line(offset, data)
            offset += len(data)


def _record_line(offset: int, data: bytes) -> RecordLine | None:
    try:
        return RecordLine(offset, data, decode(data))
    except ValueError:
        return None


def whole_lines(path: Path) -> Iterator[RecordLine]:
    """Yield the whole records of a file, the header included."""
    return (line for _, line in _lines(path) if line is not None)
