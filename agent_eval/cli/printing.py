"""What commands print on stdout: prose for a person, one JSON object for a program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click


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
