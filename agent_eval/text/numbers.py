"""Shares from 0 to 1 as people read them: in per cent, everywhere written alike."""

from __future__ import annotations

from decimal import Decimal

_MAX_DECIMALS = 4
_MAX_APART = 10
"""Beyond these, a float is no more exact in per cent."""


def percent(share: float | None, *, decimals: int = 1) -> str:
    """A share from 0 to 1 as `87.5%`. Only exactly all is `100%` and only exactly none `0%`."""
    if share is None:
        return "–"
    if share in (0.0, 1.0):
        return f"{share * 100:.0f}%"
    while decimals < _MAX_DECIMALS and float(f"{share * 100:.{decimals}f}") in (0.0, 100.0):
        decimals += 1
    shown = f"{share * 100:.{decimals}f}%"
    return {"0.0000%": "under 0.0001%", "100.0000%": "over 99.9999%"}.get(shown, shown)


def allowed(share: float) -> str:
    """A threshold as the user wrote it, in per cent: `90%`, `2.5%`."""
    return f"{_written(share)}%"


def _written(share: float) -> str:
    """A share as decimal digits in per cent, without the noise of multiplying a float."""
    digits = f"{Decimal(repr(share)) * 100:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def apart(value: float, limit: float) -> int:
    """Decimals with which a measured share in per cent lies on that side of a limit on which it lies."""
    decimals = 1
    while decimals < _MAX_APART and _side(value, limit) != _side(
        round(value * 100, decimals), round(limit * 100, _MAX_APART)
    ):
        decimals += 1
    return decimals


def _side(value: float, limit: float) -> int:
    return (value > limit) - (value < limit)


def margin(share: float) -> str:
    """A margin in points, as the user wrote it, with a decimal at least: `5.0`, `0.25`."""
    shown = _written(share)
    return shown if "." in shown else f"{shown}.0"


def beside(difference: float, limit: float | None) -> str:
    """A difference in points, where there is a limit on that side of it on which it lies."""
    decimals = 1 if limit is None else apart(difference, limit)
    shown = f"{difference * 100:.{decimals}f}"
    return shown if float(shown) else shown.removeprefix("-")


def distance(difference: float, *, decimals: int = 1) -> str:
    """The size of a difference of two shares in points, without its sign: `4.5`."""
    size = abs(difference) * 100
    while decimals < _MAX_DECIMALS and float(f"{size:.{decimals}f}") == 0:
        decimals += 1
    return f"{size:.{decimals}f}"


def differing(one: float | None, other: float | None) -> int:
    """Decimals with which two shares that differ do not look the same in per cent."""
    decimals = 1
    while (
        decimals < _MAX_DECIMALS
        and one != other
        and percent(one, decimals=decimals) == percent(other, decimals=decimals)
    ):
        decimals += 1
    return decimals


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 case`, `3 cases`, `12,000 cases`."""
    return f"{number:,} {verb(number, noun, plural or noun + 's')}"


def verb(number: int, singular: str, plural: str) -> str:
    """The word that goes with `number`: `is` or `are`, `fails` or `fail`."""
    return singular if number == 1 else plural


def of_all(number: int, total: int, noun: str, plural: str = "") -> str:
    """`0 of 1 cases`, `184 of 202 cases`: the noun of a share is plural. What follows goes with `number`."""
    return f"{number:,} of {total:,} {plural or noun + 's'}"
