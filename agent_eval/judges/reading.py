"""Read what people wrote for judges, what a run recorded of its attempts, and JSON within a trace.

A malformed configuration or expectation is refused with `InvalidInput`, which names case and field, and for
an unknown key also the nearest known one. Malformed JSON of an agent is for the judge to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from agent_eval.contracts import Case
from agent_eval.contracts.trace import is_blank
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.judges.base import clipped, quoted
from agent_eval.storage.json import Limits, parse

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_config(name: str, config_class: type[ModelT], raw: Any) -> ModelT:
    """Validate the configuration of a judge; nothing or null means all defaults."""
    subject = f"the configuration of judge {quoted(name)}"
    return _validate(config_class, {} if raw is None else raw, subject=subject, field=f"judge_configs.{name}")


def read_expectation(case: Case, member: str, model: type[ModelT]) -> ModelT | None:
    """Validate the expectation in one member of a case's metadata; None if the case has no such member."""
    raw = case.metadata.get(member)
    return None if raw is None else read_model(model, raw, case=case, field=f"metadata.{member}")


def read_model(model: type[ModelT], raw: Any, *, case: Case, field: str) -> ModelT:
    """Validate a part of a case as what a judge makes of it."""
    subject = f"case {quoted(case.case_id)}: {field}"
    return _validate(model, raw, subject=subject, field=field, case_id=case.case_id)


def listed_objects(case: Case, member: str, *, example: str) -> list[tuple[str, dict[str, Any]]]:
    """List the objects in one member of a case's metadata, each after its field; none if it is null."""
    raw, field = case.metadata.get(member), f"metadata.{member}"
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        words = f"{field} must be a list of objects, not {quoted(raw)}"
        raise refusal(case.case_id, field, words, f"Write it as {example}.")
    return [(f"{field}[{position}]", item) for position, item in enumerate(raw)]


def listed_in_metadata(case: Case, member: str, default: list[str] | None = None) -> list[str] | None:
    """Return the list of texts in one member of a case's metadata; `default` if it is not there, or null."""
    value, field = case.metadata.get(member), f"metadata.{member}"
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        words = f"{field} must be a list of texts, not {quoted(value)}"
        remedy = 'Write it as ["...", "..."]; without the member, the configuration of the judge applies.'
        raise refusal(case.case_id, field, words, remedy)
    for position, text in enumerate(value):
        if is_blank(text):
            raise blank_entry(case, f"{field}[{position}]")
    return value


def blank_entry(case: Case, field: str) -> InvalidInput:
    """Build the error that refuses an entry of a case, such as `regex_patterns[0]`, that holds nothing."""
    words = f"{field} has no visible character, so it can hold or forbid nothing"
    return refusal(case.case_id, field, words, "Write what is meant, or remove the entry.")


def refusal(case_id: str, field: str, words: str, remedy: str) -> InvalidInput:
    """Build the error that refuses a case for what one of its fields says."""
    return InvalidInput(f"case {quoted(case_id)}: {words}", remedy=remedy, case_id=case_id, field=field)


def _validate(
    model: type[ModelT], raw: Any, *, subject: str, field: str, case_id: str | None = None
) -> ModelT:
    known = ", ".join(model.model_fields)
    if not isinstance(raw, dict):
        remedy = f"Write an object with some of: {known}."
        raise InvalidInput(f"{subject} is not an object", remedy=remedy, case_id=case_id, field=field)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        words = f"unknown key {quoted(key)}"
        near = get_close_matches(str(problem["loc"][-1]), sorted(set(_field_names(model))), n=1, cutoff=0.5)
        remedy = f"{f'Did you mean {near[0]}? ' if near else ''}Known keys: {known}."
    else:
        words = clipped(problem["msg"].removeprefix("Value error, "), 160)
        words = f"{key or 'configuration'}: {words}, not {quoted(problem['input'])}"
        remedy = "Correct the value; docs/guides/judges.md lists every key with its unit and default."
    place = f"{field}.{key}" if key else field
    raise InvalidInput(f"{subject}: {words}", remedy=remedy, case_id=case_id, field=place)


