"""Tokens and money a case may take."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pydantic import Field

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.protocol import BaseJudge, SoftJudgeConfig
from agent_eval.judges.usage import Spent, Usage, moment, spent
from agent_eval.judges.wording import listed, quoted


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
