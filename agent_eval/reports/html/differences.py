"""Mark what differs between two texts, word by word where they are alike and whole where they are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple


class Piece(NamedTuple):
    """A part of a text, and whether the other text has something else in its place.

    Example:
        >>> [(piece.differs, piece.text) for piece in marked("refund 10 EUR", "refund 1000 EUR")[1]]
        [(False, 'refund '), (True, '1000'), (False, ' EUR')]
    """

    differs: bool
    text: str


CELLS = 40_000
"""Most pairs of words that are compared; beyond it lines are compared, then nothing."""
ALIKE = 0.3
"""Share of characters in common from which words are marked; below it they would look like confetti."""
CONTEXT = 300
"""Characters shown before the first difference where a common beginning is left out."""

_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+|\s+|[^\w\s]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_Opcode = tuple[str, int, int, int, int]


def marked(before: str, now: str) -> tuple[list[Piece], list[Piece]]:
    """Divide two texts into pieces, marking those that the other text does not have."""
    if before == now:
        return _pieces([(False, before)]), _pieces([(False, now)])
    first, second = _WORD.findall(before), _WORD.findall(now)
    start, end = _shared_ends(first, second)
    if (len(first) - start - end) * (len(second) - start - end) > CELLS:
        first, second = _LINE.findall(before), _LINE.findall(now)
        start, end = _shared_ends(first, second)
    old, new = first[start : len(first) - end], second[start : len(second) - end]
    opcodes = _opcodes(old, new)
    shared = sum(len(word) for word in (*first[:start], *first[len(first) - end :]))
    shared += sum(len(word) for tag, low, high, _, _ in opcodes if tag == "equal" for word in old[low:high])
    if shared < ALIKE * max(len(before), len(now)):
        return _pieces([(True, before)]), _pieces([(True, now)])
    head, tail = (False, "".join(first[:start])), (False, "".join(first[len(first) - end :]))
    return (
        _pieces([head, *_side(old, [(tag, low, high) for tag, low, high, _, _ in opcodes]), tail]),
        _pieces([head, *_side(new, [(tag, low, high) for tag, _, _, low, high in opcodes]), tail]),
    )


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a long text that is shown.

    Attributes:
        before: Characters left out before it.
        after: Characters left out after it.
    """

    text: str
    before: int = 0
    after: int = 0


def windows(before: str, now: str, *, limit: int) -> tuple[Window, Window]:
    """Cut two texts to a limit, so that their first difference is shown."""
    start = 0
    if max(len(before), len(now)) > limit:
        start = max(0, _common_beginning(before, now) - CONTEXT)
    return window(before, limit=limit, start=start), window(now, limit=limit, start=start)


def window(text: str, *, limit: int, start: int = 0) -> Window:
    """Cut one text to a limit."""
    return Window(text[start : start + limit], min(start, len(text)), max(0, len(text) - start - limit))


def _common_beginning(before: str, now: str) -> int:
    shorter = min(len(before), len(now))
    low, high = 0, shorter
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == now[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shared_ends(first: Sequence[str], second: Sequence[str]) -> tuple[int, int]:
    shorter = min(len(first), len(second))
    start = 0
    while start < shorter and first[start] == second[start]:
        start += 1
    end = 0
    while end < shorter - start and first[-1 - end] == second[-1 - end]:
        end += 1
    return start, end


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[_Opcode]:
    if len(old) * len(new) > CELLS:
        return [("replace", 0, len(old), 0, len(new))]
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    # A space between two words that differ is no common ground.
    return [
        ("replace", *code[1:])
        if code[0] == "equal" and 0 < place < len(opcodes) - 1 and not "".join(old[code[1] : code[2]]).strip()
        else code
        for place, code in enumerate(opcodes)
    ]


def _side(words: Sequence[str], ranges: Iterable[tuple[str, int, int]]) -> list[tuple[bool, str]]:
    return [(tag != "equal", "".join(words[low:high])) for tag, low, high in ranges]


def _pieces(parts: Iterable[tuple[bool, str]]) -> list[Piece]:
    """Join neighbours of one kind, and drop empty ones."""
    joined: list[Piece] = []
    for differs, text in parts:
        if not text:
            continue
        if joined and joined[-1].differs == differs:
            joined[-1] = Piece(differs, joined[-1].text + text)
        else:
            joined.append(Piece(differs, text))
    return joined
