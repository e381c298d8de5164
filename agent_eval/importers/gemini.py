"""The spellings of Gemini: camelCase as the API writes fields, and snake_case as Python does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import items, mapping, system_message, text

_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")


@cache
def _snake(name: str) -> str:
    return _HUMP.sub("_", name).lower()


def field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field by its name in camelCase, or by the same name in snake_case."""
    value = fields.get(name)
    return fields.get(_snake(name)) if value is None else value


def system_message_of(instruction: Any) -> list[Message]:
    """Read a system instruction: a text, a content, or parts."""
    parts = mapping(instruction).get("parts", instruction)
    parts = [parts] if isinstance(parts, str | dict) else items(parts)
    joined = "".join(text(part) or text(mapping(part).get("text")) or "" for part in parts)
    return [message_of([system_message(joined)])] if joined else []
