"""Hostile text in GitHub-flavoured markdown.

GitHub turns text into mentions, issue references, links, images and emoji after the markdown has been
parsed, so escaping single characters is not enough: what stands in a code span or a code block is the
only text it leaves alone. Everything an agent, a suite or a branch says goes through these functions.
"""

from __future__ import annotations

import re

from agent_eval.text.invisible import many_lines, one_line

_BACKTICKS = re.compile(r"`+")

# Words, and punctuation that means nothing to markdown where it stands.
_WORD = r"\(?[^\W_]+(?:[_.'’/&+-][^\W_]+)*[,;:.?)]{0,2}"
_INERT = re.compile(rf"(?=[^\W\d_]){_WORD}(?: (?:{_WORD}|[-–—→]))*")
# What GitHub links by itself: web addresses, issue references (GH-1), commits.
_LINKED = re.compile(r"www\.|\bgh-\d|\b[0-9a-f]{7,}\b", re.IGNORECASE)


def code_span(text: str, *, limit: int = 200) -> str:
    """`text` as inline code that holds in a paragraph, a heading, a list item and a table cell.

    Line breaks are shown as `⏎`, a pipe as `¦` (a table would split on it even inside code), nothing as
    `∅`; invisible characters are dropped.

    Args:
        text: Anything.
        limit: At most so many characters are shown; a cut is marked with `…`.
    """
    shown = one_line(text, limit=limit).replace("|", "¦")
    ticks = "`" * (1 + _longest_run(shown))
    return f"{ticks} {shown.strip() or '∅'} {ticks}"


def fence(text: str, *, limit: int = 4000) -> str:
    """`text` as a fenced code block. It starts and ends without a line break and belongs at column 0.

    Args:
        text: Anything; its line breaks are kept.
        limit: At most so many characters are shown; a cut is marked with `…`.
    """
    shown = many_lines(text, limit=limit)
    ticks = "`" * max(3, 1 + _longest_run(shown))
    return f"{ticks}text\n{shown}\n{ticks}"


def plain(text: str, *, limit: int = 120) -> str:
    """A title or a name as running text where that is provably inert, else as a code span.

    Args:
        text: Words of whoever set the evaluation up.
        limit: As for `code_span`.
    """
    shown = one_line(text, limit=limit)
    if _INERT.fullmatch(shown) and not _LINKED.search(shown):
        return shown.replace("&", "&amp;")
    return code_span(text, limit=limit)


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
