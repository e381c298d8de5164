"""Waits between attempts. Pure functions: the time and the random number are arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

SECONDARY_LIMIT_SECONDS = 60.0
"""Wait after a secondary rate limit that names no time."""

RETRIED_STATUS = frozenset({500, 502, 503, 504})


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
    return (
        "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or b"secondary rate limit" in body[:4096].lower()
    )


def asked_wait(status: int, headers: Mapping[str, str], *, now: float) -> float | None:
    """Read how many seconds the service asks to wait; None when it names no time.

    Args:
        status: HTTP status.
        headers: Headers with names in lower case.
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
    return SECONDARY_LIMIT_SECONDS if status == 403 else None


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
