"""Write to the runner of GitHub Actions: summary, outputs, log, and the commands that it obeys in the log."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from agent_eval.errors import StorageError
from agent_eval.storage.atomic import append_file
from agent_eval.text.escape import many_lines

_COMMAND = re.compile(r"[a-z][a-z-]*")

MAX_SUMMARY_BYTES = 1 << 20
"""GitHub drops a step's summary beyond this size."""


class GitHubStep:
    """One step of a workflow. It needs no settings and no event.

    Example:
        >>> import sys
        >>> GitHubStep({}, sys.stdout).warn("The baseline is missing.")
        ::warning title=agent-eval::The baseline is missing.

    Args:
        environ: The environment variables that the runner sets.
        stream: The job's log.
    """

    def __init__(self, environ: Mapping[str, str], stream: TextIO) -> None:
        self._environ = environ
        self._stream = stream

    def write_summary(self, markdown: str) -> None:
        """Append to the step's summary. A text that does not fit is left out, or GitHub would drop all."""
        path = self._environ.get("GITHUB_STEP_SUMMARY", "")
        data = markdown.encode("utf-8", "replace") + b"\n"
        if not path:
            return
        if _size(Path(path)) + len(data) > MAX_SUMMARY_BYTES:
            self.warn("The job summary is full; the report is in the output directory.")
            return
        self._append(path, data, "The job summary")

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Set the step's outputs. No value can set another one, because the delimiter cannot be guessed."""
        path = self._environ.get("GITHUB_OUTPUT", "")
        delimiter = f"agent-eval-{secrets.token_hex(16)}"
        lines = [f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in values.items()]
        if path:
            self._append(path, "".join(lines).encode("utf-8", "replace"), "The step's outputs")

    def say(self, text: str) -> None:
        """Print prose while the runner obeys no command."""
        token = secrets.token_hex(16)
        self._print(f"::stop-commands::{token}\n{text}\n::{token}::")

    def warn(self, text: str) -> None:
        """Print a warning annotation."""
        self._print(command("warning", text, title="agent-eval"))

    def point_out(self, text: str, *, path: str, line: int | None, fails: bool) -> None:
        """Print an annotation of a line of a file."""
        at: dict[str, str | int] = {"title": "agent-eval", "file": path, "line": line or 1}
        self._print(command("error" if fails else "warning", text, **at))

    def fail(self, text: str) -> None:
        """Print an error annotation."""
        self._print(command("error", text, title="agent-eval"))

    def _append(self, path: str, data: bytes, what: str) -> None:
        try:
            append_file(Path(path), data)
        except StorageError as error:
            self.warn(f"{what} could not be written: {error.message}")

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


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
