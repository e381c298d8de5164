"""Workflow commands: lines of the log that the runner of GitHub Actions obeys."""

from __future__ import annotations

import re

from agent_eval.text.escape import many_lines

_COMMAND = re.compile(r"[a-z][a-z-]*")


def escape_data(text: str) -> str:
    """Encode the message of a command: per cent signs and line breaks; other controls are dropped."""
    visible = many_lines(text, limit=10_000)
    return visible.replace("%", "%25").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Encode the value of a command's property: as `escape_data`, and colons and commas."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def command(name: str, message: str, **properties: str | int) -> str:
    """Write a workflow command on one line, without a line break at its end.

    Example:
        >>> command("warning", "100 %", title="agent-eval")
        '::warning title=agent-eval::100 %25'

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
