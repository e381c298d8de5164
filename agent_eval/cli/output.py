"""Print results on stdout, as prose or one JSON object; progress on stderr, which never fails a command."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.engine.progress import RunProgress


def emit(
    output: str,
    payload: dict[str, Any],
    text: Callable[[bool], str | Sequence[str]],
    *,
    out: Path | None = None,
) -> None:
    """Print a result. No other function prints on stdout, so no name in a result reaches a terminal raw.

    Args:
        output: The value of `--format`: `text` or `json`.
        text: Makes the prose. Called only if prose is wanted, with whether to use colour. Returns lines, in
            which no name can begin another line; or a text whose names are `text.escape.clean` already.
        out: Where the result itself was written. On standard output it is alone: nothing is printed then.
    """
    if is_stdout(out):
        return
    if output == "json":
        import json

        click.echo(json.dumps(payload, sort_keys=True))
    else:
        wants_colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        from agent_eval.text.escape import clean

        colour = sys.stdout.isatty() and wants_colour
        prose = text(colour)
        lines = []
        for line in prose.split("\n") if isinstance(prose, str) else prose:
            # What a terminal would obey is removed, except for the colours of this program.
            pieces = _COLOURS.split(line) if colour else [line]
            pieces[::2] = [clean(piece, limit=_LONGEST) for piece in pieces[::2]]
            lines.append("".join(pieces))
        click.echo("\n".join(lines))


def emit_to(
    out: Path | None, output: str, payload: dict[str, Any], text: Callable[[bool], str | Sequence[str]]
) -> None:
    """Print a result as `emit` does, once it was written to `out` as JSON, where that is named."""
    if out is not None:
        from agent_eval.evidence.derived import write_output
        from agent_eval.storage.json import dumps

        write_output(out, dumps(payload, indent=True))
    emit(output, payload, text, out=out)


def is_stdout(out: Path | None) -> bool:
    """Tell whether an output file is standard output, which then has nothing else."""
    return out is not None and str(out) == "-"


_COLOURS = re.compile("(\x1b\\[(?:0|1|3[123])m)")


_LONGEST = 100_000

SECONDS_BETWEEN_LINES = 5.0


class ProgressPrinter:
    """Prints a run's progress on stderr: a bar on a terminal, otherwise a line every few seconds.

    A context manager. Pass it as `on_progress`.
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._printed_at = time.monotonic()
        self._drawn_columns = 0
        self._noted = 0

    def __call__(self, progress: RunProgress) -> None:
        """Print the progress, unless the last line is too recent; and at once what must be known."""
        for note in progress.notes[self._noted :]:
            print_error(("\n" if self._drawn_columns else "") + note)
        self._noted = len(progress.notes)
        if self._terminal:
            import shutil

            from agent_eval.reports.terminal import progress_bar

            text = progress_bar(progress, shutil.get_terminal_size().columns)
            print_error("\r" + text.ljust(self._drawn_columns), nl=False)
            self._drawn_columns = len(text)
        elif time.monotonic() - self._printed_at >= SECONDS_BETWEEN_LINES:
            from agent_eval.reports.terminal import progress_text

            self._printed_at = time.monotonic()
            print_error(progress_text(progress))

    def __enter__(self) -> ProgressPrinter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn_columns:
            print_error("")


def open_closed_streams() -> None:
    """Open the standard streams that the caller has closed.

    Otherwise the next file that is opened would be standard output or error for every library and child.
    Standard output cannot be written then, which the command reports; what goes to standard error is lost.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)

    def stream(number: int) -> TextIO:
        return io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w", closefd=False)), line_buffering=True)

    sys.stdout, sys.stderr = sys.stdout or stream(1), sys.stderr or stream(2)


def replace_unprintable() -> None:
    """Print escapes for characters that the locale's encoding does not have, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_error(text: str, *, nl: bool = True) -> None:
    """Print on stderr, without what a terminal would obey.

    A full disk or a closed pipe there changes neither what is done nor the exit code.

    A carriage return at the beginning of `text` goes back to the beginning of the line.
    """
    body = text.removeprefix("\r")
    start = text[: len(text) - len(body)]
    if not body.replace("\n", "").isprintable():
        from agent_eval.text.escape import many_lines  # errors that need no cleaning are printed at once

        body = many_lines(body, limit=_LONGEST_ERROR)
    try:
        click.echo(f"{start}{body}", err=True, nl=nl)
    except (OSError, ValueError):
        abandon(sys.stderr)


_LONGEST_ERROR = 1_000_000


def abandon(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that flushing it at exit does not fail again."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, stream.fileno())
        finally:
            os.close(null)
