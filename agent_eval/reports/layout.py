"""The engine of all templates: of markdown, and of the page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

_REPORTS = Path(__file__).parent


class Markdown(Markup):
    """Text that is markdown already, and that a template does not escape."""


@cache
def templates() -> jinja2.Environment:
    """Build the engine, which escapes for HTML and fails where a template names what is not there."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([_REPORTS / "templates", _REPORTS / "html" / "templates"]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
