"""Hostile text on a terminal and in the log of a CI job."""

from __future__ import annotations

import re

from agent_eval.text.invisible import many_lines, one_line

# GitHub's runner obeys `::command::` after any white space and `##[command]` anywhere in a line; Azure's
# and TeamCity's servers have `##vso[` and `##teamcity[`.
_OLD_COMMAND = re.compile(r"##(?=\w*\[)")


def clean(text: str, *, limit: int = 10_000, multiline: bool = False) -> str:
    """`text` without what a terminal obeys, and with what a CI server obeys made harmless.

    Escape sequences, controls and direction overrides are dropped; `::` is shown as `∷`.

    Args:
        text: Anything.
        limit: At most so many characters are shown; a cut is marked with `…`.
        multiline: Keep line breaks and tabs; otherwise a line break is shown as `⏎`.
    """
    shown = many_lines(text, limit=limit) if multiline else one_line(text, limit=limit)
    return _OLD_COMMAND.sub("# #", shown).replace("::", "∷")
