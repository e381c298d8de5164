"""The `latency_slo` judge: hold a case to limits on time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Annotated

from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Event, Trace, Verdict
from agent_eval.contracts.trace import TOOL_RESULT
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, SoftJudgeConfig, at_events, display_name, listed
from agent_eval.judges.matching.values import exact


class LatencySloConfig(SoftJudgeConfig):
    """Limits in milliseconds. A limit that is not set is not checked; equal to the limit is within it."""

    max_event_latency_ms: float | None = Field(default=None, ge=0)
    """The slowest event."""
    max_total_latency_ms: float | None = Field(default=None, ge=0)
    """All events together: the sum of latencies; where some are not recorded, the agent's time by time stamps
    if that is longer; where none is, last minus first time stamp."""
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
    and results are taken from the time stamps, which the reason says: a tool's latency says nothing of the
    time in which the agent decided to call it. A limit without data is an error verdict, not a pass;
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
                | ({"source": "time stamps"} if check.is_derived else {})
                for check in checks[:EVIDENCE_LIMIT]
            ]
        }
        if exceeded:
            words = listed(f"{check.words} exceeds {check.limit:.6g} ms" for check in exceeded)
            refs = [check.event for check in exceeded if check.event is not None]
            score = 1 - len(exceeded) / len(checks)
            return self.failed(case, words, failure, score=score, refs=refs, evidence=evidence)
        if unknown:
            words = f"no latency is recorded for {listed(unknown)}, so the limit cannot be checked"
            words += at_events(measured.unknown)
            return self.error(case, words, FailureKind.MISSING_OUTPUT, evidence=evidence)
        if not checks:
            return self.skipped(case, "none of the tools with a latency limit was called")
        words = listed(f"{check.words} of {check.limit:.6g} ms" for check in checks)
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
            yield _LatencyCheck(name, limit, value, event, event in measured.derived)
        if (limit := config.max_total_latency_ms) is not None:
            total, is_derived = measured.total(trace.events)
            if measured.unknown and total is not None and total <= limit:
                total = None
            yield _LatencyCheck("total", limit, total, None, is_derived)

    def _tool_checks(self, trace: Trace) -> Iterator[_LatencyCheck]:
        limits = self.config.max_tool_latency_ms
        slowest: dict[str, _LatencyCheck] = {}
        for pair in trace.calls if limits else ():
            if pair.call is None or pair.tool not in limits:
                continue
            events = [event for event in (pair.call, pair.result) if event is not None]
            recorded = [known for event in events if (known := _latency(event)) is not None]
            value = max(recorded) if recorded else _elapsed(events)
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
    """One limit with its measured value (None: unknown) and the event that shows the value.

    `is_derived` says that the value is by time stamps where other latencies of the trace are recorded.
    """

    name: str
    limit: float
    value: float | None
    event: int | None
    is_derived: bool = False

    @property
    def words(self) -> str:
        return f"{self.name} {self.value:.6g} ms{' by time stamps' if self.is_derived else ''}"


def _latency(event: Event) -> float | None:
    """Return the milliseconds that an event took; None if it records no valid latency."""
    value = event.latency_ms if event.latency_ms is not None else event.attributes.get("latency_ms")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    return None


@dataclass(slots=True)
class _Latencies:
    """Latencies of a trace as `(milliseconds, event)`, and events of the agent or a tool without any.

    `derived` are the events of `known` whose latency is by time stamps.
    """

    known: list[tuple[float, int]]
    unknown: list[int] = field(default_factory=list)
    derived: set[int] = field(default_factory=set)

    def total(self, events: Sequence[Event]) -> tuple[float | None, bool]:
        """Return the milliseconds of all events, and whether they are by time stamps beside recorded ones.

        A recorded latency may cover events before it, so it is not added to what time stamps say.
        """
        if not self.known:
            return _elapsed(events), False
        recorded = float(
            sum((exact(value) for value, idx in self.known if idx not in self.derived), Fraction(0))
        )
        if not self.derived:
            return recorded, False
        gaps = (_elapsed(pair) for pair in pairwise(events) if pair[1].actor != "user")
        by_stamps = sum((exact(gap) for gap in gaps if gap is not None), Fraction(0))
        return max(recorded, float(by_stamps)), by_stamps > recorded


def _measure(trace: Trace) -> _Latencies:
    """Collect the latencies; where only some are recorded, take the others from the time stamps.

    One recorded latency must not hide the rest. An agent's turn (its messages and calls in a row) counts as
    recorded if one of its events has a latency of its own, and a tool's result if its call has. A call's
    latency is the tool's where its result has none, or the same.
    """
    events = trace.events
    recorded = {id(event): value for event in events if (value := _latency(event)) is not None}
    measured = _Latencies([(recorded[id(event)], event.idx) for event in events if id(event) in recorded])
    if not recorded:
        return measured
    of_tools = set()
    for call, result in ((id(pair.call), id(pair.result)) for pair in trace.calls if pair.result is not None):
        if call in recorded and recorded.setdefault(result, recorded[call]) == recorded[call]:
            of_tools.add(call)
    # First and last position of the agent's turns and of the tools' results.
    spans: list[tuple[int, int]] = []
    for is_turn, group in groupby(range(len(events)), key=lambda place: events[place].is_act):
        places = list(group)
        results = [(place, place) for place in places if events[place].type == TOOL_RESULT]
        spans += [(places[0], places[-1])] if is_turn else results
    for first, last in spans:
        turn = events[first : last + 1]
        if any(id(event) in recorded and id(event) not in of_tools for event in turn):
            continue
        value = _elapsed(events[first - 1 : first] + events[last : last + 1])
        if value is not None and value > max(recorded.get(id(event), -1) for event in turn):
            measured.known.append((value, events[last].idx))
            measured.derived.add(events[last].idx)
        elif not any(id(event) in recorded for event in turn):
            measured.unknown.append(events[last].idx)
    return measured


def _elapsed(events: Sequence[Event]) -> float | None:
    """Return the milliseconds from the first time stamp to the last; None without two that compare."""
    try:
        stamps = [datetime.fromisoformat(event.ts) for event in events if event.ts]
        # Whole microseconds, so that the decimals are those of the time stamps.
        return (max(stamps) - min(stamps)) // timedelta(microseconds=1) / 1000 if len(stamps) > 1 else None
    # Malformed, or some with an offset and some without.
    except (ValueError, TypeError):
        return None
