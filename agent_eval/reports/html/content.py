"""The content of an event as text for reading."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import orjson

from agent_eval.contracts import Event
from agent_eval.contracts.event import ERROR, TOOL_CALL, TOOL_RESULT
from agent_eval.text.escape import many_lines

ONE_LINE = 90
"""Characters up to which JSON is written on one line."""
VALUE_LIMIT = 200_000
"""Characters of a value that are looked at."""

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


def alike_in_form(first: StepContent, second: StepContent) -> tuple[str, str]:
    """Write two contents on one line each, or both indented, so that only what they say differs."""
    if max(len(first.compact), len(second.compact)) <= ONE_LINE:
        return first.compact, second.compact
    return first.indented, second.indented


def as_text(value: Any, *, indented: bool = True) -> str:
    """Write a value for reading: a text as it is, anything else as JSON with sorted keys."""
    if not isinstance(value, str):
        value = _indented(value) if indented else _json(value, indent=None)
    return many_lines(value, limit=VALUE_LIMIT)


def _indented(value: Any) -> str:
    try:
        return orjson.dumps(value, option=_INDENTED).decode()
    except TypeError:  # numbers of more than 64 bits, half of a surrogate pair
        return _json(value, indent=2)


def _json(value: Any, *, indent: int | None) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent, default=str)
