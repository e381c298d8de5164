"""Rulings of LLM judges in sealed evidence, as replies that need not be paid for again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.contracts import TokenUsage
from agent_eval.evidence.reader import Pack
from agent_eval.models.base import RUNGS, ModelReply

_JUDGE = "llm"


def rulings_of(pack: Pack) -> list[tuple[str, ModelReply]]:
    """Return the rulings of a pack's trials, by the key of the request that each answered.

    Args:
        pack: The pack, verified. Its author could write any ruling, so take those of trusted packs only.
    """
    rulings = []
    for evidence in _evidence(pack):
        for criterion in _objects(evidence.get("criteria")):
            for vote in _objects(criterion.get("votes")):
                key, ruling = vote.get("key"), vote.get("ruling")
                if isinstance(key, str) and key and isinstance(ruling, Mapping):
                    rulings.append((key, _reply(ruling, vote)))
    return rulings


def judge_of(pack: Pack) -> dict[str, Any] | None:
    """Return the model that judged in a pack, as it described itself; None where none did."""
    for evidence in _evidence(pack):
        judge = evidence.get("judge")
        if isinstance(judge, Mapping):
            return {name: value for name, value in judge.items() if name != "prompt"}
    return None


def _evidence(pack: Pack) -> Iterator[Mapping[str, Any]]:
    for row in pack.results():
        for trial in row.get("trials") or [row]:
            for verdict in trial["verdicts"]:
                if verdict["judge_id"] == _JUDGE and isinstance(verdict["evidence"], Mapping):
                    yield verdict["evidence"]


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _reply(ruling: Mapping[str, Any], vote: Mapping[str, Any]) -> ModelReply:
    usage, cost, model, rung = (vote.get(name) for name in ("usage", "cost_usd", "model", "rung"))
    return ModelReply(
        json.dumps(dict(ruling), ensure_ascii=False),
        model=model if isinstance(model, str) else None,
        usage=TokenUsage.model_validate(usage) if isinstance(usage, Mapping) else None,
        cost_usd=cost if isinstance(cost, int | float) else None,
        rung=next((known for known in RUNGS if known == rung), None),
    )
