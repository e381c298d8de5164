"""Compressed cases within a page: a browser unpacks one block on a click."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

BLOCK_CHARACTERS = 200_000
"""Characters of markup in a block before it is compressed: a browser unpacks as much at once."""


@dataclass
class CaseBlocks:
    """Blocks of cases, filled one case after the other up to a size.

    A block is JSON, `[[anchor, markup], …]`, compressed with deflate, in base64, which
    can neither end the element that holds it nor be read as markup.

    Attributes:
        limit: Bytes that all blocks may take together.
        block_of: Number of the block of each case in them, by anchor.
        is_full: Whether cases were left out because they did not fit.

    Example:
        >>> blocks = CaseBlocks(limit=1_000)
        >>> blocks.add("case=a", "<p>a</p>")
        >>> blocks.close()
        >>> blocks.block_of, list(unpacked(blocks.data[0]))
        ({'case=a': 0}, [('case=a', '<p>a</p>')])
    """

    limit: int
    data: list[str] = field(default_factory=list)
    block_of: dict[str, int] = field(default_factory=dict)
    is_full: bool = False
    _cases: list[tuple[str, str]] = field(default_factory=list)
    _characters: int = 0
    _size: int = 0

    def add(self, anchor: str, markup: str) -> None:
        """Add a case. It has a place once its block is finished and fits."""
        self._cases.append((anchor, markup))
        self._characters += len(markup)
        if self._characters >= BLOCK_CHARACTERS:
            self.close()

    def close(self) -> None:
        """Finish the block that is being filled; drop it where it does not fit."""
        if not self._cases:
            return
        block = packed(self._cases)
        if self._size + len(block) > self.limit:
            self.is_full = True
        else:
            self.block_of.update((anchor, len(self.data)) for anchor, _ in self._cases)
            self.data.append(block)
            self._size += len(block)
        self._cases, self._characters = [], 0


def packed(cases: list[tuple[str, str]]) -> str:
    """Compress cases into one block; equal cases give equal blocks."""
    text = json.dumps(cases, ensure_ascii=False, separators=(",", ":"))
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = compressor.compress(text.encode("utf-8", "replace")) + compressor.flush()
    return base64.b64encode(data).decode()


def unpacked(block: str) -> Iterator[tuple[str, str]]:
    """Yield the anchor and the markup of each case of a block."""
    yield from map(tuple, json.loads(zlib.decompress(base64.b64decode(block), -15)))
