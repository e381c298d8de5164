"""What commands print on stdout: prose for a person, one JSON object for a program."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent_eval.engine.progress import RunProgress


def emit(output: str, payload: dict[str, Any], text: Callable[[bool], str]) -> None:
    """Print a result.

    Args:
        output: The value of `--format`: `auto`, `text` or `json`.
        payload: The result as JSON-serialisable data.
        text: Makes the prose; called only when prose is wanted, with whether colour is.
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
    """Prints a run's progress; give it to `on_progress`, and use it as a context manager."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said = time.monotonic()
        self._drawn = 0

    def __call__(self, progress: RunProgress) -> None:
        """Say how far the run is, if it is time to."""
        if self._terminal:
            self._draw(progress)
        elif time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            from agent_eval.reports.terminal import progress_text

            self._said = time.monotonic()
            click.echo(progress_text(progress), err=True)

    def _draw(self, progress: RunProgress) -> None:
        import shutil

        from agent_eval.reports.terminal import progress_bar

        text = progress_bar(progress, shutil.get_terminal_size().columns)
        click.echo("\r" + text.ljust(self._drawn), err=True, nl=False)
        self._drawn = len(text)

    def __enter__(self) -> ProgressPrinter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            click.echo("", err=True)
