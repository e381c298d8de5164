"""Waits between attempts. Pure functions: the time and the random number are arguments."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

RETRIED_STATUS = frozenset({500, 502, 503, 504})
_SECONDARY_LIMIT_SECONDS = 60.0  # waited after a limit that names no time
_REMAINING = re.compile(r"ratelimit-(?:\w+-)*remaining\b")
_TIME = re.compile(
    r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6}(?:\.\d+)?)s)?(?:(\d{1,6}(?:\.\d+)?)ms)?", re.ASCII
)
_UNITS = (3600.0, 60.0, 1.0, 0.001)
_LONGEST_STATED = timedelta(days=36_525).total_seconds()


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits on the attempts at a request and on the waits between them; all in seconds but `attempts`."""

    attempts: int = 5
    connect_timeout: float = 10.0
    read_timeout: float = 60.0  # between two reads
    transfer_timeout: float = 600.0  # for one whole answer, so that a slow drip of bytes cannot block the job
    first_wait: float = 1.0  # doubles each time
    longest_wait: float = 90.0  # a request fails at once when the service asks for a longer one
    total_wait: float = 300.0


def is_rate_limit(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Tell whether the service refused for too many requests. Some use 403 for that and for permissions."""
    named = b"rate limit" in body[:4096].lower() or b"abuse detection" in body[:4096].lower()
    counted = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return status == 429 or (status == 403 and (counted or named))


def asked_wait(status: int, headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds the service asks to wait, None when it does not say. Field names are in lower case."""
    stated = stated_wait(headers, now=now)
    return _SECONDARY_LIMIT_SECONDS if stated is None and status == 403 else stated


def stated_wait(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds that the fields of an answer name, None when they name none that make sense.

    `retry-after-ms` and `retry-after`, else the latest end of a limit that is used up: `x-ratelimit-reset`,
    `x-ratelimit-reset-tokens` of OpenAI, `anthropic-ratelimit-tokens-reset` of Anthropic, and the like.
    """
    milliseconds = headers.get("retry-after-ms", "")
    if milliseconds.isascii() and milliseconds.isdigit() and len(milliseconds) < 12:
        return int(milliseconds) / 1000
    stated = headers.get("retry-after", "").strip()
    if stated.isascii() and stated.isdigit():
        return float(stated[:12])
    try:
        at = parsedate_to_datetime(stated)
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        pass
    used_up = [name for name, count in headers.items() if count == "0" and _REMAINING.search(name)]
    ends = [_until(headers.get(name.replace("remaining", "reset"), ""), now) for name in used_up]
    return max((end for end in ends if end is not None), default=None)


def _until(stated: str, now: float) -> float | None:
    """Read the end of a limit as seconds from now: seconds since 1970, a date, or a time such as `6m0s`."""
    if stated.isascii() and stated.isdigit() and len(stated) <= 12:
        return max(0.0, int(stated) - now) + 1.0 if len(stated) > 8 else float(stated)
    if stated and (parts := _TIME.fullmatch(stated)):
        return sum(float(part or 0) * unit for part, unit in zip(parts.groups(), _UNITS, strict=True))
    try:
        at = datetime.fromisoformat(stated)
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def end_of_limit(seconds: float | None, *, now: float) -> str:
    """Say until when requests are limited, as the end of a sentence; `seconds` as `stated_wait` returns."""
    if seconds is None or seconds > _LONGEST_STATED:
        return "and does not say until when"
    minutes = max(1, math.ceil(seconds / 60))
    end = datetime.fromtimestamp(math.ceil((now + seconds) / 60) * 60, UTC)
    return f"until {end:%Y-%m-%d %H:%M} UTC, for {minutes:,} minute{'s' * (minutes != 1)}"


def backoff(attempt: int, patience: Patience, chance: float) -> float:
    """Compute the seconds to wait before the next attempt: doubling, capped, and spread over the upper half.

    `attempt` is the number of attempts made, from 1. `chance`, from 0 to 1, keeps jobs that failed together
    from returning together.
    """
    full = min(patience.longest_wait, patience.first_wait * 2.0 ** (attempt - 1))
    return full * (0.5 + chance / 2)
