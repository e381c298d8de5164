"""The record of what people found a judge to be right about: which criteria have earned to count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_eval.errors import InvalidInput
from agent_eval.storage.json import read_json

KIND = "judge_agreement"


class CriterionAgreement(BaseModel):
    """What labels say of one criterion, as exactly one judge and prompt read it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    criterion: str
    digest: str = Field(min_length=1)
    blocking: bool


class AgreementRecord(BaseModel):
    """What `judge-agreement` writes."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str
    criteria: list[CriterionAgreement]


def earned_digests(path: Path) -> frozenset[str]:
    """Return the digests of the criteria that count by a record.

    Raises:
        InvalidInput: The file is no record of `judge-agreement`.
    """
    value: Any = read_json(path)
    try:
        record = AgreementRecord.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise _no_record(path, ".".join(str(step) for step in first["loc"]), first["msg"]) from None
    if record.kind != KIND:
        raise _no_record(path, "kind", f"it is not {KIND}")
    return frozenset(row.digest for row in record.criteria if row.blocking)


def _no_record(path: Path, field: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is no record of judge-agreement: {field}: {problem[:200]}",
        remedy="Write it with agent-eval judge-agreement --out.",
        file=str(path),
        field=field,
    )
