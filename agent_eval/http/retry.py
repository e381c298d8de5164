"""How long to wait before the next attempt. Pure functions: the clock and chance are arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

SECONDARY_LIMIT_SECONDS = 60.0
"""The wait after a secondary rate limit that names no time."""

RETRIED_STATUS = frozenset({500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often to try. Seconds, except `attempts`.

    Args:
        attempts: Requests at most, the first included.
        connect_timeout: To open a connection.
        read_timeout: Between two reads.
        transfer_timeout: For one whole answer, so that a drip of bytes cannot hold the job.
        first_wait: Back-off before the second attempt; it doubles each time.
        longest_wait: The longest single wait; asked for more, the request fails at once.
        total_wait: The sum of all waits of one request.
    """

    attempts: int = 5
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    transfer_timeout: float = 600.0
    first_wait: float = 1.0
    longest_wait: float = 90.0
    total_wait: float = 300.0


def is_rate_limit(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a refusal is about too many requests. Some services use 403 for that and for permissions."""
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
    """Seconds the service asks to wait, None when it does not say.

    Args:
        status: HTTP status.
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
    """Seconds before attempt `attempt` + 1: doubling, capped, and spread over its upper half.

    Args:
        attempt: How many attempts were made, from 1.
        patience: Its `first_wait` and `longest_wait`.
        chance: From 0 to 1; spreads jobs that failed together.
    """
    full = min(patience.longest_wait, patience.first_wait * 2.0 ** (attempt - 1))
    return full * (0.5 + chance / 2)
