"""Describe what is wrong with a suite in sentences that its author can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from agent_eval.errors import InvalidInput

VALUE_LIMIT = 60
"""Maximum number of characters of a value or case id in a message."""

# What each pydantic error type means to an author of JSON: (what the value must be, how to write it).
_EXPECTATIONS: dict[str, tuple[str, str]] = {
    "string_type": ("a string", "Write it in double quotes"),
    "string_too_short": ("a non-empty string", "Give it a value"),
    "int_type": ("an integer", "Write a whole number without quotes"),
    "int_from_float": ("an integer", "Write a whole number without a fraction"),
    "float_type": ("a number", "Write a number without quotes"),
    "bool_type": ("true or false", "Write true or false without quotes"),
    "list_type": ("an array", "Write it as an array, for example []"),
    "blank": ("a text in which something can be seen", "Write what is meant"),
    "too_short": ("an array with at least one entry", "Add one"),
    "file_name": ("a name that a file can have, without control characters", "Give it a plain name"),
    "missing_value": ("a value that does not count as missing", "Use param_not_exists to expect none"),
    "stop_token": ("a message without ###STOP###, which ends a conversation", "Take that word out"),
    "dict_type": ("an object", "Write it as an object, for example {}"),
    "model_type": ("an object", "Write it as an object, for example {}"),
}

# Our own error types, whose messages are sentences already, with their remedies.
_REMEDIES = {
    "input_and_turns": "Leave out the case's input, or give it as the first turn's.",
    "auto_and_input": "Remove the input, or auto.",
    "no_input": "Give it an input, or write auto: true to have the user simulated.",
    "auto_turn": "Add conversation, with the guidelines of the simulated user.",
    "stop_token": "Take it out: only the simulated user writes it, to end the conversation.",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a suite, with its place.

    `field` is the JSON path below the case (or the header), such as `trace[3].idx`. `position` counts cases
    from 0 and is None for the header; `line` counts from 1 and is None for files that are not `.jsonl`.
    """

    message: str
    remedy: str
    field: str = ""
    case_id: str | None = None
    position: int | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """JSON path of the problem from the top of the suite, such as `$.cases[2].trace[3].idx`."""
        top = "$" if self.position is None else f"$.cases[{self.position}]"
        if not self.field:
            return top
        return f"{top}{self.field}" if self.field.startswith("[") else f"{top}.{self.field}"

    def to_json(self) -> dict[str, Any]:
        """Return the problem as plain data, without unknown values."""
        values = {
            "place": self.place,
            "message": self.message,
            "remedy": self.remedy,
            "case_id": self.case_id,
            "line": self.line,
        }
        return {name: value for name, value in values.items() if value not in (None, "")}

    def to_error(self, file: str, *, more: int = 0) -> InvalidInput:
        """Build the error that refuses the suite because of this problem.

        `more` is the number of further problems in the same case.
        """
        location = file
        if self.line is not None:
            location += f": line {self.line}"
        if self.case_id is not None:
            location += f": case {short_json(self.case_id)}"
        elif self.position is not None:
            location += f": cases[{self.position}]"
        suffix = (
            f" (and {more} more {'problem' if more == 1 else 'problems'} in the same place)" if more else ""
        )
        return InvalidInput(
            f"{location}: {self.message}{suffix}",
            remedy=self.remedy,
            file=file,
            line=self.line,
            case_id=self.case_id,
            field=self.field or None,
            position=self.position,
        )


def short_json(value: Any) -> str:
    """Format a value as JSON of bounded length, safe to repeat in a message."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        text = type(value).__name__
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"


def json_path(location: Sequence[str | int]) -> str:
    """Format a location as a JSON path; keys that are not plain words are quoted.

    Example:
        >>> json_path(("trace", 3, "attributes", "a b"))
        'trace[3].attributes["a b"]'
    """
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier():
            path += f".{step}" if path else step
        else:
            path += f"[{short_json(step)}]"
    return path


def problems_of(error: ValidationError, raw: Any) -> list[tuple[str, str, str]]:
    """Return `(field, message, remedy)` for each problem of a pydantic error, in document order.

    `raw` is the value that pydantic refused; it tells fields from the members of a union.
    """
    return problems_of_details(error.errors(include_url=False, include_context=False), raw)


def problems_of_details(details: Iterable[Mapping[str, Any]], raw: Any) -> list[tuple[str, str, str]]:
    """Do as `problems_of` with the details of an error."""
    explanations: dict[str, tuple[str, str]] = {}
    for detail in details:
        # Without the names that pydantic appends for members of a union (`int`, `dict[str,any]`).
        location: list[str | int] = []
        value = raw
        for step in detail["loc"]:
            if not isinstance(value, Mapping if isinstance(step, str) else list):
                break
            location.append(step)
            try:
                value = value[step]
            except (LookupError, TypeError):
                value = None
        explanations.setdefault(json_path(location), _explain(detail, location))
    return [(field, message, remedy) for field, (message, remedy) in explanations.items()]


def _explain(detail: Mapping[str, Any], location: Sequence[str | int]) -> tuple[str, str]:
    field = json_path(location) or "it"
    if detail["type"] == "missing":
        return f"{field} is missing", f"Add {field}."
    if len(location) < len(detail["loc"]):  # a union: a JSON Schema or true or false, or kinds of numbers
        value = short_json(detail["input"])
        if location[-1:] == ["json_schema"]:
            remedy = "Write a JSON Schema as an object."
            return f"{field} must be an object, true or false, not {value}", remedy
        return f"{field} must be a number, not {value}", "Write a number without quotes."
    if detail["type"] in _REMEDIES:
        return str(detail["msg"]), _REMEDIES[detail["type"]]
    expectation = _EXPECTATIONS.get(detail["type"])
    if expectation is None:
        return f"{field}: {detail['msg']}, not {short_json(detail['input'])}", f"Correct {field}."
    expected, how_to_write = expectation
    return f"{field} must be {expected}, not {short_json(detail['input'])}", f"{how_to_write}."
