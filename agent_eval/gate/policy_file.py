"""Read a policy and thresholds: unknown keys name the nearest one, and values out of range are refused."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any

from pydantic import ValidationError

from agent_eval.config.gone import gone_policy_key
from agent_eval.config.rows.gate import THRESHOLDS
from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput, UsageError


def parse_policy(values: Mapping[str, Any], *, source: str) -> GatePolicy:
    """Build a policy from the content of a file.

    Args:
        values: The parsed file.
        source: Name of the file for error messages.

    Raises:
        InvalidInput: A key is gone (says what to write instead) or unknown (names the nearest), or a value is
            out of range.
    """
    known = list(GatePolicy.model_fields)
    for name, value in values.items():
        if (instead := gone_policy_key(str(name), value)) is not None:
            raise InvalidInput(f"{source}: {name} is gone", remedy=instead, file=source, field=str(name))
        if name not in known:
            nearest = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(known)}"
            raise _invalid(source, str(name), f"there is no such key; {hint}")
    rules = {name: value for name, value in values.items() if name in Thresholds.model_fields}
    try:
        parse_thresholds(rules)
        return GatePolicy.model_validate(values)
    except UsageError as error:
        raise _invalid(source, str(error.details.get("field")), error.message) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(step) for step in first["loc"]) or source
        raise _invalid(source, field, first["msg"].removeprefix("Value error, ")) from None


def _invalid(source: str, field: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{source}: {field}: {problem}",
        remedy="Correct the policy; an unreadable policy decides nothing.",
        file=source,
        field=field,
    )


def parse_thresholds(values: Mapping[str, object]) -> Thresholds:
    """Build thresholds from flags or a file; a rule that is left out, or None, is not set.

    Raises:
        UsageError: An unknown rule, a share outside 0 to 1, NaN, infinity, a negative or fractional count.
    """
    limits = {name: value for name, value in values.items() if value is not None}
    unknown = sorted(limits.keys() - Thresholds.model_fields.keys())
    if unknown:
        raise UsageError(
            f"there is no rule called {unknown[0]!r}",
            remedy=f"The rules are {', '.join(Thresholds.model_fields)}.",
            field=unknown[0],
        )
    try:
        return Thresholds.model_validate(limits)
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        raise _bad_threshold(field, limits[field]) from None


def refuse_no_numbers(thresholds: Thresholds) -> None:
    """Refuse limits that are no numbers: a model can be built unvalidated, and NaN would pass every rule."""
    for name in Thresholds.model_fields:
        value = getattr(thresholds, name)
        if value is not None and not isfinite(value):
            raise _bad_threshold(name, value)


def _bad_threshold(name: str, value: object) -> UsageError:
    option = next(option for option in THRESHOLDS if option.field == name)
    wanted = "a whole number from 0 on" if option.kind == "count" else "a share from 0 to 1"
    return UsageError(
        f"{name} must be {wanted}, not {value!r}",
        remedy=f"Give {option.flag} {wanted}, or leave it out.",
        field=name,
    )
