"""Tokens and money a case may take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import Field

from agent_eval.contracts import Case, Event, ToolCall, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, SoftJudgeConfig, listed, named, quoted
from agent_eval.judges.matching.usage import Spent, Usage, moment, spent


class CostBudgetConfig(SoftJudgeConfig):
    """Limits that are not set are not checked; a value equal to its limit is within it."""

    max_input_tokens: int | None = Field(default=None, ge=0)
    """Tokens sent to models, cached ones included."""
    max_output_tokens: int | None = Field(default=None, ge=0)
    """Tokens models answered with."""
    max_total_tokens: int | None = Field(default=None, ge=0)
    """Both together."""
    max_cost_usd: float | None = Field(default=None, ge=0)
    """US dollars."""
    input_cost_per_1k: float | None = Field(default=None, ge=0)
    """US dollars for 1,000 input tokens of any model; instead of published prices."""
    output_cost_per_1k: float | None = Field(default=None, ge=0)
    """US dollars for 1,000 output tokens of any model; instead of published prices."""


_LIMITS = {
    "input_tokens": "max_input_tokens",
    "output_tokens": "max_output_tokens",
    "total_tokens": "max_total_tokens",
    "cost_usd": "max_cost_usd",
}


class CostBudgetJudge(BaseJudge[CostBudgetConfig]):
    """Holds tokens and cost of a case against limits.

    Figures come from event attributes and the case's metadata; usage repeated for one answer counts
    once (`usage.spent`). Where no cost is recorded, tokens are priced: by the configured prices when they
    are set, else by the published ones in `genai-prices` for the model and day. Both prices have to be
    set, or none. A figure that has a limit and is not known is an error verdict, never 0. The score is
    the share of limits kept.
    """

    judge_id = "cost_budget"
    Config = CostBudgetConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        limits = {
            figure: limit
            for figure, key in _LIMITS.items()
            if (limit := getattr(self.config, key)) is not None
        }
        if not limits:
            return self.skipped(case, "no cost or token budget is configured")
        used = spent(case, trace, self._price if "cost_usd" in limits else _no_price)
        figures = _figures(used)
        over = [name for name, limit in limits.items() if (figures[name] or 0) > limit]
        # A cost known in part can already be too much.
        if "cost_usd" in limits and used.known_cost_usd > limits["cost_usd"] and "cost_usd" not in over:
            over.append("cost_usd")
            figures["cost_usd"] = used.known_cost_usd
        unknown = [name for name in limits if figures[name] is None]
        evidence = {**figures, "tokens_from": used.tokens_from, "cost_from": used.cost_from}
        if over:
            words = listed(f"{name} {_said(figures[name])} exceeds {_said(limits[name])}" for name in over)
            return self.failed(
                case,
                f"{words} ({self._source(over, used)})",
                FailureKind.BUDGET_EXCEEDED,
                score=1 - len(over) / len(limits),
                evidence=evidence,
            )
        if unknown:
            return self.error(
                case, _unknown_words(unknown, used), FailureKind.MISSING_OUTPUT, evidence=evidence
            )
        words = listed(f"{name} {_said(figures[name])} of {_said(limit)}" for name, limit in limits.items())
        return self.passed(case, f"{words} ({self._source(list(limits), used)})", evidence=evidence)

    def _source(self, names: list[str], used: Spent) -> str:
        parts = []
        if "cost_usd" in names:
            parts.append(f"cost: {used.cost_from if used.cost_from != 'unknown' else 'known in part'}")
        if any(name != "cost_usd" for name in names):
            parts.append(f"tokens: {used.tokens_from}")
        return ", ".join(parts)

    def _price(self, usage: Usage) -> float | None:
        per_input, per_output = self.config.input_cost_per_1k, self.config.output_cost_per_1k
        if per_input is not None and per_output is not None:
            cost = (usage.input_tokens or 0) * per_input + (usage.output_tokens or 0) * per_output
            return cost / 1000
        return published_price(usage)


def published_price(usage: Usage) -> float | None:
    """US dollars by the prices in `genai-prices`; None for a model it does not know."""
    if not usage.model:
        return None
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price

    tokens: dict[str, Any] = {
        name: int(value)
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        if (value := getattr(usage, name)) is not None
    }
    provider, _, model = usage.model.rpartition("/")
    try:
        found = calc_price(
            PricedUsage(**tokens),
            model_ref=model,
            provider_id=provider or None,
            genai_request_timestamp=moment(usage.at),
        )
    # Unknown models and providers, and counts that contradict each other.
    except (LookupError, ValueError):
        return None
    return float(Decimal(found.total_price))


def _no_price(usage: Usage) -> float | None:  # noqa: ARG001
    return None


def _figures(used: Spent) -> dict[str, float | None]:
    known = used.input_tokens is not None and used.output_tokens is not None
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": (used.input_tokens or 0) + (used.output_tokens or 0) if known else None,
        "cost_usd": used.cost_usd,
    }


def _said(figure: float | None) -> str:
    return f"{figure:.6g}" if isinstance(figure, float) and not figure.is_integer() else f"{figure or 0:.0f}"


def _unknown_words(names: list[str], used: Spent) -> str:
    words = f"{listed(names)} unknown, so the budget cannot be checked"
    if "cost_usd" in names and used.unpriced:
        models = listed(quoted(model) for model in dict.fromkeys(used.unpriced))
        return f"{words}: no cost is recorded and there is no price for {models}"
    return f"{words}: the trace records no usage"


class LatencySloConfig(SoftJudgeConfig):
    """Limits in milliseconds. Those not set are not checked; a value equal to its limit is within it."""

    max_event_latency_ms: float | None = Field(default=None, ge=0)
    """The slowest event."""
    max_total_latency_ms: float | None = Field(default=None, ge=0)
    """All events together: the sum of latencies, or last minus first time stamp where none is recorded."""
    max_p95_latency_ms: float | None = Field(default=None, ge=0)
    """95th percentile over the events, by nearest rank."""
    max_p99_latency_ms: float | None = Field(default=None, ge=0)
    """99th percentile over the events, by nearest rank."""
    max_tool_latency_ms: dict[str, float] = Field(default_factory=dict)
    """The slowest call of each named tool."""


class LatencySloJudge(BaseJudge[LatencySloConfig]):
    """Holds recorded latencies against limits.

    An event's latency is its `latency_ms`, or the attribute of that name. A tool call's is its own, its
    result's, or the time between the two. What has a limit and no data is an error verdict, not a pass;
    a tool that is not called has nothing to hold. The score is the share of limits kept.
    """

    judge_id = "latency_slo"
    Config = LatencySloConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        if not any(self._limits(trace)) and not self.config.max_tool_latency_ms:
            return self.skipped(case, "no latency limit is configured")
        checks = [*self._limits(trace), *self._tool_limits(trace)]
        over = [check for check in checks if check.value is not None and check.value > check.limit]
        missing = [check.name for check in checks if check.value is None]
        evidence = {
            "limits": [
                {"name": check.name, "limit_ms": check.limit, "value_ms": check.value}
                for check in checks[:EVIDENCE_LIMIT]
            ]
        }
        if over:
            words = listed(
                f"{check.name} {check.value:.6g} ms exceeds {check.limit:.6g} ms" for check in over
            )
            return self.failed(
                case,
                words,
                FailureKind.BUDGET_EXCEEDED,
                score=1 - len(over) / len(checks),
                refs=[check.event for check in over if check.event is not None],
                evidence=evidence,
            )
        if missing:
            words = f"no latency is recorded for {listed(missing)}, so the limit cannot be checked"
            return self.error(case, words, FailureKind.MISSING_OUTPUT, evidence=evidence)
        if not checks:
            return self.skipped(case, "none of the tools with a latency limit was called")
        words = listed(f"{check.name} {check.value:.6g} ms of {check.limit:.6g} ms" for check in checks)
        return self.passed(case, words, evidence=evidence)

    def _limits(self, trace: Trace) -> Iterator[_Check]:
        config = self.config
        measured = [(value, event.idx) for event in trace.events if (value := latency_of(event)) is not None]
        ordered = sorted(measured)
        for name, limit, share in (
            ("slowest event", config.max_event_latency_ms, 1.0),
            ("p95", config.max_p95_latency_ms, 0.95),
            ("p99", config.max_p99_latency_ms, 0.99),
        ):
            if limit is not None:
                value, event = _nearest_rank(ordered, share) if ordered else (None, None)
                yield _Check(name, limit, value, event)
        if config.max_total_latency_ms is not None:
            total = math.fsum(value for value, _ in measured) if measured else _elapsed(trace.events)
            yield _Check("total", config.max_total_latency_ms, total, None)

    def _tool_limits(self, trace: Trace) -> Iterator[_Check]:
        limits = self.config.max_tool_latency_ms
        slowest: dict[str, _Check] = {}
        for pair in trace.calls if limits else ():
            if pair.call is None or pair.tool not in limits:
                continue
            value = _call_latency(pair)
            known = slowest.setdefault(
                pair.tool, _Check(named(pair.tool), limits[pair.tool], value, pair.call.idx)
            )
            # One unknown call leaves the slowest unknown, unless another is known to be too slow.
            if (known.value is not None and value is None and known.value <= known.limit) or (
                value is not None
                and (value > known.value if known.value is not None else value > known.limit)
            ):
                known.value, known.event = value, pair.call.idx
        yield from (slowest[tool] for tool in sorted(slowest))


class _Check:
    """One limit, what was measured (None: unknown) and the event that says so."""

    def __init__(self, name: str, limit: float, value: float | None, event: int | None) -> None:
        self.name, self.limit, self.value, self.event = name, limit, value, event


def latency_of(event: Event) -> float | None:
    """Milliseconds an event took; None when it does not say."""
    value = event.latency_ms if event.latency_ms is not None else event.attributes.get("latency_ms")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    return None


def _call_latency(pair: ToolCall) -> float | None:
    known = [
        value for event in (pair.call, pair.result) if event and (value := latency_of(event)) is not None
    ]
    if known:
        return max(known)
    return _elapsed([pair.call, pair.result]) if pair.call and pair.result else None


def _nearest_rank(ordered: Sequence[tuple[float, int]], share: float) -> tuple[float, int]:
    """The smallest value that at least `share` of the values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _elapsed(events: Sequence[Event]) -> float | None:
    """Milliseconds from the first time stamp to the last; None without two that compare."""
    try:
        stamps = [datetime.fromisoformat(event.ts) for event in events if event.ts]
        return (max(stamps) - min(stamps)).total_seconds() * 1000 if len(stamps) > 1 else None
    # Malformed, or some with an offset and some without.
    except (ValueError, TypeError):
        return None
