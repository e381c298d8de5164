"""Regular expressions and globs on RE2, which searches in time linear in the text, whatever the pattern.

Patterns come from suites and schemas, texts from agents: both are hostile, so Python's own engine,
which backtracks without bound, is never used on them. `to_re2` translates patterns from the dialect of JSON
Schema (ECMA-262) to RE2's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import re2
from pydantic import AfterValidator

from agent_eval.judges.base import VisibleText, clipped, quoted
from agent_eval.judges.reading import refusal

_PATTERN_LIMIT = 20_000
"""Maximum number of characters in a pattern; a longer text is a list of words, not a pattern."""

_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
"""Characters that do not match themselves in a pattern."""

_NOT_IN_RE2 = (
    ("(?=", "lookahead"),
    ("(?!", "lookahead"),
    ("(?<=", "lookbehind"),
    ("(?<!", "lookbehind"),
    ("(?>", "atomic groups"),
    ("(?P=", "backreferences"),
)


class InvalidPattern(ValueError):
    """A pattern that RE2 cannot run. `remedy` says what to write instead."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@lru_cache(maxsize=512)  # a compiled pattern takes some 8 KB
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern for RE2; `.search(text)` searches anywhere in the text. Groups capture nothing.

    Searching `text.encode()` is faster: RE2's wrapper then need not translate positions.

    Raises:
        InvalidPattern: Malformed, longer than 20,000 characters, or using syntax that RE2 lacks.
    """
    if len(pattern) > _PATTERN_LIMIT:
        raise InvalidPattern(
            f"the pattern has {len(pattern)} characters, more than {_PATTERN_LIMIT}",
            "Split it into several shorter patterns.",
        )
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as problem:
        raise InvalidPattern(_explanation(problem), _remedy(pattern, problem)) from None


@lru_cache(maxsize=512)
def compile_glob(glob: str) -> Any:
    """Compile a glob for RE2; `.search(text)` succeeds if the glob matches the whole text.

    `*` is any text, `?` any character, `[abc]` one character of a set, `[!abc]` one that is not in the
    set. Every other character matches itself.

    Example:
        >>> compile_glob("items.*.id").search("items.3.id") is not None
        True
    """
    parts, place = [], 0
    while place < len(glob):
        character = glob[place]
        place += 1
        end = glob.find("]", place + 1 + glob.startswith("!", place)) if character == "[" else -1
        if end >= 0:
            parts.append(_character_class(glob[place:end]))
            place = end + 1
        else:
            literal = f"\\{character}" if character in _SPECIAL else character
            parts.append(_WILDCARDS.get(character, literal))
    return compile_pattern(rf"(?s)\A(?:{''.join(parts)})\z")


_WILDCARDS = {"*": ".*", "?": "."}


def _character_class(members: str) -> str:
    negated = members.startswith("!")
    escaped = "".join(f"\\{member}" if member in "\\[]^" else member for member in members[negated:])
    return f"[{'^' * negated}{escaped}]"


def is_found(pattern: str, text: bytes) -> bool:
    """Whether a pattern matches anywhere in UTF-8 text.

    A pattern without special characters, often an id that only one case has, is searched for as plain
    text, because that is cheaper than compiling it.
    """
    if _is_literal(pattern):
        return pattern.encode() in text
    return compile_pattern(pattern).search(text) is not None


def _is_literal(pattern: str) -> bool:
    return pattern.isascii() and pattern.isprintable() and _SPECIAL.isdisjoint(pattern)


def check_pattern(pattern: str, *, case_id: str, field: str) -> None:
    """Refuse a pattern that RE2 cannot run."""
    if _is_literal(pattern) and len(pattern) <= _PATTERN_LIMIT:
        return
    try:
        compile_pattern(pattern)
    except InvalidPattern as problem:
        words = f"{field} is not a usable pattern, {problem}: {quoted(pattern, 80)}"
        raise refusal(case_id, field, words, problem.remedy) from None


def refuse_unusable(compile_text: Callable[[str], Any], text: str) -> None:
    """Refuse a pattern or glob of a configuration with a ValueError, as a validator of pydantic does."""
    try:
        compile_text(text)
    except InvalidPattern as problem:
        raise ValueError(f"{quoted(text)}: {problem}; {problem.remedy}") from None


def _usable_patterns(patterns: list[str]) -> list[str]:
    for pattern in patterns:
        try:
            # In a group, as judges compile it: one with an open quote (`\Q`) would take in what follows.
            compile_pattern(f"(?is:{pattern})")
        except InvalidPattern as problem:
            raise ValueError(f"{problem}; {problem.remedy}") from None
    return patterns


def _usable_globs(globs: list[str]) -> list[str]:
    for glob in globs:
        refuse_unusable(compile_glob, glob)
    return globs


Patterns = Annotated[list[VisibleText], AfterValidator(_usable_patterns)]
"""Patterns of a configuration that RE2 can run without regard to case."""
Globs = Annotated[list[str], AfterValidator(_usable_globs)]
"""Globs of a configuration, each of which can be compiled."""


def _explanation(problem: Exception) -> str:
    detail = problem.args[0] if problem.args else ""
    if isinstance(detail, bytes):
        detail = detail.decode("utf-8", "replace")
    return clipped(str(detail) or type(problem).__name__, 120)


def _remedy(pattern: str, problem: Exception) -> str:
    for syntax, name in _NOT_IN_RE2:
        if syntax in pattern:
            return f"RE2 has no {name} ({syntax}…); write several patterns, or list the texts that may match."
    text = _explanation(problem)
    if "invalid escape sequence" in text:
        escape = text.rsplit(" ", 1)[-1]
        if escape[-1:].isdigit():
            return "RE2 has no backreferences; write what the group may match a second time."
        return f"RE2 does not know {escape}; see https://github.com/google/re2/wiki/Syntax."
    if "repetition size" in text:
        return "RE2 repeats at most 1000 times; use * or + instead of the larger number."
    return "Correct the pattern; the syntax is at https://github.com/google/re2/wiki/Syntax."


@lru_cache(maxsize=256)
def compile_schema_pattern(pattern: str) -> Any:
    """Compile a pattern from a schema, which is written in the dialect of ECMA-262."""
    return compile_pattern(to_re2(pattern))


_LAST_CODE_POINT = 0x10FFFF

_SPACES = "9-d 20-20 a0-a0 1680-1680 2000-200a 2028-2029 202f-202f 205f-205f 3000-3000 feff-feff"
_SPACE = tuple((int(span.split("-")[0], 16), int(span.split("-")[1], 16)) for span in _SPACES.split())
"""WhiteSpace and LineTerminator of ECMA-262, as inclusive ranges of code points."""


def _class_items(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


def _between(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), _LAST_CODE_POINT]
    return tuple(zip(starts, ends, strict=True))


_CLASS_OF = {"s": _class_items(_SPACE), "S": _class_items(_between(_SPACE))}
_REPLACED = {
    ".": r"[^\n\r\x{2028}\x{2029}]",
    "[^]": rf"[\x{{0}}-\x{{{_LAST_CODE_POINT:x}}}]",
    "[]": rf"[^\x{{0}}-\x{{{_LAST_CODE_POINT:x}}}]",
}

_CATEGORIES = (
    "Letter=L Uppercase_Letter=Lu Lowercase_Letter=Ll Titlecase_Letter=Lt Modifier_Letter=Lm "
    "Other_Letter=Lo Mark=M Combining_Mark=M Nonspacing_Mark=Mn Spacing_Mark=Mc Enclosing_Mark=Me "
    "Number=N Decimal_Number=Nd digit=Nd Letter_Number=Nl Other_Number=No Punctuation=P punct=P "
    "Connector_Punctuation=Pc Dash_Punctuation=Pd Open_Punctuation=Ps Close_Punctuation=Pe "
    "Initial_Punctuation=Pi Final_Punctuation=Pf Other_Punctuation=Po Symbol=S Math_Symbol=Sm "
    "Currency_Symbol=Sc Modifier_Symbol=Sk Other_Symbol=So Separator=Z Space_Separator=Zs "
    "Line_Separator=Zl Paragraph_Separator=Zp Other=C Control=Cc cntrl=Cc Format=Cf Surrogate=Cs "
    "Private_Use=Co"
)
"""General categories of Unicode by their long names: RE2 knows only the short ones."""
_LONG_NAMES = dict(pair.split("=") for pair in _CATEGORIES.split())

# Alternatives in order: escapes, from the longest on; the classes of every and of no character; a character.
_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}"
    r"|\\c[A-Za-z]|\\0(?![0-9])"
    # Bounded: otherwise a pattern of nothing but opening braces would take quadratic time.
    r"|\\[pP]\{[^}]{0,100}\}"
    r"|\\.|\[\^\]|\[\]|.",
    re.DOTALL,
)


def to_re2(pattern: str) -> str:
    """Translate a pattern to RE2's dialect. Never raises: RE2 itself refuses what it cannot express.

    Example:
        >>> to_re2(r"^\\u00e9\\p{Letter}+$")
        '^\\\\x{e9}\\\\p{L}+$'
    """
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
