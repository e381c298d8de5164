"""Escape hostile text for markdown, for terminals and logs, and for a shell.

Platforms turn text into mentions, issue references, links, images and emoji after the markdown has been
parsed, so escaping single characters is not enough: only code spans and code blocks are left alone. All text
from an agent, a suite or a branch goes through these functions. They show `limit` characters at most, and `…`
in place of the rest.

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

# Words, and punctuation that means nothing to markdown in its place.
_WORD = r"\(?[^\W_]+(?:[_.'’/&+-][^\W_]+)*['’]?[,;:.?)]{0,2}"
# At the start of a line a number with a dot would open a list.
_STARTS = rf"(?!\d+[.)](?: |$)){_WORD}"
_TITLE = re.compile(rf"{_STARTS}(?: (?:{_WORD}|[-–—→]))*")
_IN_A_SENTENCE = re.compile(rf"{_WORD}|[-–—→%=≤≥·×]|…\.?|\(?[+−–-]?\d+(?:[.,]\d+)*%?[,;:.)]{{0,2}}")
_FIRST = re.compile(_STARTS)
# What a platform links by itself: web addresses, issue references (GH-1), commits.
_LINKED = re.compile(r"www\.|\bgh-\d|\b(?=\d*[a-f])[0-9a-f]{7,}\b", re.IGNORECASE)
# Text that a sentence sets as code, with its punctuation; or a word.
_PIECE = re.compile(r"(\(?)`([^`]+)`([,;:.?)]{0,2})(?=\s|$)|(\S+)")
# What becomes code, without the quotation marks around it and the punctuation behind it.
_QUOTED = re.compile(
    r"""(?:(?P<mark>["'])(?P<quoted>(?:(?!(?P=mark)).)+)(?P=mark)|(?P<text>.*[^\W_].*?|.+))(?P<end>[,;:.]?)"""
)
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[A-Za-z0-9._~/?#&=%+,@-]*)?")


def code_span(text: str, *, limit: int = 200) -> str:
    """Set text as inline code that is safe in a paragraph, a heading, a list item and a table cell.

    Line breaks are shown as `⏎`, a pipe as `¦` (a table would split on it even inside code), nothing as
    `∅`; invisible characters are dropped.
    """
    visible = one_line(text, limit=limit).replace("|", "¦")
    ticks = "`" * (1 + _longest_run(visible))
    visible = visible.strip() or "∅"
    # A backtick at an end would count as one of the delimiter's.
    pad = " " if visible.startswith("`") or visible.endswith("`") else ""
    return f"{ticks}{pad}{visible}{pad}{ticks}"


def fence(text: str, *, limit: int = 4000, language: Literal["text", "sh", "json", "diff"] = "text") -> str:
    """Set text as a fenced code block. It starts and ends without a line break and belongs at column 0."""
    visible = many_lines(text, limit=limit)
    ticks = "`" * max(3, 1 + _longest_run(visible))
    return f"{ticks}{language}\n{visible}\n{ticks}"


def plain(text: str, *, limit: int = 120) -> str:
    """Write a title or a name as running text if that is provably inert, else as a code span."""
    visible = one_line(text, limit=limit)
    if _TITLE.fullmatch(visible) and not _LINKED.search(visible):
        return visible.replace("&", "&amp;")
    return code_span(text, limit=limit)


def prose(text: str, *, limit: int = 400, begins_line: bool = True) -> str:
    """Write a sentence that may quote hostile text: inert words stay words, the rest becomes code.

    What `text` sets in backticks is shown as code. After `limit` characters it is cut, which `…` marks.
    Unless it `begins_line`, a number may be first, which elsewhere could open a list.
    """
    pieces: list[str] = []
    loose: list[str] = []

    def close() -> None:
        if loose:
            match = _QUOTED.fullmatch(" ".join(loose))
            assert match is not None
            pieces.append(f"{code_span(match['quoted'] or match['text'], limit=limit)}{match['end']}")
            loose.clear()

    visible = one_line(text, limit=limit)
    if len(text) > limit and visible.count("`") % 2:
        visible += "`"  # it is cut within what stands in backticks
    for opening, code, closing, word in _PIECE.findall(visible):
        if code:
            close()
            pieces.append(f"{opening}{code_span(code, limit=limit)}{closing}")
            continue
        pattern = _FIRST if begins_line and not pieces and not loose else _IN_A_SENTENCE
        if pattern.fullmatch(word) and not _LINKED.search(word):
            close()
            pieces.append(word.replace("&", "&amp;"))
        else:
            loose.append(word)
    close()
    return " ".join(pieces)


def link(words: str, address: str | None, *, limit: int = 500) -> str:
    """Write a link, or `words` alone if `address` is missing, too long or not a plain web address.

    `words` is markdown: a literal, or the result of another function here. `address` is `https://…`.
    """
    return f"[{words}]({address})" if is_web_address(address, limit=limit) else words


def is_web_address(address: str | None, *, limit: int = 500) -> bool:
    """Whether this is a plain web address that may become a link: `https://…`, and not too long."""
    return bool(address) and len(address or "") <= limit and _ADDRESS.fullmatch(address or "") is not None


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


class _Visible(dict[int, int | None]):
    """A `str.translate` table that decides a character when it first meets it."""

    def __missing__(self, code: int) -> int | None:
        visible = None if unicodedata.category(chr(code)) in _INVISIBLE else code
        self[code] = visible
        return visible


_ONE_LINE = _Visible({ord("\n"): ord("⏎"), ord("\r"): ord("⏎"), ord("\t"): ord(" ")})
_MANY_LINES = _Visible({ord("\n"): ord("\n"), ord("\r"): ord("\n"), ord("\t"): ord("\t")})


def one_line(text: str, *, limit: int) -> str:
    """Write text on one line without invisible characters, line breaks shown as `⏎`.

    At most `limit` characters; a cut is marked with `…`.
    """
    # Twice the limit leaves room for what disappears and keeps megabytes from being translated.
    visible = text[: limit * 2].replace("\r\n", "\n").translate(_ONE_LINE)
    return cut(visible, limit, was_cut=len(text) > limit * 2)


def last_line(printed: bytes, *, limit: int) -> str:
    """Return the last line that is not blank of what a program printed, without invisible characters.

    For most programs it says why they failed. It starts with a colon and a space, to follow a clause; empty
    where nothing was printed.

    Example:
        >>> last_line(b"Traceback\\nKeyError: 'refund'\\n\\n", limit=80)
        ": KeyError: 'refund'"
    """
    lines = printed[-4096:].decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    printable = "".join(char if char.isprintable() else " " for char in last)[:limit].strip()
    return f": {printable}" if printable else ""


def many_lines(text: str, *, limit: int) -> str:
    """Remove invisible characters and keep line breaks. Cut as by `one_line`."""
    visible = text[: limit * 2].replace("\r\n", "\n").translate(_MANY_LINES)
    return cut(visible, limit, was_cut=len(text) > limit * 2)


def cut(text: str, limit: int, *, was_cut: bool = False) -> str:
    """Cut text to a number of characters, the last of which is then `…`; it stays as hostile as it is."""
    return text[: max(limit - 1, 0)] + "…" if len(text) > limit or was_cut else text


# Runners obey `::command::` after any white space, and `##[command]`, `##vso[` and `##teamcity[` anywhere in
# a line.
_OLD_COMMAND = re.compile(r"##(?=\w*\[)")


def clean(text: str, *, limit: int = 10_000, multiline: bool = False) -> str:
    """Remove what a terminal obeys, and make harmless what a CI server obeys.

    Escape sequences, controls and direction overrides are dropped; `::` is shown as `∷`.

    With `multiline`, line breaks and tabs are kept; otherwise a line break is shown as `⏎`.
    """
    visible = many_lines(text, limit=limit) if multiline else one_line(text, limit=limit)
    return _OLD_COMMAND.sub("# #", visible).replace("::", "∷")


def shell_word(text: str) -> str:
    """Quote text as one word of any POSIX shell, in which nothing is invisible but a line break at its end.

    Controls and direction overrides, which a terminal or a reader's eye would obey, are written as `printf`'s
    octal escapes: `"$(printf 'a\\033b')"`. `$'a\\x1b'` would be shorter, but only some shells know it.

    NUL cannot be quoted, for no argument of a program can hold it.
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
