"""Patterns of JSON Schema, which are written in the dialect of ECMA-262, for RE2.

The dialects agree on most of what schemas use. They differ in what `\\s`, `\\S` and `.` match, in
`\\uXXXX`, `\\cX` and `\\0`, in the long names of Unicode properties (`\\p{Letter}`), and in the classes `[]`
and `[^]`. Those are rewritten; everything else passes as it is, and RE2 refuses what it has not:
lookaround and backreferences.
"""

from __future__ import annotations

import re

_LAST = 0x10FFFF

# WhiteSpace and LineTerminator of ECMA-262, as inclusive ranges of code points.
_SPACE = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)


def _class_items(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


def _between(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), _LAST]
    return tuple(zip(starts, ends, strict=True))


_CLASS_OF = {"s": _class_items(_SPACE), "S": _class_items(_between(_SPACE))}
_REPLACED = {
    ".": r"[^\n\r\x{2028}\x{2029}]",
    "[^]": rf"[\x{{0}}-\x{{{_LAST:x}}}]",
    "[]": rf"[^\x{{0}}-\x{{{_LAST:x}}}]",
}

_LONG_NAMES = {
    "Letter": "L",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm",
    "Other_Letter": "Lo",
    "Mark": "M",
    "Combining_Mark": "M",
    "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me",
    "Number": "N",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Letter_Number": "Nl",
    "Other_Number": "No",
    "Punctuation": "P",
    "punct": "P",
    "Connector_Punctuation": "Pc",
    "Dash_Punctuation": "Pd",
    "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe",
    "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po",
    "Symbol": "S",
    "Math_Symbol": "Sm",
    "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk",
    "Other_Symbol": "So",
    "Separator": "Z",
    "Space_Separator": "Zs",
    "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp",
    "Other": "C",
    "Control": "Cc",
    "cntrl": "Cc",
    "Format": "Cf",
    "Surrogate": "Cs",
    "Private_Use": "Co",
}

# Alternatives in order: an escape of any length, the class that nothing or anything is in, one character.
_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}"
    r"|\\c[A-Za-z]|\\0(?![0-9])"
    # Bounded: without end, a pattern of nothing but openings would be read through once for each.
    r"|\\[pP]\{[^}]{0,100}\}"
    r"|\\.|\[\^\]|\[\]|.",
    re.DOTALL,
)


def to_re2(pattern: str) -> str:
    """The same pattern in RE2's dialect. Never raises: what cannot be said RE2 refuses itself."""
    parts: list[str] = []
    in_class = False
    for piece in _PIECE.findall(pattern):
        if piece[0] == "\\" and len(piece) > 1:
            parts.append(_escape(piece, in_class))
        elif in_class:
            # RE2 reads "[:" within a class as the start of a POSIX name; to ECMA it is a bracket.
            parts.append(piece.replace("[", "\\["))
            in_class = not piece.endswith("]")
        else:
            parts.append(_REPLACED.get(piece, piece))
            in_class = piece == "["
    return "".join(parts)


def _escape(piece: str, in_class: bool) -> str:
    kind, rest = piece[1], piece[2:]
    if kind == "u" and rest:
        return f"\\x{{{_code_point(piece):x}}}"
    if kind == "c" and rest:
        return f"\\x{{{ord(rest) % 32:x}}}"
    if kind == "0":
        return "\\x{0}"
    if kind in "pP" and rest:
        name = rest[1:-1].rpartition("=")[2]
        return f"\\{kind}{{{_LONG_NAMES.get(name, name)}}}"
    if kind in _CLASS_OF:
        return _CLASS_OF[kind] if in_class else f"[{_CLASS_OF[kind]}]"
    if kind == "b" and in_class:
        return "\\x{8}"
    return piece


def _code_point(piece: str) -> int:
    digits = re.findall("[0-9a-fA-F]{1,6}", piece.replace("\\u", " "))
    if len(digits) == 2:
        high, low = (int(part, 16) for part in digits)
        return 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)
    return int(digits[0], 16)
