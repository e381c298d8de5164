"""The `latency_slo` judge: hold a case to limits on time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import groupby
from typing import Annotated

from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Event, ToolCall, Trace, Verdict
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, SoftJudgeConfig, at_events, display_name, listed
from agent_eval.judges.matching.values import exact
from agent_eval.text.numbers import count


class LatencySloConfig(SoftJudgeConfig):
    """Limits in milliseconds. A limit that is not set is not checked; equal to the limit is within it."""

    max_event_latency_ms: float | None = Field(default=None, ge=0)
    """The slowest event."""
    max_total_latency_ms: float | None = Field(default=None, ge=0)
    """All events together: the sum of latencies; if none is recorded, last minus first time stamp."""
    max_p95_latency_ms: float | None = Field(default=None, ge=0)
    """95th percentile over the events, by nearest rank."""
    max_p99_latency_ms: float | None = Field(default=None, ge=0)
    """99th percentile over the events, by nearest rank."""
    max_tool_latency_ms: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """The slowest call of each named tool."""


class LatencySloJudge(BaseJudge[LatencySloConfig]):
    """Compares recorded latencies with limits.

    An event's latency is its `latency_ms`, or the attribute of that name. A tool call's latency is its
    own, its result's, or the time between the two. Where some latencies are recorded, those of other turns
    and results are taken from the time stamps, and so is the time before a tool call of which only the tool's
    latency is recorded; the verdict says how many are. A limit without data is an error verdict, not a pass;
    the limit of a tool that was not called is not checked. The score is the share of limits kept.
    """

    judge_id = "latency_slo"
    reads = frozenset()
    needs_all = False
    Config = LatencySloConfig

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        measured = _measure(trace)
        checks = list(self._event_checks(trace, measured))
        if not checks and not self.config.max_tool_latency_ms:
            return self.skipped(case, "no latency limit is configured")
        checks += self._tool_checks(trace)
        exceeded = [check for check in checks if check.value is not None and check.value > check.limit]
        unknown = [check.name for check in checks if check.value is None]
        failure = FailureKind.BUDGET_EXCEEDED
        evidence = {
            "limits": [
                {"name": check.name, "limit_ms": check.limit, "value_ms": check.value}
                for check in checks[:EVIDENCE_LIMIT]
            ]
        }
        if exceeded:
            words = listed(
                f"{check.name} {check.value:.6g} ms exceeds {check.limit:.6g} ms" for check in exceeded
            )
            words += measured.mixed
            refs = [check.event for check in exceeded if check.event is not None]
            score = 1 - len(exceeded) / len(checks)
            return self.failed(case, words, failure, score=score, refs=refs, evidence=evidence)
        if unknown:
            words = f"no latency is recorded for {listed(unknown)}, so the limit cannot be checked"
            words += at_events(measured.unknown)
            return self.error(case, words, FailureKind.MISSING_OUTPUT, evidence=evidence)
        if not checks:
            return self.skipped(case, "none of the tools with a latency limit was called")
        words = listed(f"{check.name} {check.value:.6g} ms of {check.limit:.6g} ms" for check in checks)
        words += measured.mixed
        return self.passed(case, words, evidence=evidence)

    def _event_checks(self, trace: Trace, measured: _Latencies) -> Iterator[_LatencyCheck]:
        config, ordered = self.config, sorted(measured.known)
        for name, limit, share in (
            ("slowest event", config.max_event_latency_ms, 1.0),
            ("p95", config.max_p95_latency_ms, 0.95),
            ("p99", config.max_p99_latency_ms, 0.99),
        ):
            if limit is None:
                continue
            value: float | None = None
            event: int | None = None
            if ordered:
                # By nearest rank: the smallest value that at least this share of the values do not exceed.
                value, event = ordered[max(0, math.ceil(share * len(ordered)) - 1)]
            # What is not known may be faster than a percentile, but never makes the slowest event faster.
            if measured.unknown and not (share == 1 and value is not None and value > limit):
                value = event = None
            yield _LatencyCheck(name, limit, value, event)
        if (limit := config.max_total_latency_ms) is not None:
            total = _elapsed(trace.events)
            if ordered:
                total = float(sum((exact(value) for value, _ in ordered), Fraction(0)))
                total = None if measured.unknown and total <= limit else total
            yield _LatencyCheck("total", limit, total, None)

    def _tool_checks(self, trace: Trace) -> Iterator[_LatencyCheck]:
        limits = self.config.max_tool_latency_ms
        slowest: dict[str, _LatencyCheck] = {}
        for pair in trace.calls if limits else ():
            if pair.call is None or pair.tool not in limits:
                continue
            value = _call_latency(pair)
            check = slowest.setdefault(
                pair.tool, _LatencyCheck(display_name(pair.tool), limits[pair.tool], value, pair.call.idx)
            )
            # One unknown call leaves the slowest unknown, unless another is known to be too slow.
            if (check.value is not None and value is None and check.value <= check.limit) or (
                value is not None
                and (value > check.value if check.value is not None else value > check.limit)
            ):
                check.value, check.event = value, pair.call.idx
        yield from (slowest[tool] for tool in sorted(slowest))


@dataclass(slots=True)
class _LatencyCheck:
    """One limit with its measured value (None: unknown) and the event that shows the value."""

    name: str
    limit: float
    value: float | None
    event: int | None


def _latency(event: Event) -> float | None:
    """Return the milliseconds that an event took; None if it records no valid latency."""
    value = event.latency_ms if event.latency_ms is not None else event.attributes.get("latency_ms")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    return None


def _call_latency(pair: ToolCall) -> float | None:
    events = [event for event in (pair.call, pair.result) if event is not None]
    recorded = [value for event in events if (value := _latency(event)) is not None]
    return max(recorded) if recorded else _elapsed(events)


@dataclass(slots=True)
class _Latencies:
    """Latencies of a trace as `(milliseconds, event)`, and events of the agent or a tool without any.

    `derived` is how many are taken from time stamps beside recorded ones.
    """

    known: list[tuple[float, int]]
    unknown: list[int]
    derived: int = 0

    @property
    def mixed(self) -> str:
        """Say in brackets that not all latencies are recorded ones; empty where they are."""
        total = count(len(self.known), "latency", "latencies")
        return f" ({self.derived} of {total} taken from time stamps)" if self.derived else ""


def _measure(trace: Trace) -> _Latencies:
    """Collect the latencies; where only some are recorded, take the others from the time stamps.

    One recorded latency must not hide the rest. An agent's turn (its messages and calls in a row) counts as
    recorded if one of its events has a latency, and a tool's result if its call has. Where that is only the
    latency of tools, what the turn took beyond the longest of them is added.
    """
    events = trace.events
    known = [(value, event.idx) for event in events if (value := _latency(event)) is not None]
    if not known or len(known) == len(events):
        return _Latencies(known, [])
    unknown: list[int] = []
    recorded = len(known)
    for first, last, of_tools in _unrecorded(trace):
        value = _elapsed(events[first - 1 : first] + events[last : last + 1])
        if of_tools is not None:
            value = max(0.0, value - of_tools) if value is not None else 0.0
        if value is None:
            unknown.append(events[last].idx)
        elif value or of_tools is None:
            known.append((value, events[last].idx))
    return _Latencies(known, unknown, len(known) - recorded)


def _unrecorded(trace: Trace) -> Iterator[tuple[int, int, float | None]]:
    """Yield the first and last position of turns and results without a latency of their own.

    Of turns in which only tools have one, the third is the longest that a call states; it is None for others.
    """
    own = {id(event): value for event in trace.events if (value := _latency(event)) is not None}
    recorded = {*own}
    for pair in trace.calls:
        events = [event for event in (pair.call, pair.result) if event is not None]
        if any(id(event) in recorded for event in events):
            recorded.update(map(id, events))
    position = 0
    for is_turn, group in groupby(trace.events, key=lambda event: event.is_act):
        events = list(group)
        if is_turn:
            last = position + len(events) - 1
            if not any(id(event) in recorded for event in events):
                yield position, last, None
            elif position and all(event.type == TOOL_CALL for event in events if id(event) in recorded):
                yield position, last, max(own.get(id(event), 0.0) for event in events)
        else:
            for offset, event in enumerate(events):
                if event.type == TOOL_RESULT and id(event) not in recorded:
                    yield position + offset, position + offset, None
        position += len(events)


def _elapsed(events: Sequence[Event]) -> float | None:
    """Return the milliseconds from the first time stamp to the last; None without two that compare."""
    try:
        stamps = [datetime.fromisoformat(event.ts) for event in events if event.ts]
        # Whole microseconds, so that the decimals are those of the time stamps.
        return (max(stamps) - min(stamps)) // timedelta(microseconds=1) / 1000 if len(stamps) > 1 else None
    # Malformed, or some with an offset and some without.
    except (ValueError, TypeError):
        return None
