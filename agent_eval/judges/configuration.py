"""What a judge is told, by its configuration and by a case: read, checked, refused with the nearest name."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from agent_eval.contracts import Case
from agent_eval.errors import InvalidInput
from agent_eval.judges.wording import clipped, quoted

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_config(name: str, config_class: type[ModelT], raw: Any) -> ModelT:
    """Validate what a judge is configured with; nothing or null means all defaults.

    Raises:
        InvalidInput: Names the judge and the key; for an unknown key, the nearest one.
    """
    if raw is not None and not isinstance(raw, dict):
        raise InvalidInput(
            f"the configuration of judge {quoted(name)} is not an object",
            remedy=f"Write an object with some of: {', '.join(config_class.model_fields)}.",
            field=f"judge_configs.{name}",
        )
    try:
        return config_class.model_validate(raw or {})
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(
            f"judge {quoted(name)}: {_what(first, key)}",
            remedy=_remedy(first, config_class),
            field=f"judge_configs.{name}.{key}" if key else f"judge_configs.{name}",
        ) from None


def _what(problem: Any, key: str) -> str:
    if problem["type"] == "extra_forbidden":
        return f"unknown key {quoted(key)}"
    return f"{key or 'configuration'}: {clipped(problem['msg'], 160)}, not {quoted(problem['input'])}"


def _remedy(problem: Any, config_class: type[BaseModel]) -> str:
    if problem["type"] != "extra_forbidden":
        return "Correct the value; docs/guides/judges.md lists every key with its unit and default."
    known = sorted(set(_field_names(config_class)))
    near = get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{hint}Known keys: {', '.join(config_class.model_fields)}."


def _field_names(model: type[BaseModel]) -> Iterator[str]:
    """Names of a model's fields and of the models within it."""
    for name, field in model.model_fields.items():
        yield name
        for inner in _models_in(field.annotation):
            yield from _field_names(inner)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def read_expectation(case: Case, member: str, model: type[ModelT]) -> ModelT | None:
    """What a case expects in one member of its metadata; None when it says nothing.

    Raises:
        InvalidInput: Malformed. Names case and field; for an unknown key, the nearest one.
    """
    raw = case.metadata.get(member)
    if raw is None:
        return None
    place = f"metadata.{member}"
    if not isinstance(raw, dict):
        raise InvalidInput(
            f"case {quoted(case.case_id)}: {place} is not an object",
            remedy=f"Write an object with some of: {', '.join(model.model_fields)}.",
            case_id=case.case_id,
            field=place,
        )
    try:
        return model.model_validate(raw)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(
            f"case {quoted(case.case_id)}: {place}: {_what(first, key)}",
            remedy=_remedy(first, model),
            case_id=case.case_id,
            field=f"{place}.{key}" if key else place,
        ) from None