def _field_names(annotation: Any) -> Iterator[str]:
    """Yield the names of a model's fields and of the fields of models nested in it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield name
            yield from _field_names(field.annotation)
    for argument in get_args(annotation):
        yield from _field_names(argument)


def selected_attempt(case: Case) -> dict[str, Any] | None:
    """Return the record of the attempt that the case selects, else the last record; None without records."""
    history = case.metadata.get("attempt_history")
    if not isinstance(history, list):
        return None
    attempts = [record for record in history if isinstance(record, dict)]
    number = case.metadata.get("selected_attempt")
    selected = [record for record in attempts if record.get("attempt") == number] or attempts
    return selected[-1] if selected else None


def attempt_failure(case: Case) -> Any:
    """Return what made the selected attempt fail, as recorded; None if it ended by itself.

    The run writes this into `metadata.attempt_history`, which no agent does. Events may be of its making.
    """
    return (selected_attempt(case) or {}).get("failure")


NOT_OF_THE_AGENT = (
    FailureKind.INFRASTRUCTURE.value,
    FailureKind.ENVIRONMENT.value,
    FailureKind.TIMEOUT.value,
)
"""Failures of an attempt that say nothing of the agent."""


class UnreadableText(ValueError):
    """A text that should be JSON but is not."""


class MalformedArguments(ValueError):
    """Arguments of a tool call that are not an object. `failure` is parse_error or type_error."""

    def __init__(self, message: str, failure: FailureKind) -> None:
        super().__init__(message)
        self.failure = failure


def read_text(text: str, what: str) -> Any:
    """Parse strict JSON from within a trace, of at most 16 MiB and 64 levels.

    `what` is the name of the text in messages, such as "the final output". UnreadableText says why and where
    it is not JSON, without quoting it.
    """
    try:
        return parse(text.encode(), source=what, limits=Limits(max_bytes=16 << 20))
    except UnicodeEncodeError:
        raise UnreadableText("it holds half of a surrogate pair") from None
    except InvalidInput as problem:
        raise UnreadableText(clipped(problem.message.removeprefix(f"{what}: "), 160)) from None


_FENCE = re.compile(r"(?:\A|\n)[ \t]*```[^\n`]*\n(.*?)\n?[ \t]*```[ \t]*(?=\n|\Z)", re.DOTALL)


def is_fenced(output: Any) -> bool:
    """Tell whether an answer is a text with exactly one code fence."""
    return isinstance(output, str) and output.count("```") == 2 and _FENCE.search(output) is not None


def read_answer(output: Any, *, in_fence: bool) -> Any:
    """Parse a final output that is text as JSON: with `in_fence` what is in its code fence, if it has one.

    UnreadableText also says how a fence can be read where it is the reason.
    """
    if not isinstance(output, str):
        return output
    what = "the final output"
    fence = _FENCE.search(output) if is_fenced(output) else None
    if in_fence and fence is not None:
        return read_text(fence[1], what)
    try:
        return read_text(output, what)
    except UnreadableText as problem:
        if fence is None:
            raise
        hint = "it is in a code fence, which metadata.final_output.code_fence reads"
        raise UnreadableText(f"{problem}; {hint}") from None


def read_arguments(recorded: Any) -> dict[str, Any]:
    """Return a call's arguments as an object, which may be recorded as JSON text; null means no arguments.

    Anything else raises MalformedArguments.
    """
    if recorded is None:
        return {}
    if isinstance(recorded, str):
        try:
            recorded = read_text(recorded, "arguments")
        except UnreadableText as problem:
            raise MalformedArguments(f"that are not JSON: {problem}", FailureKind.PARSE_ERROR) from None
    if isinstance(recorded, dict):
        return recorded
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    name = "null" if recorded is None else names.get(type(recorded), "unknown")
    raise MalformedArguments(f"that are {name}, not an object", FailureKind.TYPE_ERROR)
