"""People, places, times and amounts of the scenarios."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, timedelta
from typing import Any

FIRST = (
    "Amara",
    "Bjorn",
    "Chiara",
    "Dev",
    "Elif",
    "Farid",
    "Grace",
    "Hanna",
    "Ivan",
    "Jun",
    "Katarzyna",
    "Lucas",
    "Mei",
    "Nadia",
    "Oscar",
    "Priya",
    "Quentin",
    "Rosa",
    "Samuel",
    "Tomoko",
)
LAST = (
    "Abbott",
    "Bianchi",
    "Castro",
    "Dubois",
    "Eriksen",
    "Fischer",
    "Gupta",
    "Haddad",
    "Ito",
    "Jansen",
    "Kowalski",
    "Lindqvist",
    "Moreau",
    "Novak",
    "Okafor",
    "Petrov",
    "Romero",
    "Silva",
    "Tanaka",
    "Weber",
)
TODAY = date(2026, 3, 16)
"""The day on which every scenario takes place."""

NOON = datetime(2026, 3, 16, 12, 0, tzinfo=UTC)


def person(rng: random.Random) -> tuple[str, str]:
    """Choose a name, and the e-mail address that goes with it."""
    first, last = rng.choice(FIRST), rng.choice(LAST)
    return f"{first} {last}", f"{first}.{last}@example.com".lower()


def digits(rng: random.Random, prefix: str, number: int) -> str:
    """Choose an id of a prefix and a number of digits, none of which is a leading zero."""
    return f"{prefix}{rng.randrange(10 ** (number - 1), 10**number)}"


def day(offset: int) -> str:
    """Return a day as ISO 8601, counted from today."""
    return (TODAY + timedelta(days=offset)).isoformat()


def words_of(amount: float) -> str:
    """Write an amount with two decimals."""
    return f"{amount:.2f}"


def as_json(value: Any) -> str:
    """Write an answer that is JSON."""
    return json.dumps(value, ensure_ascii=False)
