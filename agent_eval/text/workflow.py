"""Workflow commands of GitHub Actions: `::warning title=…::message` on standard output.

Escaping follows the runner's own toolkit (actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

import re

from agent_eval.text.invisible import many_lines

_COMMAND = re.compile(r"[a-z][a-z-]*")


def escape_data(text: str) -> str:
    """A command's message: per cent signs and line breaks encoded, other controls dropped."""
    shown = many_lines(text, limit=10_000)
    return shown.replace("%", "%25").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """A command's property value: as `escape_data`, and colons and commas encoded."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def command(name: str, message: str, **properties: str | int) -> str:
    """One workflow command on one line, without a line break at its end.

    Args:
        name: Such as `warning`, `error`, `notice`, `group`.
        message: Anything.
        properties: Such as `title`, `file`, `line`.

    Raises:
        ValueError: `name` or the name of a property is not a lower-case word.
    """
    for word in (name, *properties):
        if not _COMMAND.fullmatch(word.lower()):
            raise ValueError(f"not the name of a workflow command or property: {word!r}")
    listed = ",".join(f"{key}={escape_property(str(value))}" for key, value in properties.items())
    return f"::{name}{' ' + listed if listed else ''}::{escape_data(message)}"
