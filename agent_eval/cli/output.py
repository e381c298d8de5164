"""Print results on stdout, as prose for people or one JSON object for programs; and progress on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.streams import print_error

if TYPE_CHECKING:
    from agent_eval.engine.progress import RunProgress


def emit(output: str, payload: dict[str, Any], text: Callable[[bool], str]) -> None:
    """Print a result.

    Args:
        output: The value of `--format`: `auto`, `text` or `json`.
        payload: The result as JSON-serialisable data.
        text: Makes the prose. Called only if prose is wanted, with whether to use colour.
    """
    terminal = sys.stdout.isatty()
    if output == "json" or (output == "auto" and not terminal):
        import json

        click.echo(json.dumps(payload, sort_keys=True))
    else:
        click.echo(text(terminal and _colour_wanted()))


def _colour_wanted() -> bool:
    import os

    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


SECONDS_BETWEEN_LINES = 5.0


class ProgressPrinter:
    """Prints a run's progress on stderr: a bar on a terminal, otherwise a line every few seconds.

    A context manager. Pass it as `on_progress`.

    Example:
        >>> from agent_eval.engine.progress import RunProgress
        >>> with ProgressPrinter() as progress:
        ...     progress(RunProgress(total=10, done=4, passed=3))
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._printed_at = time.monotonic()
        self._drawn_columns = 0

    def __call__(self, progress: RunProgress) -> None:
        """Print the progress, unless the last line is too recent."""
        if self._terminal:
            self._draw(progress)
        elif time.monotonic() - self._printed_at >= SECONDS_BETWEEN_LINES:
            from agent_eval.reports.terminal import progress_text

            self._printed_at = time.monotonic()
            print_error(progress_text(progress))

    def _draw(self, progress: RunProgress) -> None:
        import shutil

        from agent_eval.reports.terminal import progress_bar

        text = progress_bar(progress, shutil.get_terminal_size().columns)
        print_error("\r" + text.ljust(self._drawn_columns), nl=False)
        self._drawn_columns = len(text)

    def __enter__(self) -> ProgressPrinter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn_columns:
            print_error("")
