"""When each event of a trace happened, in nanoseconds since 1970, as spans need it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from agent_eval.contracts.event import Event
from agent_eval.contracts.trace import ToolCall

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = 1_000_000


class Times:
    """The times of a trace's events: never before an earlier event's, as the order of the trace says.

    An event without a time has that of the one before it, or is a millisecond later where no event has one.

    Args:
        events: The events of the trace.
        started_at: When the run started, for a trace that says no time.

    Example:
        >>> said = Event(idx=0, actor="agent", type="message", ts="1970-01-01T00:00:01Z", latency_ms=250)
        >>> times = Times([said], "2026-01-01T00:00:00+00:00")
        >>> times.of(said), times.began(said), times.recorded
        (1000000000, 750000000, True)
    """

    def __init__(self, events: Sequence[Event], started_at: str) -> None:
        known = [nanoseconds(event.ts) for event in events]
        self.recorded = any(time is not None for time in known)
        first = next((time for time in known if time is not None), None)
        now = first if first is not None else nanoseconds(started_at) or 0
        self._times: dict[int, int] = {}
        self._before: dict[int, int] = {}
        for event, time in zip(events, known, strict=True):
            self._before[id(event)] = now
            now = max(now, time) if time is not None else now + (0 if self.recorded else _MILLISECOND)
            self._times[id(event)] = now
        self.end = now
        self.start = min(map(self.began, events), default=now)

    def of(self, event: Event) -> int:
        """Return when the event happened."""
        return self._times[id(event)]

    def began(self, event: Event) -> int:
        """Return when the event began by its latency, though not before the event before it."""
        time = self.of(event)
        if event.latency_ms is None:
            return time
        began = time - _span(event.latency_ms)
        before = self._before[id(event)]
        return began if before == time else max(began, before)

    def of_call(self, pair: ToolCall) -> tuple[int, int]:
        """Return when a tool call began and ended."""
        call, result = pair.call, pair.result
        if call is None:
            assert result is not None, "a pair has a call or a result"
            return self.of(result), self.of(result)
        start = self.of(call)
        end = start if result is None else self.of(result)
        latency = next(
            (each.latency_ms for each in (result, call) if each and each.latency_ms is not None), None
        )
        if end == start and latency is not None:
            end = start + _span(latency)
        return start, max(start, end)


def _span(milliseconds: float) -> int:
    return max(0, round(milliseconds * _MILLISECOND))


def nanoseconds(stamp: str | None) -> int | None:
    """Read an ISO 8601 time, as UTC where it has no offset; None if it is missing, wrong or before 1970."""
    if stamp is None:
        return None
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    elapsed = (moment - _EPOCH) // timedelta(microseconds=1) * 1000
    return elapsed if elapsed >= 0 else None
