"""What a change does to a file that says how it is judged, in sentences. Hostile text: say it as such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.contracts.registry import Registry, Waiver
from agent_eval.errors import AgentEvalError
from agent_eval.registry.store import parse_registry
from agent_eval.runs.policy import parse_settings

_VALUE_LIMIT = 80
_NAME_LIMIT = 200
_IDENTITY = ("case_id", "waiver_id", "name")
_MISSING = object()


def differences(name: str, base: bytes | None, head: bytes | None, *, registry: bool = False) -> list[str]:
    """Every difference between two versions of a file; None where the file is not there.

    Args:
        name: How the file is called.
        base: As it is on the base branch.
        head: As the change has it.
        registry: Whether it is a registry; its waivers and baselines are told, not its bookkeeping.

    A file that only one side has is told with all that it says. One that cannot be read has changed, and no
    more is known.
    """
    if base == head:
        return []
    try:
        before, after = (_facts(name, data, registry=registry) for data in (base, head))
    except AgentEvalError:
        return [f"{_code(name)} changed."]
    opening = [f"{_code(name)} is new."] if base is None else []
    opening += [f"{_code(name)} was removed."] if head is None else []
    return [*opening, *(f"{_code(name)}: {told}" for told in _told(before, after))]


def _facts(name: str, data: bytes | None, *, registry: bool) -> dict[str, Any]:
    if data is None:
        return {}
    if registry:
        return _registered(parse_registry(data, name))
    return dict(_flat(parse_settings(data, name), ""))


def _registered(registry: Registry) -> dict[str, Any]:
    facts: dict[str, Any] = {f"waiver {one.waiver_id}": _waiver(one) for one in registry.waivers}
    facts |= {
        f"baseline {one.name}": f"run {one.run_id}, {one.manifest_sha256}"
        for one in registry.baselines.values()
    }
    return facts


def _waiver(waiver: Waiver) -> str:
    scope = [waiver.case_id and f"case {waiver.case_id}", waiver.judge_id and f"judge {waiver.judge_id}"]
    scope.append(waiver.regression_key and f"regression {waiver.regression_key}")
    until = f"until {waiver.expires_at}" if waiver.expires_at else "without end"
    revoked = f", revoked by {waiver.revoked_by}" if waiver.revoked_at else ""
    what = ", ".join(part for part in scope if part)
    return f"{what}, for {waiver.baseline_name}, by {waiver.approved_by}, {until}{revoked}: {waiver.reason}"


def _flat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Path and value of everything that is no collection; rows of a list by what they are about."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for number, item in enumerate(value):
            named = (
                next((item[key] for key in _IDENTITY if key in item), None)
                if isinstance(item, dict)
                else None
            )
            yield from _flat(item, f"{place}[{number if named is None else named}]")
    else:
        yield place, value


def _told(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        was, now = before.get(name, _MISSING), after.get(name, _MISSING)
        if was is _MISSING:
            yield f"{_code(name)} is now {_value(now)}."
        elif now is _MISSING:
            yield f"{_code(name)} was {_value(was)} and is gone."
        elif was != now:
            yield f"{_code(name)} was {_value(was)} and is now {_value(now)}."


def _value(value: Any) -> str:
    if isinstance(value, list):
        return _code(", ".join(map(str, value)) or "nothing", limit=4 * _VALUE_LIMIT)
    return _code(str(value) or "nothing", limit=4 * _VALUE_LIMIT)


def _code(text: str, *, limit: int = _NAME_LIMIT) -> str:
    shown = text.replace("`", "'")
    return f"`{shown[:limit]}{'…' if len(shown) > limit else ''}`"
