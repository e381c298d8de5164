"""Hostile text on a terminal."""

from __future__ import annotations

from agent_eval.text.invisible import many_lines, one_line


def clean(text: str, *, limit: int = 10_000, multiline: bool = False) -> str:
    """`text` without what a terminal obeys: escape sequences, controls, direction overrides.

    Args:
        text: Anything.
        limit: At most so many characters are shown; a cut is marked with `…`.
        multiline: Keep line breaks and tabs; otherwise a line break is shown as `⏎`.
    """
    return many_lines(text, limit=limit) if multiline else one_line(text, limit=limit)
