"""Arguments of a tool call, as the object that they should be."""

from __future__ import annotations

from typing import Any

from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.judges.wording import clipped
from agent_eval.storage.json_reader import Limits, parse

TEXT_LIMITS = Limits(max_bytes=16 << 20)
"""Bounds on JSON within a trace: 16 MiB, 64 levels."""


class UnreadableText(ValueError):
    """A text that should be JSON and is not."""


class MalformedArguments(ValueError):
    """Arguments that are no object. `failure` is parse_error or type_error."""

    def __init__(self, message: str, failure: FailureKind) -> None:
        super().__init__(message)
        self.failure = failure


def read_text(text: str, what: str) -> Any:
    """Strict JSON within a trace.

    Raises:
        UnreadableText: Says why and where, without quoting the text.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UnreadableText("it holds half of a surrogate pair") from None
    try:
        return parse(data, source=what, limits=TEXT_LIMITS)
    except InvalidInput as problem:
        raise UnreadableText(clipped(problem.message.removeprefix(f"{what}: "), 160)) from None


def read_arguments(recorded: Any) -> dict[str, Any]:
    """Arguments as an object: null is none given, a string must be the JSON text of an object.

    Raises:
        MalformedArguments: Anything else.
    """
    if isinstance(recorded, dict):
        return recorded
    if recorded is None:
        return {}
    if isinstance(recorded, str):
        try:
            recorded = read_text(recorded, "arguments")
        except UnreadableText as problem:
            raise MalformedArguments(f"that are not JSON: {problem}", FailureKind.PARSE_ERROR) from None
        if isinstance(recorded, dict):
            return recorded
    raise MalformedArguments(f"that are {_kind(recorded)}, not an object", FailureKind.TYPE_ERROR)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return {str: "a string", list: "an array", type(None): "null"}.get(type(value), "unknown")
