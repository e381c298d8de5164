"""Points in time as contracts carry them: ISO 8601 with an offset."""

from __future__ import annotations

from datetime import datetime


def instant(text: str) -> datetime:
    """Read a point in time.

    Raises:
        ValueError: It cannot be read, or it has no offset and so names no point in time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset; write it as 2026-12-01T00:00:00+00:00")
    return moment


def is_over(expires_at: str | None, now: datetime) -> bool:
    """Whether an expiry has passed. None never expires; one that cannot be read has: it excuses nothing."""
    if expires_at is None:
        return False
    try:
        return instant(expires_at) <= now
    except ValueError:
        return True
