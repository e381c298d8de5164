"""The content of an event as text for reading, and what differs between two such texts.

Differences are marked word by word where the texts are alike, and whole where they are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, partial
from typing import Any, NamedTuple

import orjson

from agent_eval.contracts import Event
from agent_eval.contracts.event import ERROR, TOOL_CALL, TOOL_RESULT
from agent_eval.text.escape import many_lines

ONE_LINE = 90
"""Characters up to which JSON is written on one line."""
VALUE_LIMIT = 200_000
"""Characters of a value that are looked at."""
CELLS = 40_000
"""Most pairs of words that are compared; beyond it lines are compared, then nothing."""
ALIKE = 0.3
"""Share of characters in common from which words are marked; below it they would look like confetti."""
CONTEXT = 300
"""Characters shown before the first difference where a common beginning is left out."""

_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+|\s+|[^\w\s]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS


class StepContent:
    """What an event says: the arguments of a call, its answer or error, the text of a message."""

    def __init__(self, event: Event) -> None:
        self._event = event

    @property
    def text(self) -> str:
        """The content on one line where it is short, else with JSON indented."""
        return self.compact if len(self.compact) <= ONE_LINE else self.indented

    @cached_property
    def compact(self) -> str:
        """The content with JSON on one line; equal for equal contents."""
        return "\n".join(as_text(value, indented=False) for value in self._values)

    @cached_property
    def indented(self) -> str:
        """The content with JSON indented."""
        if all(isinstance(value, str) for value in self._values):
            return self.compact
        return "\n".join(map(as_text, self._values))

    @cached_property
    def _values(self) -> list[Any]:
        event = self._event
        if event.content_recorded is False:
            return ["(not recorded)"]
        if event.type in (TOOL_CALL, TOOL_RESULT, ERROR):
            values = [event.error, event.input if event.type == TOOL_CALL else event.output]
        else:
            values = [event.error, event.content if event.content is not None else event.input]
        return [value for value in values if value is not None]


def as_text(value: Any, *, indented: bool = True) -> str:
    """Write a value for reading: a text as it is, anything else as JSON with sorted keys."""
    if not isinstance(value, str):
        try:
            value = orjson.dumps(value, option=_INDENTED).decode() if indented else _json(value, indent=None)
        except TypeError:  # numbers of more than 64 bits, half of a surrogate pair
            value = _json(value, indent=2)
    return many_lines(value, limit=VALUE_LIMIT)


_json = partial(json.dumps, ensure_ascii=False, sort_keys=True, default=str)


class Piece(NamedTuple):
    """A part of a text, and whether the other text has something else in its place."""

    differs: bool
    text: str


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
    opcodes: list[tuple[str, int, int, int, int]] = [("replace", 0, len(old), 0, len(new))]
    if len(old) * len(new) <= CELLS:
        opcodes = [*SequenceMatcher(None, old, new, autojunk=False).get_opcodes()]
    # A space between two words that differ is no common ground.
    for place, (tag, low, high, *_) in enumerate(opcodes):
        if tag == "equal" and 0 < place < len(opcodes) - 1 and not "".join(old[low:high]).strip():
            opcodes[place] = ("replace", *opcodes[place][1:])
    shared = sum(len(word) for word in (*first[:start], *first[len(first) - end :]))
    shared += sum(len(word) for tag, low, high, _, _ in opcodes if tag == "equal" for word in old[low:high])
    if shared < ALIKE * max(len(before), len(now)):
        return _pieces([(True, before)]), _pieces([(True, now)])
    head, tail = (False, "".join(first[:start])), (False, "".join(first[len(first) - end :]))
    earlier = [(tag != "equal", "".join(old[low:high])) for tag, low, high, _, _ in opcodes]
    later = [(tag != "equal", "".join(new[low:high])) for tag, _, _, low, high in opcodes]
    return _pieces([head, *earlier, tail]), _pieces([head, *later, tail])


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a long text that is shown, with the numbers of characters left out before and after it."""

    text: str
    before: int = 0
    after: int = 0


def windows(before: str, now: str, *, limit: int) -> tuple[Window, Window]:
    """Cut two texts to a limit, so that their first difference is shown."""
    start = 0
    if max(len(before), len(now)) > limit:
        pairs = enumerate(zip(before, now, strict=False))
        first = next((place for place, (old, new) in pairs if old != new), min(len(before), len(now)))
        start = max(0, first - CONTEXT)
    return window(before, limit=limit, start=start), window(now, limit=limit, start=start)


def window(text: str, *, limit: int, start: int = 0) -> Window:
    """Cut one text to a limit."""
    return Window(text[start : start + limit], min(start, len(text)), max(0, len(text) - start - limit))


def _shared_ends(first: Sequence[str], second: Sequence[str]) -> tuple[int, int]:
    shorter = min(len(first), len(second))
    start = 0
    while start < shorter and first[start] == second[start]:
        start += 1
    end = 0
    while end < shorter - start and first[-1 - end] == second[-1 - end]:
        end += 1
    return start, end


def _pieces(parts: Iterable[tuple[bool, str]]) -> list[Piece]:
    joined: list[Piece] = []
    for differs, text in parts:
        if not text:
            continue
        if joined and joined[-1].differs == differs:
            joined[-1] = Piece(differs, joined[-1].text + text)
        else:
            joined.append(Piece(differs, text))
    return joined
