"""Escape hostile text for markdown, for terminals and logs, and for a shell.

Platforms turn text into mentions, issue references, links, images and emoji after the markdown has been
parsed, so escaping single characters is not enough: only code spans and code blocks are left alone. All text
from an agent, a suite or a branch goes through these functions.

Example:
    >>> code_span("`rm -rf`")
    '`` `rm -rf` ``'
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from typing import Literal

_BACKTICKS = re.compile(r"`+")

# Words, and punctuation that means nothing to markdown where it stands.
_WORD = r"\(?[^\W_]+(?:[_.'’/&+-][^\W_]+)*[,;:.?)]{0,2}"
# At the start of a line a number with a dot would open a list.
_STARTS = rf"(?!\d+[.)](?: |$)){_WORD}"
_TITLE = re.compile(rf"{_STARTS}(?: (?:{_WORD}|[-–—→]))*")
_IN_A_SENTENCE = re.compile(rf"{_WORD}|[-–—→%=≤≥·×]|\(?[+−–-]?\d+(?:[.,]\d+)*%?[,;:.)]{{0,2}}")
_FIRST = re.compile(_STARTS)
# What a platform links by itself: web addresses, issue references (GH-1), commits.
_LINKED = re.compile(r"www\.|\bgh-\d|\b(?=\d*[a-f])[0-9a-f]{7,}\b", re.IGNORECASE)
# A piece that the writer of a sentence set as code, with its punctuation; or a word.
_PIECE = re.compile(r"(\(?)`([^`]+)`([,;:.?)]{0,2})(?=\s|$)|(\S+)")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[A-Za-z0-9._~/?#&=%+,@-]*)?")


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
    shown = shown.strip() or "∅"
    # A backtick at an end would count as one of the delimiter's.
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def fence(text: str, *, limit: int = 4000, language: Literal["text", "sh", "json"] = "text") -> str:
    """`text` as a fenced code block. It starts and ends without a line break and belongs at column 0.

    Args:
        text: Anything; its line breaks are kept.
        limit: At most so many characters are shown; a cut is marked with `…`.
        language: For syntax colours.
    """
    shown = many_lines(text, limit=limit)
    ticks = "`" * max(3, 1 + _longest_run(shown))
    return f"{ticks}{language}\n{shown}\n{ticks}"


def plain(text: str, *, limit: int = 120) -> str:
    """A title or a name as running text where that is provably inert, else as a code span.

    Args:
        text: Words of whoever set the evaluation up.
        limit: As for `code_span`.
    """
    shown = one_line(text, limit=limit)
    if _TITLE.fullmatch(shown) and not _LINKED.search(shown):
        return shown.replace("&", "&amp;")
    return code_span(text, limit=limit)


def prose(text: str, *, limit: int = 400) -> str:
    """A sentence of ours that may quote others: inert words stay words, the rest becomes code.

    Args:
        text: One sentence or a few. What it sets in backticks is shown as code.
        limit: At most so many characters are shown; a cut is marked with `…`.
    """
    shown: list[str] = []
    loose: list[str] = []

    def close() -> None:
        if loose:
            shown.append(code_span(" ".join(loose), limit=limit))
            loose.clear()

    for opening, code, closing, word in _PIECE.findall(one_line(text, limit=limit)):
        if code:
            close()
            shown.append(f"{opening}{code_span(code, limit=limit)}{closing}")
        elif _stays_a_word(word, first=not shown and not loose):
            close()
            shown.append(word.replace("&", "&amp;"))
        else:
            loose.append(word)
    close()
    return " ".join(shown)


def link(words: str, address: str | None, *, limit: int = 500) -> str:
    """A link, or `words` alone when `address` is missing, too long or not a plain web address.

    Args:
        words: Markdown: a literal, or the result of another function here.
        address: `https://…`.
        limit: A longer address is left out.
    """
    if address and len(address) <= limit and _ADDRESS.fullmatch(address):
        return f"[{words}]({address})"
    return words


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _stays_a_word(word: str, *, first: bool) -> bool:
    pattern = _FIRST if first else _IN_A_SENTENCE
    return pattern.fullmatch(word) is not None and _LINKED.search(word) is None


_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


class _Visible(dict[int, int | None]):
    """A `str.translate` table that decides a character when it first meets it."""

    def __missing__(self, code: int) -> int | None:
        shown = None if unicodedata.category(chr(code)) in _INVISIBLE else code
        self[code] = shown
        return shown


_ONE_LINE = _Visible({ord("\n"): ord("⏎"), ord("\r"): ord("⏎"), ord("\t"): ord(" ")})
_MANY_LINES = _Visible({ord("\n"): ord("\n"), ord("\r"): ord("\n"), ord("\t"): ord("\t")})


def one_line(text: str, *, limit: int) -> str:
    """`text` on one line without invisible characters, line breaks shown as `⏎`.

    At most `limit` characters; what is cut off is shown as `…`.
    """
    # Twice the limit leaves room for what disappears and keeps megabytes from being translated.
    shown = text[: limit * 2].replace("\r\n", "\n").translate(_ONE_LINE)
    return _cut(shown, limit, was_cut=len(text) > limit * 2)


def many_lines(text: str, *, limit: int) -> str:
    """`text` without invisible characters, its line breaks kept. Cut as by `one_line`."""
    shown = text[: limit * 2].replace("\r\n", "\n").translate(_MANY_LINES)
    return _cut(shown, limit, was_cut=len(text) > limit * 2)


def _cut(text: str, limit: int, *, was_cut: bool) -> str:
    if len(text) > limit or was_cut:
        return text[: max(limit - 1, 0)] + "…"
    return text


# Runners obey `::command::` after any white space, and `##[command]`, `##vso[` and `##teamcity[` anywhere in
# a line.
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


def shell_word(text: str) -> str:
    """`text` as one word of any POSIX shell, in which nothing is invisible but a line break at its end.

    What a terminal or a reader's eye would obey (controls, direction overrides) is written as `printf`'s
    octal escapes: `"$(printf 'a\\033b')"`. `$'a\\x1b'` would be shorter, but only some shells know it.

    Args:
        text: Anything but NUL, which no argument of a program can hold.
    """
    # A shell drops line breaks at the end of what a command printed, so they stand behind it.
    body = text.rstrip("\n")
    breaks = text[len(body) :]
    if body.isprintable():
        word = shlex.quote(body) if body or not breaks else ""
    else:
        word = f"\"$(printf '{''.join(map(_escaped, body))}')\""
        if body.startswith("-"):
            word = word.replace("'-", "'\\055", 1)  # else an option of printf
    return f"{word}'{breaks}'" if breaks else word


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "'\\%":
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "replace"))
