"""Server-sent events: the text that streaming APIs answer with, as recorders store it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agent_eval.errors import InvalidInput
from agent_eval.importers.records import LIMITS
from agent_eval.storage.json import parse

DONE = "[DONE]"


@dataclass(slots=True)
class EventStream:
    """The data of one stream, parsed.

    Attributes:
        events: The JSON values of its `data` fields, in order.
        broken: What could not be read, in words: usually the end of a stream that was cut off.
    """

    events: list[Any] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def is_event_stream(text: Any) -> bool:
    """Whether a value is the text of an event stream."""
    return isinstance(text, str) and text.lstrip()[:6].startswith(("data:", "event:", "id:", ":"))


def first_event(text: str) -> Any:
    """Return the first JSON value of a stream; None if there is none."""
    for data in _data_of(text):
        return _parsed(data, EventStream())
    return None


def streams_in(text: str, starts: frozenset[str] = frozenset()) -> Iterator[EventStream]:
    """Yield the streams of a text; `[DONE]` ends one, and an event of a type in `starts` begins one."""
    stream = EventStream()
    for data in _data_of(text):
        if data.strip() == DONE:
            if stream.events:
                yield stream
            stream = EventStream()
            continue
        value = _parsed(data, stream)
        if isinstance(value, dict) and str(value.get("type")) in starts and stream.events:
            yield stream
            stream = EventStream()
        if value is not None:
            stream.events.append(value)
    if stream.events or stream.broken:
        yield stream


def place_of(index: Any, default: int) -> int:
    """Return the index by which fragments of a stream belong together; `default` if it is no number."""
    return index if isinstance(index, int) else default


def _parsed(data: str, stream: EventStream) -> Any:
    try:
        return parse(data.encode("utf-8", "surrogatepass"), source="data", limits=LIMITS)
    except InvalidInput as error:
        stream.broken.append(error.message)
        return None


def _data_of(text: str) -> Iterator[str]:
    """Yield the `data` of each event; its lines belong together until a blank one."""
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)
