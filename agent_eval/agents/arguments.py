"""When two tool calls are the same call: canonical arguments."""

from __future__ import annotations

import json
import re
from typing import Any

from agent_eval.contracts import canonical_json
from agent_eval.errors import InvalidInput
from agent_eval.storage.json_reader import parse

_SEPARATOR = "::"
_ARGUMENTS = re.compile(rf"{_SEPARATOR}(?=[{{\[])")


def canonical(arguments: Any) -> str:
    """Text that is equal for equal arguments.

    The order of keys does not matter, nor does `1.0` for `1` (they are the same number in JSON), nor whether
    an object or list is given as such or as its JSON text, as models write arguments. No arguments are `{}`.
    """
    value = _opened(arguments)
    return canonical_json(_plain({} if value is None else value)).decode()


def call_key(tool: str, arguments: Any) -> tuple[str, str]:
    """What identifies a call."""
    return tool, canonical(arguments)


def fingerprint(tool: str, arguments: Any) -> str:
    """A call as the key of a cassette that is an object: `tool::{"a": 1}`, keys sorted."""
    value = _opened(arguments)
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else str(value)
    return f"{tool}{_SEPARATOR}{text}"


def key_of_fingerprint(text: str) -> tuple[str, str] | None:
    """The call that a fingerprint names, however its JSON is laid out; None when it names none."""
    tool, separator, arguments = text.partition(_SEPARATOR)
    # A tool's name may itself contain the separator; the arguments begin with the first bracket after one.
    if begin := _ARGUMENTS.search(text):
        tool, arguments = text[: begin.start()], text[begin.end() :]
    return (tool, canonical(arguments)) if separator else None


def _opened(arguments: Any) -> Any:
    """Arguments given as JSON text, read; anything else as it is."""
    if isinstance(arguments, str) and arguments.lstrip()[:1] in ("{", "["):
        try:
            return parse(arguments.encode("utf-8", "surrogatepass"), source="arguments")
        except InvalidInput:
            return arguments
    return arguments


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
