"""A conversation as a judge that is a model reads it: one JSON line an event, between fences.

The text of agents, users and tools is hostile. JSON lines make a forged event impossible: a line break in a
text is an escape. The fences have characters that no line has, and end with a digest of the lines, so that
they differ between conversations and the same conversation is the same text in every run.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.contracts import Case, Event, Trace
from agent_eval.contracts.conversation import CONVERSATION_END
from agent_eval.contracts.event import AGENT, MODEL_CALL, REASONING, STATE, TOOL_CALL, TOOL_RESULT
from agent_eval.contracts.trace import is_blank

LAYOUT = "agent-eval conversation 1"
"""Version of the layout; another layout is another text, which is judged again."""

_LEFT_OUT = frozenset({REASONING, MODEL_CALL, STATE, CONVERSATION_END})
"""Events that the user never saw and that are no act of the agent."""

_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FENCE_CHARACTERS = frozenset("<>\uff1c\uff1e")
"""Characters of fences, and those that look like them."""

_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a conversation.

    `turn` is 0 before the first. `event` is None for what the agent knew of the user. `readable` has the
    values of the line as text, in which quotes are searched for.
    """

    turn: int
    event: int | None
    text: str
    readable: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """The lines of a conversation, with their fences.

    Example:
        >>> events = [Event(idx=0, actor="user", type="message", input="<b>Hi"),
        ...           Event(idx=1, actor="agent", type="message", output="Hello!")]
        >>> print(transcript_of(Case(case_id="a"), Trace(events)).text)
        <<<conversation 990241204824f148
        {"turn":1,"who":"user","type":"message","text":"\\u003cb\\u003eHi"}
        {"turn":1,"who":"agent","type":"message","text":"Hello!"}
        <<<end of conversation 990241204824f148
    """

    lines: Sequence[Line]

    @property
    def digest(self) -> str:
        """SHA-256 of the layout and the lines, in hexadecimal digits."""
        text = "\n".join([LAYOUT, *(line.text for line in self.lines)])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def text(self) -> str:
        """The whole text for the judge."""
        name = f"conversation {self.digest[:16]}"
        return "\n".join([f"<<<{name}", *(line.text for line in self.lines), f"<<<end of {name}"])

    def events_with(self, quote: str, turn: int) -> list[int]:
        """Find the events of a turn whose line has a quote; empty if none has, or the quote is blank."""
        wanted = _plain(quote)
        if is_blank(wanted):
            return []
        return [
            line.event
            for line in self.lines
            if line.turn == turn and line.event is not None and wanted in _plain(line.readable)
        ]


def transcript_of(case: Case, trace: Trace) -> Transcript:
    """Write down what an agent knew of the user, and every event that is an act or a message."""
    lines = []
    if case.conversation is not None and case.conversation.user_info:
        values = {"turn": 0, "who": "environment", "type": "user_info", "text": case.conversation.user_info}
        lines.append(_line(0, None, values))
    turns = {event.idx: turn.number for turn in trace.turns for event in turn.trace}
    for event in trace:
        if event.type not in _LEFT_OUT:
            number = turns.get(event.idx, 0)
            lines.append(_line(number, event.idx, {"turn": number, **_values(event)}))
    return Transcript(lines)


def _line(turn: int, event: int | None, values: Mapping[str, Any]) -> Line:
    parts = [value for name, value in values.items() if name not in ("turn", "who", "type")]
    words = "\n".join(text for value in parts for text in _texts(value))
    return Line(turn, event, json_line(values), words)


def _values(event: Event) -> dict[str, Any]:
    values: dict[str, Any] = {"who": event.agent or event.role if event.role == AGENT else event.role}
    values["type"] = event.type
    if event.tool:
        values["tool"] = event.tool
    if event.type == TOOL_CALL:
        values["arguments"] = event.input
    elif event.type == TOOL_RESULT:
        values["result"] = event.output
    else:
        values["text"] = event.content
    if event.error is not None:
        values["error"] = event.error
    if event.content_recorded is False:
        values["note"] = "the content was not recorded"
    if event.stop is not None:
        values["note"] = f"the answer ended early: {event.stop[1]}"
    return values


def json_line(value: Any) -> str:
    """Write a value as one line of JSON in which nothing is invisible and nothing looks like a fence."""
    if isinstance(value, Mapping):
        value = {name: _in_order(inner) for name, inner in value.items()}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    if text.isascii() and "<" not in text and ">" not in text and "\x7f" not in text:
        return text
    return "".join(
        _escaped(char)
        if char in _FENCE_CHARACTERS or unicodedata.category(char) in _ESCAPED_CATEGORIES
        else char
        for char in text
    )


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex(" ", 2).split()
    return "".join(f"\\u{unit}" for unit in units)


def _in_order(value: Any) -> Any:
    """Sort the keys of objects: a pack sorts them, and must be asked about in the words of the first time."""
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value, key=str)}
    return [_in_order(item) for item in value] if isinstance(value, list | tuple) else value


def _texts(value: Any) -> Iterable[str]:
    """Yield the texts in a value, and its other parts as JSON."""
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    yield json.dumps(_in_order(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _plain(text: str) -> str:
    """Return a text without what models change when they copy it: spaces, quotes, invisible characters."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    visible = "".join(
        char for char in text if char.isspace() or unicodedata.category(char) not in _ESCAPED_CATEGORIES
    )
    return _SPACES.sub(" ", visible).strip().casefold()


_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2026": "..."})
