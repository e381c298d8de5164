"""A pack without the secrets that its run did not know, for what is made of it: exports, reports, prose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import override

from agent_eval.contracts import CaseIndexRow, CaseResultRow, RunConfig
from agent_eval.contracts.base import Contract
from agent_eval.evidence.reader import Pack
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import KEPT, Redactor, Shape

_IDENTIFIERS = ("case_id", "run_id", "dataset_id", "started_at", "judges", "suite_digest")
"""Fields by which commands find a case or a run again."""

_OURS = re.compile(
    r".*_(?:ids?|digests?|hash|sha256|at|key|versions?)|(?:id|key|digest|hash|sha256|ts|type|actor|kind"
    r"|judges|judge_names|judge_code|git_commit|execution_mode|case_policy|case_policies|pinned_env"
    r"|selected_cases|new|changed|judged_twice|removed|removed_failing|quarantined|regressions|failures_apart"
    r"|failure|fields|recommendation|rule)|(?:Metric|CompatibilityCheck)\.name"
)
"""Fields of contracts that are texts and yet no free ones: ids, and words of open vocabularies."""

Model = TypeVar("Model", bound=Contract)


@cache
def kept_values(kind: type[BaseModel]) -> Shape:
    """Tell which values of a contract, as JSON, are enumerated, computed or numbers: all but free text."""
    of_fields = {
        name: KEPT
        if _OURS.fullmatch(name) or _OURS.fullmatch(f"{kind.__name__}.{name}")
        else _shape_of(field.annotation)
        for name, field in kind.model_fields.items()
    }
    return {name: shape for name, shape in of_fields.items() if shape is not None}


def _shape_of(annotation: Any) -> Any:
    """Tell the same of a type: `KEPT`, a shape (empty if all in it is free text), None for free text."""
    if isinstance(annotation, type) and not get_origin(annotation):
        if issubclass(annotation, BaseModel):
            return kept_values(annotation)
        return KEPT if issubclass(annotation, (Enum, int, float, NoneType)) else None
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return KEPT
    if origin is Annotated:
        return _shape_of(parts[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        shape = _shape_of(parts[1])
        return {} if shape is None else {"*": shape}
    shapes = [_shape_of(part) for part in parts if part not in (NoneType, ...)]
    shape = next((shape for shape in shapes if shape is not KEPT), KEPT if shapes else None)
    return {} if shape is None and isinstance(origin, type) and issubclass(origin, Sequence) else shape


def without_secrets(value: Model, redactor: Redactor) -> Model:
    """Replace secrets in the free text of a contract, such as a comparison with an earlier run.

    What is enumerated or computed stays. Returns `value` itself if there is nothing to replace.
    """
    stated = value.to_json()
    if not redactor.may_find_in_json(dumps(stated)):
        return value
    redacted = redactor.redact_value(stated, numbers=False, shape=kept_values(type(value)))
    return type(value).model_validate(redacted)


class RedactedPack(Pack):
    """Verified pack that is read without secrets. What it seals, and ids in it, remain as they are.

    The run of a pack replaces the secrets that it knows. A pack of another machine, or of an earlier version,
    may hold those of this one. Do not judge or verify what is read here: judges need what was recorded.
    """

    def __init__(self, pack: Pack, redactor: Redactor) -> None:
        vars(self).update(vars(pack))
        self._redactor = redactor
        self.config = RunConfig.model_validate(_redacted(pack.config.to_json(), redactor))

    @override
    def _index_row(self, position: int) -> CaseIndexRow:
        row: CaseIndexRow = _redacted(super()._index_row(position), self._redactor)
        return row

    @override
    def _result_row(self, position: int) -> CaseResultRow:
        row: CaseResultRow = _redacted(super()._result_row(position), self._redactor)
        return row

    @override
    def artifacts(self, case_id: str) -> dict[str, bytes]:
        return {name: self._redactor.redact(data) for name, data in super().artifacts(case_id).items()}

    @override
    def _raw_trajectory(self, case_id: str) -> tuple[dict[str, Any], str]:
        raw, path = super()._raw_trajectory(case_id)
        return _redacted(raw, self._redactor, numbers=True), path


def _redacted(value: Any, redactor: Redactor, *, numbers: bool = False) -> Any:
    if not redactor.may_find_in_json(dumps(value)):
        return value
    identifiers = {name: value[name] for name in _IDENTIFIERS if name in value}
    return {**redactor.redact_value(value, numbers=numbers), **identifiers}
