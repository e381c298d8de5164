"""Waits between attempts. Pure functions: the time and the random number are arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

SECONDARY_LIMIT_SECONDS = 60.0
"""Wait after a secondary rate limit that names no time."""

RETRIED_STATUS = frozenset({500, 502, 503, 504})

_LIMIT_WORDS = (b"rate limit", b"abuse detection")
"""What the body of a 403 says where its fields do not show that it limits requests."""

_LONGEST_STATED = timedelta(days=36_525).total_seconds()


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits on the attempts at a request and on the waits between them; all in seconds but `attempts`.

    Args:
        attempts: Maximum number of attempts, the first included.
        connect_timeout: Limit for opening a connection.
        read_timeout: Limit between two reads.
        transfer_timeout: Limit for one whole answer, so that a slow drip of bytes cannot block the job.
        first_wait: Wait before the second attempt; it doubles each time.
        longest_wait: Longest single wait. A request fails at once when the service asks for a longer one.
        total_wait: Maximum sum of all waits of one request.

    Example:
        >>> [backoff(attempt, Patience(longest_wait=5.0), chance=1.0) for attempt in (1, 2, 3, 4)]
        [1.0, 2.0, 4.0, 5.0]
    """

    attempts: int = 5
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    transfer_timeout: float = 600.0
    first_wait: float = 1.0
    longest_wait: float = 90.0
    total_wait: float = 300.0


def is_rate_limit(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Tell whether the service refused for too many requests. Some use 403 for that and for permissions."""
    if status == 429:
        return True
    if status != 403:
        return False
    text = body[:4096].lower()
    return (
        "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or any(words in text for words in _LIMIT_WORDS)
    )


def asked_wait(status: int, headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds the service asks to wait, None when it does not say.

    Args:
        status: HTTP status.
        headers: Field names in lower case.
        now: Seconds since 1970.
    """
    stated = stated_wait(headers, now=now)
    return SECONDARY_LIMIT_SECONDS if stated is None and status == 403 else stated


def stated_wait(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds that the fields of an answer name, None when they name none.

    Args:
        headers: Field names in lower case.
        now: Seconds since 1970.
    """
    stated = headers.get("retry-after", "").strip()
    if stated:
        seconds = _retry_after(stated, now)
        if seconds is not None:
            return seconds
    if headers.get("x-ratelimit-remaining") == "0":
        reset = headers.get("x-ratelimit-reset", "")
        if reset.isascii() and reset.isdigit() and len(reset) <= 12:
            return max(0.0, int(reset) - now) + 1.0
    return None


def end_of_limit(seconds: float | None, *, now: float) -> str:
    """Say until when requests are limited, as the end of a sentence.

    Example:
        >>> end_of_limit(600.0, now=0.0)
        'until 1970-01-01 00:10 UTC, for 10 minutes'

    Args:
        seconds: That the service asks to wait; None where it does not say.
        now: Seconds since 1970.
    """
    if seconds is None or seconds > _LONGEST_STATED:
        return "and does not say until when"
    minutes = max(1, math.ceil(seconds / 60))
    end = datetime.fromtimestamp(now + seconds, UTC)
    if end.second or end.microsecond:
        end += timedelta(minutes=1)
    return f"until {end:%Y-%m-%d %H:%M} UTC, for {minutes:,} minute{'s' * (minutes != 1)}"


def _retry_after(stated: str, now: float) -> float | None:
    if stated.isascii() and stated.isdigit():
        return float(stated[:12])
    try:
        at = parsedate_to_datetime(stated)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)


def backoff(attempt: int, patience: Patience, chance: float) -> float:
    """Compute the seconds to wait before the next attempt: doubling, capped, and spread over the upper half.

    Args:
        attempt: Number of attempts made, from 1.
        patience: `first_wait` and `longest_wait` count.
        chance: Random number from 0 to 1, so that jobs that failed together do not return together.
    """
    full = min(patience.longest_wait, patience.first_wait * 2.0 ** (attempt - 1))
    return full * (0.5 + chance / 2)
