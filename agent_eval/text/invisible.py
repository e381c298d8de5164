"""Characters that are never shown but change what is: controls, direction overrides, zero-width marks."""

from __future__ import annotations

import unicodedata

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
