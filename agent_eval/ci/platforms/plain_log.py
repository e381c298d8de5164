"""The job's log on platforms that show what a job prints and obey nothing in it but what `clean` removes."""

from __future__ import annotations

from typing import TextIO

from agent_eval.text.escape import clean

_LONGEST = 10_000_000


class PlainLog:
    """Prints prose, warnings and errors into the job's log.

    Example:
        >>> import sys
        >>> PlainLog(sys.stdout).warn("The baseline is missing.")
        Warning: The baseline is missing.

    Args:
        stream: The job's log.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, text: str) -> None:
        """Print prose without what a terminal would obey."""
        print(clean(text, limit=_LONGEST, multiline=True), file=self._stream, flush=True)

    def warn(self, text: str) -> None:
        """Print a sentence that a user should act on."""
        self.say(f"Warning: {text}")

    def point_out(self, text: str, *, path: str, line: int | None, fails: bool) -> None:
        """Do nothing: a log shows no file, and the report names the cases."""

    def fail(self, text: str) -> None:
        """Print why the job fails."""
        self.say(f"Error: {text}")
