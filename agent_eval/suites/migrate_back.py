"""Write a suite in an earlier schema version, where nothing is lost (`schema migrate --target-version`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS, SCHEMA_VERSION
from agent_eval.errors import InvalidInput
from agent_eval.suites.migrate import CASE_NAMES, TOOL_CONTRACT_NAMES, VERSIONS_OF_OLD_NAMES, migrate
from agent_eval.suites.problems import short_json

_CASE_FIELDS = {
    "1.1.0": ("trials",),
    "1.2.0": ("turns", "conversation", "final_output_tool", "topic", "setup", "teardown"),
}
"""Fields of a case by the version that introduced them."""

_EVENT_FIELDS = {
    "1.1.0": ("call_id",),
    "1.2.0": (
        *("agent_name", "turn", "model", "usage", "cost_usd", "stop_reason", "block_reason"),
        *("content_recorded", "parts", "ran_on"),
    ),
}
"""The same of an event."""

_EVENT_TYPES = {
    "1.2.0": ("reasoning", "model_call", "handoff", "guardrail", "state", "error"),
}
"""Types of events by the version since which they are no message."""

_SHOWN = 5


def migrate_to(payload: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a suite in a schema version, which may be an earlier one.

    Args:
        payload: `{"dataset_id", "cases", ...}` as plain JSON, of any version this program reads.
        version: The version to write.

    Raises:
        InvalidInput: As `migrate`; the version is unknown; or the suite has what that version cannot hold.

    Example:
        >>> suite = {"dataset_id": "orders", "cases": [{"case_id": "refund", "expected_output": 5}]}
        >>> migrate_to(suite, "1.0.0")["cases"]
        [{'case_id': 'refund', 'expected': 5}]
    """
    if version not in READABLE_SCHEMA_VERSIONS:
        raise InvalidInput(
            f"schema version {short_json(version)} cannot be written",
            remedy=f"Known versions are {', '.join(READABLE_SCHEMA_VERSIONS)}.",
            field="target_version",
        )
    current = migrate(payload)
    if version == SCHEMA_VERSION:
        return current
    lost = list(_lost(current["cases"], version))
    if lost:
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        raise InvalidInput(
            f"schema version {version} cannot hold {', '.join(lost[:_SHOWN])}{more}",
            remedy="Remove these fields, or write a later version.",
            field=lost[0],
            lost=len(lost),
        )
    for case in current["cases"] if version in VERSIONS_OF_OLD_NAMES else ():
        _rename_back(case)
    current["metadata"]["schema_version"] = version
    if "schema_version" in current:
        current["schema_version"] = version
    return current


def _lost(cases: list[dict[str, Any]], version: str) -> Iterator[str]:
    """Yield the place of everything that a version cannot hold."""
    order = READABLE_SCHEMA_VERSIONS
    later = order[order.index(version) + 1 :]
    case_fields = [name for known in later for name in _CASE_FIELDS.get(known, ())]
    event_fields = [name for known in later for name in _EVENT_FIELDS.get(known, ())]
    types = [name for known in later for name in _EVENT_TYPES.get(known, ())]
    for position, case in enumerate(cases):
        place = f"cases[{position}]"
        yield from (f"{place}.{name}" for name in case_fields if case.get(name))
        trace = case.get("trace")
        for index, event in enumerate(trace if isinstance(trace, list) else ()):
            if isinstance(event, dict):
                yield from _lost_of_event(event, f"{place}.trace[{index}]", event_fields, types)
                if "1.1.0" in later and event.get("ts") is None:
                    yield f"{place}.trace[{index}] without ts"


def _lost_of_event(
    event: Mapping[str, Any], place: str, fields: list[str], types: list[str]
) -> Iterator[str]:
    yield from (f"{place}.{name}" for name in fields if event.get(name) is not None)
    if event.get("type") in types:
        yield f"{place}.type {event['type']}"


def _rename_back(case: dict[str, Any]) -> None:
    _rename(case, CASE_NAMES)
    contracts = case.get("tool_contracts")
    for contract in contracts.values() if isinstance(contracts, dict) else ():
        if isinstance(contract, dict):
            _rename(contract, TOOL_CONTRACT_NAMES)


def _rename(fields: dict[str, Any], names: Mapping[str, str]) -> None:
    for old, new in names.items():
        if new in fields:
            fields[old] = fields.pop(new)
