"""Read what people wrote for judges: their configuration, and the expectations of a case.

What is malformed is refused with `InvalidInput`, which names case and field, and for an unknown key also the
nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from agent_eval.contracts import Case
from agent_eval.contracts.trace import is_blank
from agent_eval.errors import InvalidInput
from agent_eval.judges.base import clipped, quoted

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_config(name: str, config_class: type[ModelT], raw: Any) -> ModelT:
    """Validate the configuration of a judge; nothing or null means all defaults."""
    field = f"judge_configs.{name}"
    if raw is not None and not isinstance(raw, dict):
        raise _not_an_object(f"the configuration of judge {quoted(name)}", config_class, field=field)
    return _validate(config_class, raw or {}, subject=f"judge {quoted(name)}", field=field)


def read_expectation(case: Case, member: str, model: type[ModelT]) -> ModelT | None:
    """Validate the expectation in one member of a case's metadata; None if the case has no such member."""
    raw = case.metadata.get(member)
    if raw is None:
        return None
    field = f"metadata.{member}"
    subject = f"case {quoted(case.case_id)}: {field}"
    if not isinstance(raw, dict):
        raise _not_an_object(subject, model, field=field, case_id=case.case_id)
    return _validate(model, raw, subject=subject, field=field, case_id=case.case_id)


def read_model(model: type[ModelT], raw: dict[str, Any], *, case: Case, field: str) -> ModelT:
    """Validate a part of a case as what a judge makes of it."""
    subject = f"case {quoted(case.case_id)}: {field}"
    return _validate(model, raw, subject=subject, field=field, case_id=case.case_id)


def read_listed(model: type[ModelT], case: Case, member: str, *, example: str) -> list[ModelT]:
    """Read one member of a case's metadata as a list of objects; empty if it is not there, or null."""
    raw, field = case.metadata.get(member), f"metadata.{member}"
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        words = f"{field} must be a list of objects, not {quoted(raw)}"
        raise refusal(case.case_id, field, words, f"Write it as {example}.")
    return [
        read_model(model, item, case=case, field=f"{field}[{position}]") for position, item in enumerate(raw)
    ]


def listed_in_metadata(case: Case, member: str, default: list[str] | None = None) -> list[str] | None:
    """Return the list of texts in one member of a case's metadata; `default` if it is not there, or null."""
    value = case.metadata.get(member)
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise refusal(
            case.case_id,
            f"metadata.{member}",
            f"metadata.{member} must be a list of texts, not {quoted(value)}",
            'Write it as ["...", "..."]; without the member, the configuration of the judge applies.',
        )
    for position, text in enumerate(value):
        if is_blank(text):
            raise blank_entry(case, f"metadata.{member}[{position}]")
    return value


def blank_entry(case: Case, field: str) -> InvalidInput:
    """Build the error that refuses an entry of a case, such as `regex_patterns[0]`, that holds nothing."""
    words = f"{field} has no visible character, so it can hold or forbid nothing"
    return refusal(case.case_id, field, words, "Write what is meant, or remove the entry.")


def refusal(case_id: str, field: str, words: str, remedy: str) -> InvalidInput:
    """Build the error that refuses a case for what one of its fields says."""
    return InvalidInput(f"case {quoted(case_id)}: {words}", remedy=remedy, case_id=case_id, field=field)


def _not_an_object(
    subject: str, model: type[BaseModel], *, field: str, case_id: str | None = None
) -> InvalidInput:
    return InvalidInput(
        f"{subject} is not an object",
        remedy=f"Write an object with some of: {', '.join(model.model_fields)}.",
        case_id=case_id,
        field=field,
    )


def _validate(
    model: type[ModelT], raw: dict[str, Any], *, subject: str, field: str, case_id: str | None = None
) -> ModelT:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise InvalidInput(
            f"{subject}: {_explain(problem, key)}",
            remedy=_remedy(problem, model),
            case_id=case_id,
            field=f"{field}.{key}" if key else field,
        ) from None


def _explain(problem: Any, key: str) -> str:
    if problem["type"] == "extra_forbidden":
        return f"unknown key {quoted(key)}"
    words = clipped(problem["msg"].removeprefix("Value error, "), 160)
    return f"{key or 'configuration'}: {words}, not {quoted(problem['input'])}"


def _remedy(problem: Any, model: type[BaseModel]) -> str:
    if problem["type"] != "extra_forbidden":
        return "Correct the value; docs/guides/judges.md lists every key with its unit and default."
    known = sorted(set(_field_names(model)))
    near = get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{hint}Known keys: {', '.join(model.model_fields)}."


def _field_names(model: type[BaseModel]) -> Iterator[str]:
    """Yield the names of a model's fields and of the fields of models nested in it."""
    for name, field in model.model_fields.items():
        yield name
        for nested in _models_in(field.annotation):
            yield from _field_names(nested)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
