"""Judges that hold a case to budgets: `cost_budget` for tokens and money, `latency_slo` for time."""

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
from agent_eval.contracts.trace import TOOL_RESULT
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    SoftJudgeConfig,
    at_events,
    display_name,
    listed,
    quoted,
)
from agent_eval.judges.matching.decimals import exact
from agent_eval.judges.matching.usage import Spent, Usage, moment, spent
from agent_eval.models.usage import price_of


class CostBudgetConfig(SoftJudgeConfig):
    """Limits on tokens and cost. A limit that is not set is not checked; equal to the limit is within it."""

    max_input_tokens: int | None = Field(default=None, ge=0)
    """Tokens sent to models, cached ones included."""
    max_output_tokens: int | None = Field(default=None, ge=0)
    """Tokens in the models' answers."""
    max_total_tokens: int | None = Field(default=None, ge=0)
    """Input and output tokens together."""
    max_cost_usd: float | None = Field(default=None, ge=0)
    """US dollars."""
    input_cost_per_1k: float | None = Field(default=None, ge=0)
    """US dollars for 1,000 input tokens of any model; replaces published prices."""
    output_cost_per_1k: float | None = Field(default=None, ge=0)
    """US dollars for 1,000 output tokens of any model; replaces published prices."""


class CostBudgetJudge(BaseJudge[CostBudgetConfig]):
    """Compares tokens and cost of a case with limits.

    Figures come from event attributes and the case's metadata; usage repeated for one answer counts
    once (`usage.spent`). If no cost is recorded, the judge prices the tokens: by the configured prices if
    both are set, else by those that `genai-prices` publishes for the model and day. A figure that has a
    limit and is unknown is an error verdict, never 0. The score is the share of limits kept.
    """

    judge_id = "cost_budget"
    reads = frozenset()
    Config = CostBudgetConfig

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        limits = {
            figure: limit
            for figure, key in _LIMIT_KEYS.items()
            if (limit := getattr(self.config, key)) is not None
        }
        if not limits:
            return self.skipped(case, "no cost or token budget is configured")
        used = spent(case, trace, self._price if "cost_usd" in limits else lambda _: None)
        figures = _figures(used)
        known = _known_figures(used)
        # A figure known in part can already be too much.
        exceeded = [name for name, limit in limits.items() if known[name] > exact(limit)]
        figures |= {name: float(known[name]) for name in exceeded if figures[name] is None}
        unknown = [name for name in limits if figures[name] is None]
        evidence = {**figures, "tokens_from": used.tokens_from, "cost_from": used.cost_from}
        if exceeded:
            words = listed(
                f"{name} {_figure(figures[name])} exceeds {_figure(limits[name])}" for name in exceeded
            )
            return self.failed(
                case,
                f"{words} ({_sources(exceeded, used)})",
                FailureKind.BUDGET_EXCEEDED,
                score=1 - len(exceeded) / len(limits),
                evidence=evidence,
            )
        if unknown:
            return self.error(
                case, _unknown_reason(unknown, used), FailureKind.MISSING_OUTPUT, evidence=evidence
            )
        words = listed(
            f"{name} {_figure(figures[name])} of {_figure(limit)}" for name, limit in limits.items()
        )
        return self.passed(case, f"{words} ({_sources(list(limits), used)})", evidence=evidence)

    def _price(self, usage: Usage) -> Fraction | None:
        per_input, per_output = self.config.input_cost_per_1k, self.config.output_cost_per_1k
        if per_input is not None and per_output is not None:
            of_input = exact(usage.input_tokens or 0) * exact(per_input)
            return (of_input + exact(usage.output_tokens or 0) * exact(per_output)) / 1000
        return published_price(usage)


