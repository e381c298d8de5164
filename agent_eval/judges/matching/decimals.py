"""Numbers as the decimals that were written: compared without rounding, read whole or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from agent_eval.judges.base import clipped, quoted

Number = int | float | Decimal


def exact(number: Number) -> Fraction:
    """Turn a number of JSON or of a configuration into the decimal that was written, without rounding."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def is_within(expected: Number, actual: Number, tolerance: float) -> bool:
    """Tell whether two numbers differ by at most `tolerance`, as the decimals that were written.

    Example:
        >>> is_within(19.9, 19.91, 0.01), abs(19.9 - 19.91) <= 0.01
        (True, False)
    """
    if expected == actual:
        return True
    return abs(exact(expected) - exact(actual)) <= exact(tolerance)


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A number as a text has it; `value` is None if the text there cannot be read as one decimal."""

    text: str
    value: Decimal | None

    def in_words(self) -> str:
        """Return the number, or the text that cannot be read as one."""
        if self.value is None:
            return f"{quoted(self.text)}, which cannot be read as one number"
        return clipped(str(self.value), 40)


def last_number(text: str) -> WrittenNumber | None:
    """Return the last number in a text; None if it has none.

    A number is a decimal with an optional sign, exponent and separators of thousands: -7, 1,234.50, 6e-3. It
    is read as a whole: `3-5`, `12:30`, `1,5` and `5kg` are no single decimals, so they have no value. A word
    with a digit in it, such as `gpt4`, is a word.

    Example:
        >>> last_number("It costs $1,234.50, says gpt4.").value
        Decimal('1234.50')
    """
    joined = _DASH_AFTER_A_WORD.sub(" ", _SPACE_OF_THOUSANDS.sub("", text))
    for token in reversed(_find_tokens(joined)):
        label = _LABEL.match(token)
        written = token[label.end() if label else 0 :].strip(_EDGES).rstrip(".,")
        if _HAS_DIGIT(written) and not written[0].isalpha():
            return WrittenNumber(written, _read(written))
    return None


def _read(written: str) -> Decimal | None:
    # Bounded, because exact arithmetic with 1e999999999 would need a gigabyte.
    match = _NUMBER.fullmatch(written) if len(written) <= _LONGEST else None
    if match is None or len(match["exponent"] or "") > _LONGEST_EXPONENT:
        return None
    return Decimal(_SEPARATORS.sub("", written).replace("\N{MINUS SIGN}", "-"))


_LONGEST = 400
_LONGEST_EXPONENT = 3

_EDGES = "'\u2019:,_"
"""What may surround a number without being part of it; a full stop may only follow."""

_NUMBER = re.compile(
    r"[-+\N{MINUS SIGN}]?"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:['\u2019][0-9]{3})+|[0-9]+|(?=\.))"
    r"(?:\.[0-9]+)?(?:[eE][-+]?0*(?P<exponent>[0-9]+))?"
)
_SEPARATORS = re.compile("[,'\u2019]")
_SPACE_OF_THOUSANDS = re.compile("(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))")
_DASH_AFTER_A_WORD = re.compile(r"(?<=[^\W\d])\N{EM DASH}")
_LABEL = re.compile(r"[^\W\d]\w*:")
_HAS_DIGIT = re.compile("[0-9]").search
# Everything that can be between a number and its neighbours; what is left over may be part of a number.
_find_tokens = re.compile(
    r"[^\s()\[\]{}<>\"\u201c\u201d\u2018`=;|$\u20ac\xa3\xa5%\xb0*~#\u2026!?\\]+"
).findall
