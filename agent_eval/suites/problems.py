"""What is wrong with a suite, said in sentences a person can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from agent_eval.errors import InvalidInput

SHOWN_VALUE_CHARACTERS = 60
"""Longest value or case id repeated in a message; the rest is cut."""

# What each pydantic error type means to someone who writes JSON: (what it must be, how to write it).
_EXPECTATIONS: dict[str, tuple[str, str]] = {
    "string_type": ("a string", "Write it in double quotes"),
    "string_too_short": ("a non-empty string", "Give it a value"),
    "int_type": ("an integer", "Write a whole number without quotes"),
    "int_from_float": ("an integer", "Write a whole number without a fraction"),
    "float_type": ("a number", "Write a number without quotes"),
    "bool_type": ("true or false", "Write true or false without quotes"),
    "list_type": ("an array", "Write it as an array, for example []"),
    "dict_type": ("an object", "Write it as an object, for example {}"),
    "model_type": ("an object", "Write it as an object, for example {}"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, with its place.

    `field` is the JSON path from the case (or the header) on, such as `trace[3].idx`. `position` counts
    cases from 0 and is None for the header; `line` counts from 1 and is None where lines mean nothing.
    """

    message: str
    remedy: str
    field: str = ""
    case_id: str | None = None
    position: int | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """JSON path from the top of the suite, such as `$.cases[2].trace[3].idx`."""
        top = "$" if self.position is None else f"$.cases[{self.position}]"
        if not self.field:
            return top
        return f"{top}{self.field}" if self.field.startswith("[") else f"{top}.{self.field}"

    def to_json(self) -> dict[str, Any]:
        """Plain data, without what is unknown."""
        values = {
            "place": self.place,
            "message": self.message,
            "remedy": self.remedy,
            "case_id": self.case_id,
            "line": self.line,
        }
        return {name: value for name, value in values.items() if value not in (None, "")}

    def to_error(self, file: str, *, more: int = 0) -> InvalidInput:
        """The error that refuses the suite because of this problem.

        Args:
            file: The suite, as the user named it.
            more: How many further problems the same case has.
        """
        where = file
        if self.line is not None:
            where += f": line {self.line}"
        if self.case_id is not None:
            where += f": case {shown(self.case_id)}"
        elif self.position is not None:
            where += f": cases[{self.position}]"
        rest = (
            f" (and {more} more {'problem' if more == 1 else 'problems'} in the same place)" if more else ""
        )
        return InvalidInput(
            f"{where}: {self.message}{rest}",
            remedy=self.remedy,
            file=file,
            line=self.line,
            case_id=self.case_id,
            field=self.field or None,
            position=self.position,
        )


def shown(value: Any) -> str:
    """A value as short JSON, safe to repeat in a message."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        text = type(value).__name__
    if len(text) <= SHOWN_VALUE_CHARACTERS:
        return text
    return text[: SHOWN_VALUE_CHARACTERS - 1] + "…"


def json_path(location: Sequence[str | int]) -> str:
    """`("trace", 3, "idx")` as `trace[3].idx`; keys that are not plain words stand in quotes."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier():
            path += f".{step}" if path else step
        else:
            path += f"[{shown(step)}]"
    return path


def problems_of(error: ValidationError, raw: Any) -> list[tuple[str, str, str]]:
    """`(field, message, remedy)` for each problem of a pydantic error, in document order.

    Args:
        error: What pydantic raised.
        raw: The value it was raised for; used to tell fields from the arms of a union.
    """
    found: dict[str, tuple[str, str]] = {}
    for detail in error.errors(include_url=False, include_context=False):
        location = _real_location(detail["loc"], raw)
        found.setdefault(json_path(location), _explain(detail, location))
    return [(field, message, remedy) for field, (message, remedy) in found.items()]


def _real_location(location: Sequence[str | int], raw: Any) -> list[str | int]:
    """The location without the names pydantic appends for the arms of a union (`int`, `dict[str,any]`)."""
    real: list[str | int] = []
    value = raw
    for step in location:
        inside = isinstance(value, Mapping) and isinstance(step, str)
        inside = inside or (isinstance(value, list) and isinstance(step, int))
        if not inside:
            break
        real.append(step)
        value = _step_into(value, step)
    return real


def _step_into(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (LookupError, TypeError):
        return None


def _explain(detail: Mapping[str, Any], location: Sequence[str | int]) -> tuple[str, str]:
    field = json_path(location) or "it"
    if detail["type"] == "missing":
        return f"{field} is missing", f"Add {field}."
    if len(location) < len(detail["loc"]):
        return _explain_union(field, location, detail["input"])
    expectation = _EXPECTATIONS.get(detail["type"])
    if expectation is None:
        return f"{field}: {detail['msg']}, not {shown(detail['input'])}", f"Correct {field}."
    what, how = expectation
    return f"{field} must be {what}, not {shown(detail['input'])}", f"{how}."


def _explain_union(field: str, location: Sequence[str | int], value: Any) -> tuple[str, str]:
    if location[-1:] == ["json_schema"]:
        return (
            f"{field} must be an object, true or false, not {shown(value)}",
            "Write a JSON Schema as an object.",
        )
    return f"{field} must be a number, not {shown(value)}", "Write a number without quotes."
