"""Read a policy and thresholds: unknown keys name the nearest one, and values out of range are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from pydantic import ValidationError

from agent_eval.config.gone import POLICY_KEYS
from agent_eval.config.rows.job import THRESHOLDS
from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.gate.sentences import quoted
from agent_eval.text.spelling import nearest

_NAMED, _LONGEST = 5, 200
_COMPARED = 10_000
"""Ids that a suggestion is looked for among; the search takes a second for some 50,000."""


def parse_policy(values: Mapping[str, Any], *, source: str) -> GatePolicy:
    """Build a policy from the parsed content of a file, which errors call `source`.

    Raises `InvalidInput` where a key is gone (says what to write instead) or unknown (names the nearest), or
    a value is out of range.
    """
    known = list(GatePolicy.model_fields)
    for name in values:
        if (instead := POLICY_KEYS.get(str(name))) is not None:
            raise InvalidInput(f"{source}: {name} is gone", remedy=instead, file=source, field=str(name))
        if name not in known:
            like = nearest(str(name), known, 0.6)
            hint = f"did you mean {like!r}?" if like else f"known are {', '.join(known)}"
            raise _invalid(source, str(name), f"there is no such key; {hint}")
    try:
        parse_thresholds({name: value for name, value in values.items() if name in Thresholds.model_fields})
        return GatePolicy.model_validate(values)
    except UsageError as error:
        raise _invalid(source, str(error.details.get("field")), error.message) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(step) for step in first["loc"]) or source
        raise _invalid(source, field, first["msg"].removeprefix("Value error, ")) from None


def with_keys(policy: GatePolicy, values: Mapping[str, Any], *, source: str) -> GatePolicy:
    """Copy a policy with the keys that are stated in place of its own; raises as `parse_policy`."""
    own = parse_policy(values, source=source)
    return policy.model_copy(update={name: getattr(own, name) for name in values})


def _invalid(source: str, field: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{source}: {field}: {problem}",
        remedy="Correct the policy; an unreadable policy decides nothing.",
        file=source,
        field=field,
    )


def parse_thresholds(values: Mapping[str, object]) -> Thresholds:
    """Build thresholds from flags or a file; a rule that is left out, or None, is not set.

    Raises `UsageError` for an unknown rule, a share outside 0 to 1, NaN, infinity, a negative or fractional
    count.
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
        remedy=f"Give `policy.{name}` {wanted}, or leave it out.",
        field=name,
    )


def unknown_case_warnings(policy: GatePolicy, known: Iterable[str], *, where: str) -> list[str]:
    """Warn of every case in quarantine that does not exist, with the nearest id that does.

    A misspelt case would go on blocking without a word. One sentence each for the first five, with ids in
    backticks, and one for the others.
    """
    existing = set(known)
    listed = dict.fromkeys(entry.case for entry in policy.quarantine)
    unknown = [case_id for case_id in listed if case_id not in existing]
    candidates = existing if len(existing) <= _COMPARED else ()
    sentences = []
    for case_id in unknown[:_NAMED]:
        like = nearest(case_id[:_LONGEST], candidates, 0.6)
        guess = f" Did you mean {quoted(like, _LONGEST)}?" if like else ""
        sentences.append(f"`quarantine` of the policy lists {quoted(case_id, _LONGEST)}, but {where}.{guess}")
    more = len(unknown) - _NAMED
    return [*sentences, f"The policy lists {more:,} more such ids."] if more > 0 else sentences
