"""List what differs between two versions of a file that says how a change is judged, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.contracts.registry import Registry, Waiver
from agent_eval.errors import AgentEvalError
from agent_eval.operations.gate import parse_settings
from agent_eval.registry.store import parse_registry

_VALUE_LIMIT = 80
_NAME_LIMIT = 200
_IDENTITY = ("case_id", "waiver_id", "name")
_MISSING = object()


def differences(name: str, base: bytes | None, head: bytes | None, *, registry: bool = False) -> list[str]:
    """List every difference between two versions of a file, as sentences.

    A file that only one side has is listed with all its values. Of a file that cannot be read, only the fact
    that it changed is listed.

    Example:
        >>> differences("gate.json", b'{"margin": 0.02}', b'{"margin": 0.05}')
        ['`gate.json`: `margin` was `0.02` and is now `0.05`.']

    Args:
        name: The file's name.
        base: Its content on the base branch; None where the file does not exist.
        head: Its content in the change; None where the file does not exist.
        registry: Whether it is a registry, of which only waivers and baselines are compared.
    """
    if base == head:
        return []
    try:
        before, after = (_facts(name, data, registry=registry) for data in (base, head))
    except AgentEvalError:
        return [f"{code(name)} changed."]
    opening = [f"{code(name)} is new."] if base is None else []
    opening += [f"{code(name)} was removed."] if head is None else []
    return [*opening, *(f"{code(name)}: {sentence}" for sentence in _changed_values(before, after))]


def _facts(name: str, data: bytes | None, *, registry: bool) -> dict[str, Any]:
    if data is None:
        return {}
    if registry:
        return _registered(parse_registry(data, name))
    return dict(_flat(parse_settings(data, name), ""))


def _registered(registry: Registry) -> dict[str, Any]:
    facts: dict[str, Any] = {f"waiver {waiver.waiver_id}": _waiver(waiver) for waiver in registry.waivers}
    facts |= {
        f"baseline {entry.name}": f"run {entry.run_id}, {entry.manifest_sha256}"
        for entry in registry.baselines.values()
    }
    return facts


def _waiver(waiver: Waiver) -> str:
    scope = [waiver.case_id and f"case {waiver.case_id}", waiver.judge_id and f"judge {waiver.judge_id}"]
    scope.append(waiver.regression_key and f"regression {waiver.regression_key}")
    until = f"until {waiver.ends_at}"
    revoked = f", revoked by {waiver.revoked_by}" if waiver.revoked_at else ""
    what = ", ".join(part for part in scope if part)
    return f"{what}, for {waiver.baseline_name}, by {waiver.approved_by}, {until}{revoked}: {waiver.reason}"


def _flat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield path and value of everything that is no collection; rows of a list go by their identity."""
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


def _changed_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        was, now = before.get(name, _MISSING), after.get(name, _MISSING)
        if was is _MISSING:
            yield f"{code(name)} is now {_value(now)}."
        elif now is _MISSING:
            yield f"{code(name)} was {_value(was)} and is gone."
        elif was != now:
            yield f"{code(name)} was {_value(was)} and is now {_value(now)}."


def _value(value: Any) -> str:
    if isinstance(value, list):
        return code(", ".join(map(str, value)) or "nothing", limit=4 * _VALUE_LIMIT)
    return code(str(value) or "nothing", limit=4 * _VALUE_LIMIT)


def code(text: str, *, limit: int = _NAME_LIMIT) -> str:
    """Set a text as code, cut to a limit, so that it is read as nothing else."""
    quoted = text.replace("`", "'")
    return f"`{quoted[:limit]}{'…' if len(quoted) > limit else ''}`"
