"""Write shares from 0 to 1 in per cent, and numbers of things in words."""

from __future__ import annotations

from decimal import Decimal

_MAX_DECIMALS = 4
_MAX_APART = 10
"""Decimals beyond which a float is not exact in per cent."""


def percent(share: float | None, *, decimals: int = 1) -> str:
    """Write a share from 0 to 1 as `87.5%`. Only exactly all is `100%` and only exactly none `0%`.

    Example:
        >>> percent(0.875), percent(0.99999), percent(1.0)
        ('87.5%', '99.999%', '100%')
    """
    if share is None:
        return "–"
    if share in (0.0, 1.0):
        return f"{share * 100:.0f}%"
    while decimals < _MAX_DECIMALS and float(f"{share * 100:.{decimals}f}") in (0.0, 100.0):
        decimals += 1
    text = f"{share * 100:.{decimals}f}%"
    return {"0.0000%": "under 0.0001%", "100.0000%": "over 99.9999%"}.get(text, text)


def allowed(share: float) -> str:
    """Write a threshold in per cent as the user wrote it: `90%`, `2.5%`."""
    return f"{_written(share)}%"


def _written(share: float) -> str:
    """Write a share as decimal digits in per cent, without the noise of multiplying a float."""
    digits = f"{Decimal(repr(share)) * 100:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def apart(value: float, limit: float) -> int:
    """Count the decimals that show on which side of its limit a measured share is."""
    decimals = 1
    while decimals < _MAX_APART and _side(value, limit) != _side(
        round(value * 100, decimals), round(limit * 100, _MAX_APART)
    ):
        decimals += 1
    return decimals


def _side(value: float, limit: float) -> int:
    return (value > limit) - (value < limit)


def margin(share: float) -> str:
    """Write a margin in points as the user wrote it, with a decimal at least: `5.0`, `0.25`."""
    text = _written(share)
    return text if "." in text else f"{text}.0"


def beside(difference: float, limit: float | None) -> str:
    """Write a difference in points, with decimals that show on which side of its limit it is."""
    decimals = 1 if limit is None else apart(difference, limit)
    text = f"{difference * 100:.{decimals}f}"
    return text if float(text) else text.removeprefix("-")


def distance(difference: float, *, decimals: int = 1) -> str:
    """Write the size of a difference of two shares in points, without its sign: `4.5`."""
    size = abs(difference) * 100
    while decimals < _MAX_DECIMALS and float(f"{size:.{decimals}f}") == 0:
        decimals += 1
    return f"{size:.{decimals}f}"


def differing(first: float | None, second: float | None) -> int:
    """Count the decimals with which two shares that differ do not look the same in per cent."""
    decimals = 1
    while (
        decimals < _MAX_DECIMALS
        and first != second
        and percent(first, decimals=decimals) == percent(second, decimals=decimals)
    ):
        decimals += 1
    return decimals


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun: `1 case`, `3 cases`, `12,000 cases`."""
    return f"{number:,} {verb(number, noun, plural or noun + 's')}"


def verb(number: int, singular: str, plural: str) -> str:
    """Choose the word that goes with a number: `is` or `are`, `fails` or `fail`."""
    return singular if number == 1 else plural


def of_all(number: int, total: int, noun: str, plural: str = "") -> str:
    """Write a part of a total: `0 of 1 cases`, `184 of 202 cases`. A verb after it goes with `number`."""
    return f"{number:,} of {total:,} {plural or noun + 's'}"
