"""Standard streams: make closed ones harmless, and print on stderr without ever failing for it."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO

import click


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
    sys.stdout = sys.stdout or _stream(1)
    sys.stderr = sys.stderr or _stream(2)


def _stream(number: int) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w", closefd=False)), line_buffering=True)


def replace_unprintable() -> None:
    """Print escapes for characters that the locale's encoding does not have, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_error(text: str, *, nl: bool = True) -> None:
    """Print on stderr, without what a terminal would obey.

    A full disk or a closed pipe there changes neither what is done nor the exit code.

    Args:
        text: The text; a carriage return at its beginning goes back to the beginning of the line.
        nl: Whether to end the line.
    """
    body = text.removeprefix("\r")
    start = text[: len(text) - len(body)]
    if not body.replace("\n", "").isprintable():
        from agent_eval.text.escape import many_lines  # errors that need no cleaning are printed at once

        body = many_lines(body, limit=_LONGEST)
    try:
        click.echo(f"{start}{body}", err=True, nl=nl)
    except (OSError, ValueError):
        abandon(sys.stderr)


_LONGEST = 1_000_000


def abandon(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that flushing it at exit does not fail again."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, stream.fileno())
        finally:
            os.close(null)
