"""Progress on stderr: a bar that is redrawn on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agent_eval.engine.progress import Standing

SECONDS_BETWEEN_LINES = 5.0


class ProgressPrinter:
    """Prints a run's standing; give it to `on_progress`, and use it as a context manager."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said = time.monotonic()
        self._drawn = 0

    def __call__(self, standing: Standing) -> None:
        """Say how far the run is, if it is time to."""
        if self._terminal:
            self._draw(standing)
        elif time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            from agent_eval.reports.progress import progress_text

            self._said = time.monotonic()
            click.echo(progress_text(standing), err=True)

    def _draw(self, standing: Standing) -> None:
        import shutil

        from agent_eval.reports.progress import progress_bar

        text = progress_bar(standing, shutil.get_terminal_size().columns)
        click.echo("\r" + text.ljust(self._drawn), err=True, nl=False)
        self._drawn = len(text)

    def __enter__(self) -> ProgressPrinter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            click.echo("", err=True)
