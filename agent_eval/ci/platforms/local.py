"""Outside CI: the comment is printed instead of posted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from agent_eval.ci.baseline import Candidate, NoHistory
from agent_eval.ci.comment import Published
from agent_eval.ci.config import Settings
from agent_eval.ci.platforms.base import Context
from agent_eval.text.escape import clean


class Local:
    """A developer's machine.

    Args:
        settings: What the user asked for.
        environ: The environment.
        stream: Where everything is printed.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str], stream: TextIO) -> None:
        del environ
        self._settings = settings
        self._stream = stream

    @property
    def context(self) -> Context:
        """Nothing is known here."""
        return Context()

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """There are no earlier runs to look at."""
        del notes
        raise NoHistory("Outside CI there are no earlier runs: give `--baseline PATH` to compare.")

    def base_file(self, path: str) -> bytes | None:
        """Nobody knows what the change goes onto."""
        del path
        return None

    def write_summary(self, markdown: str) -> None:
        """There is no summary page; the report lies in the output directory."""

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """No step follows."""

    def publish(self, body: Callable[[str], str]) -> Published:
        """Print the comment as it would be posted."""
        self.say("The comment, as it would be posted:\n")
        self.say(body(f"<!-- agent-eval id={self._settings.comment_id} run=0 attempt=0 -->"))
        return Published("none")

    def say(self, text: str) -> None:
        """Print prose without what a terminal would obey."""
        print(clean(text, limit=10_000_000, multiline=True), file=self._stream, flush=True)

    def warn(self, text: str) -> None:
        """Print a sentence that someone should act on."""
        self.say(f"Warning: {text}")

    def fail(self, text: str) -> None:
        """Print why the job fails."""
        self.say(f"Error: {text}")
