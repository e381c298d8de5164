"""Regular expressions and globs on RE2, which searches in time linear in the text, whatever the pattern.

Patterns come from suites and schemas, texts from agents: both are hostile, so Python's own engine,
which backtracks without bound, is never used on them.
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
        raise _invalid(pattern, problem) from None


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
            negated = glob.startswith("!", place)
            members = (f"\\{each}" if each in "\\[]^" else each for each in glob[place + negated : end])
            parts.append(f"[{'^' * negated}{''.join(members)}]")
            place = end + 1
        else:
            literal = f"\\{character}" if character in _SPECIAL else character
            parts.append(_WILDCARDS.get(character, literal))
    return compile_pattern(rf"(?s)\A(?:{''.join(parts)})\z")


_WILDCARDS = {"*": ".*", "?": "."}


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


def _invalid(pattern: str, problem: Exception) -> InvalidPattern:
    """Say in the words of RE2 why a pattern cannot run, and what to write instead."""
    detail = problem.args[0] if problem.args else ""
    if isinstance(detail, bytes):
        detail = detail.decode("utf-8", "replace")
    text = clipped(str(detail) or type(problem).__name__, 120)
    lacking = next(((syntax, name) for syntax, name in _NOT_IN_RE2 if syntax in pattern), None)
    remedy = "Correct the pattern; the syntax is at https://github.com/google/re2/wiki/Syntax."
    if lacking is not None:
        syntax, name = lacking
        remedy = f"RE2 has no {name} ({syntax}…); write several patterns, or list the texts that may match."
    elif "invalid escape sequence" in text:
        escape = text.rsplit(" ", 1)[-1]
        remedy = f"RE2 does not know {escape}; see https://github.com/google/re2/wiki/Syntax."
        if escape[-1:].isdigit():
            remedy = "RE2 has no backreferences; write what the group may match a second time."
    elif "repetition size" in text:
        remedy = "RE2 repeats at most 1000 times; use * or + instead of the larger number."
    return InvalidPattern(text, remedy)


_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|(.))", re.DOTALL)


@lru_cache(maxsize=256)
def compile_schema_pattern(pattern: str) -> Any:
    """Compile a pattern from a schema; JavaScript's escapes `\\u00e9` and `\\u{1f600}` are characters.

    All else is read as RE2 reads it: `\\s` is white space of ASCII.

    Example:
        >>> compile_schema_pattern(r"^\\u00e9\\p{L}+$").search("\u00e9t\u00e9") is not None
        True
    """
    return compile_pattern(
        _ESCAPE.sub(lambda match: match[0] if match[3] else rf"\x{{{match[1] or match[2]}}}", pattern)
    )
