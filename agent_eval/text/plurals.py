"""Numbers of things, with the noun and the verb that go with them."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 case`, `3 cases`, `12,000 cases`."""
    return f"{number:,} {verb(number, noun, plural or noun + 's')}"


def verb(number: int, singular: str, plural: str) -> str:
    """The word that goes with `number`: `is` or `are`, `fails` or `fail`."""
    return singular if number == 1 else plural


def of_all(number: int, total: int, noun: str, plural: str = "") -> str:
    """`0 of 1 cases`, `184 of 202 cases`: the noun of a share is plural. What follows goes with `number`."""
    return f"{number:,} of {total:,} {plural or noun + 's'}"
