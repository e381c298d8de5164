"""The same shapes as plain dictionaries, for bulk reading.

Building a pydantic model for every verdict of 100,000 cases costs more than comparing them. What reads
packs in bulk uses these; a test holds their fields equal to those of the models.
"""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict


class VerdictRow(TypedDict):
    """A `Verdict` as it stands in `verdicts.json`."""

    judge_id: str
    case_id: str
    outcome: str
    passed: bool
    score: float | None
    reason: str
    hard: bool
    failure: str | None
    evidence_refs: list[int]
    evidence: dict[str, Any]
    weight: float
    category: str | None


class TrialResultRow(TypedDict):
    """A `TrialResult` as it stands in `verdicts.json`."""

    outcome: str
    passed: bool
    hard_failed: bool
    score: float | None
    verdicts: list[VerdictRow]


class CaseResultRow(TypedDict):
    """A `CaseResult` as it stands in `verdicts.json`. Older packs know nothing of several trials."""

    case_id: str
    trial: int
    outcome: str
    passed: bool
    hard_failed: bool
    score: float | None
    verdicts: list[VerdictRow]
    case_policy: NotRequired[str | None]
    trials: NotRequired[list[TrialResultRow]]


class CaseIndexRow(TypedDict):
    """A `CaseIndex` as it stands in `run/index.jsonl`."""

    case_id: str
    definition_digest: str
    output_digest: str | None
    calls: list[list[str]]
    models: list[str]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None