def published_price(usage: Usage) -> Fraction | None:
    """Price tokens in US dollars by `genai-prices`; None for a model that it does not know."""
    if not usage.model:
        return None
    tokens = {
        name: int(value)
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        if (value := getattr(usage, name)) is not None
    }
    return price_of(usage.model, tokens, moment(usage.at))


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
    and results are taken from the time stamps. A limit without data is an error verdict, not a pass;
    the limit of a tool that was not called is not checked. The score is the share of limits kept.
    """

    judge_id = "latency_slo"
    reads = frozenset()
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
            return self.failed(
                case,
                words,
                FailureKind.BUDGET_EXCEEDED,
                score=1 - len(exceeded) / len(checks),
                refs=[check.event for check in exceeded if check.event is not None],
                evidence=evidence,
            )
        if unknown:
            words = f"no latency is recorded for {listed(unknown)}, so the limit cannot be checked"
            words += at_events(measured.unknown)
            return self.error(case, words, FailureKind.MISSING_OUTPUT, evidence=evidence)
        if not checks:
            return self.skipped(case, "none of the tools with a latency limit was called")
        words = listed(f"{check.name} {check.value:.6g} ms of {check.limit:.6g} ms" for check in checks)
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
            value, event = _nearest_rank(ordered, share) if ordered else (None, None)
            # What is not known may be faster than a percentile, but never makes the slowest event faster.
            if measured.unknown and not (share == 1 and value is not None and value > limit):
                value = event = None
            yield _LatencyCheck(name, limit, value, event)
        if config.max_total_latency_ms is not None:
            yield self._total_check(trace, measured, config.max_total_latency_ms)

    def _total_check(self, trace: Trace, measured: _Latencies, limit: float) -> _LatencyCheck:
        total: float | None
        if measured.known:
            total = float(sum((exact(value) for value, _ in measured.known), Fraction(0)))
            total = None if measured.unknown and total <= limit else total
        else:
            total = _elapsed(trace.events)
        return _LatencyCheck("total", limit, total, None)

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


_LIMIT_KEYS = {
    "input_tokens": "max_input_tokens",
    "output_tokens": "max_output_tokens",
    "total_tokens": "max_total_tokens",
    "cost_usd": "max_cost_usd",
}
"""Configuration keys of the limits, by figure."""


def _figures(used: Spent) -> dict[str, float | None]:
    complete = used.input_tokens is not None and used.output_tokens is not None
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": (used.input_tokens or 0) + (used.output_tokens or 0) if complete else None,
        "cost_usd": used.cost_usd,
    }


def _known_figures(used: Spent) -> dict[str, Fraction]:
    """Return what is known of each figure, at least: the whole of it, or a part."""
    tokens = {name: exact(used.known_tokens.get(name, 0)) for name in ("input_tokens", "output_tokens")}
    return {**tokens, "total_tokens": sum(tokens.values(), Fraction(0)), "cost_usd": used.known_cost_usd}


def _figure(value: float | None) -> str:
    return f"{value:.6g}" if isinstance(value, float) and not value.is_integer() else f"{value or 0:.0f}"


def _sources(names: list[str], used: Spent) -> str:
    parts = []
    if "cost_usd" in names:
        parts.append(f"cost: {used.cost_from if used.cost_from != 'unknown' else 'known in part'}")
    if any(name != "cost_usd" for name in names):
        parts.append(f"tokens: {used.tokens_from}")
    return ", ".join(parts)


def _unknown_reason(names: list[str], used: Spent) -> str:
    words = f"{listed(names)} unknown, so the budget cannot be checked"
    if "cost_usd" in names and used.unpriced:
        models = listed(quoted(model) for model in dict.fromkeys(used.unpriced))
        return f"{words}: no cost is recorded and there is no price for {models}"
    if "cost_usd" in names and used.half_counted:
        return f"{words}: some answers record only one of their two token counts"
    if used.known_tokens.get("input_tokens") or used.known_tokens.get("output_tokens"):
        return f"{words}: the trace does not record it for every answer"
    return f"{words}: the trace records no usage"


def _latency(event: Event) -> float | None:
    """Return the milliseconds that an event took; None if it records no valid latency."""
    value = event.latency_ms if event.latency_ms is not None else event.attributes.get("latency_ms")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    return None


def _call_latency(pair: ToolCall) -> float | None:
    recorded = [
        value for event in (pair.call, pair.result) if event and (value := _latency(event)) is not None
    ]
    if recorded:
        return max(recorded)
    return _elapsed([pair.call, pair.result]) if pair.call and pair.result else None


@dataclass(slots=True)
class _Latencies:
    """Latencies of a trace as `(milliseconds, event)`, and events of the agent or a tool without any."""

    known: list[tuple[float, int]]
    unknown: list[int]


def _measure(trace: Trace) -> _Latencies:
    """Collect the latencies; where only some are recorded, take the others from the time stamps.

    One recorded latency must not hide the rest. An agent's turn (its messages and calls in a row) counts as
    recorded if one of its events has a latency, and a tool's result if its call has.
    """
    known = [(value, event.idx) for event in trace.events if (value := _latency(event)) is not None]
    if not known or len(known) == len(trace.events):
        return _Latencies(known, [])
    unknown = []
    for first, last in _unrecorded(trace):
        stamps = trace.events[first - 1 : first] + trace.events[last : last + 1]
        value = _elapsed(stamps)
        if value is None:
            unknown.append(trace.events[last].idx)
        else:
            known.append((value, trace.events[last].idx))
    return _Latencies(known, unknown)


def _unrecorded(trace: Trace) -> Iterator[tuple[int, int]]:
    """Yield the first and last position of turns and results without a latency of their own."""
    recorded = {id(event) for event in trace.events if _latency(event) is not None}
    for pair in trace.calls:
        events = [event for event in (pair.call, pair.result) if event is not None]
        if any(id(event) in recorded for event in events):
            recorded.update(map(id, events))
    position = 0
    for is_turn, group in groupby(trace.events, key=lambda event: event.is_act):
        events = list(group)
        if is_turn:
            if not any(id(event) in recorded for event in events):
                yield position, position + len(events) - 1
        else:
            for offset, event in enumerate(events):
                if event.type == TOOL_RESULT and id(event) not in recorded:
                    yield position + offset, position + offset
        position += len(events)


def _nearest_rank(ordered: Sequence[tuple[float, int]], share: float) -> tuple[float, int]:
    """Return the smallest value that at least `share` of the values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _elapsed(events: Sequence[Event]) -> float | None:
    """Return the milliseconds from the first time stamp to the last; None without two that compare."""
    try:
        stamps = [datetime.fromisoformat(event.ts) for event in events if event.ts]
        # Whole microseconds, so that the decimals are those of the time stamps.
        return (max(stamps) - min(stamps)) // timedelta(microseconds=1) / 1000 if len(stamps) > 1 else None
    # Malformed, or some with an offset and some without.
    except (ValueError, TypeError):
        return None
