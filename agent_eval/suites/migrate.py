"""Migrate a suite to the current schema version, or to an earlier one (`schema migrate`)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS, SCHEMA_VERSION
from agent_eval.contracts.event import ADDED
from agent_eval.errors import InvalidInput
from agent_eval.suites.problems import json_path, short_json

CASE_NAMES = {"expected": "expected_output", "regex": "regex_patterns"}
"""Fields of a case that had another name before 1.1: old name to new name."""

TOOL_CONTRACT_NAMES = {"required": "required_args", "forbidden": "forbidden_args"}
"""The same for a tool contract."""

VERSIONS_OF_OLD_NAMES = ("0.1.0", "1.0.0")
"""Versions in which these names were the only ones. A suite of such a version may still have either."""

_CASE_FIELDS = {"1.1.0": "trials", "1.2.0": "turns conversation final_output_tool setup teardown"}
"""Fields of a case by the version that introduced them."""

_EVENT_FIELDS = {"1.1.0": "call_id", "1.2.0": " ".join(ADDED)}
"""The same of an event."""

_EVENT_TYPES = {"1.2.0": "reasoning model_call handoff guardrail state error"}
"""Types of events by the version since which they are no message."""

_SHOWN = 5


def migrate(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a suite in the current schema version, without changing the argument.

    Fields get their current names, a trace that numbers none of its events gets numbers, and
    `metadata.schema_version` gets the current version. Nothing is dropped, not even unknown fields. A suite
    of the current version stays the same, so migrating twice changes nothing.

    The payload is `{"dataset_id", "cases", ...}` as plain JSON, of any version this program reads.

    Raises:
        InvalidInput: Not a suite, an unknown version, or a field under both its names with different values.
    """
    migrated = copy.deepcopy(dict(payload))
    metadata = migrated.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise _wrong_type("metadata", "an object", metadata)
    for version in (migrated.get("schema_version"), metadata.get("schema_version")):
        if version is not None and version not in READABLE_SCHEMA_VERSIONS:
            raise InvalidInput(
                f"schema version {short_json(version)} cannot be migrated",
                remedy=f"Known versions are {', '.join(READABLE_SCHEMA_VERSIONS)}.",
                field="metadata.schema_version",
            )
    cases = migrated.get("cases")
    if not isinstance(cases, list):
        raise _wrong_type("cases", "an array", cases)
    for position, case in enumerate(cases):
        if not isinstance(case, dict):
            raise _wrong_type(f"cases[{position}]", "an object", case)
        for place, fields, names in _renamed(case):
            _rename(fields, names, f"cases[{position}]{place and '.'}{place}")
        trace = case.get("trace")
        if isinstance(trace, list) and all(isinstance(event, dict) and "idx" not in event for event in trace):
            for index, event in enumerate(trace):
                event["idx"] = index
    _state_version(migrated, SCHEMA_VERSION)
    return migrated


def old_names(case: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield `(path, current name)` for each field of a case that has its old name."""
    for place, fields, names in _renamed(case):
        for old, new in names.items():
            if old in fields:
                yield f"{place}{place and '.'}{old}", new


def _renamed(case: Mapping[str, Any]) -> Iterator[tuple[str, Any, Mapping[str, str]]]:
    """Yield the objects of a case whose fields had other names: place, fields, and old names to new names."""
    yield "", case, CASE_NAMES
    contracts = case.get("tool_contracts")
    for tool, contract in contracts.items() if isinstance(contracts, dict) else ():
        if isinstance(contract, dict):
            yield json_path(("tool_contracts", tool)), contract, TOOL_CONTRACT_NAMES


def _rename(fields: dict[str, Any], names: Mapping[str, str], place: str) -> None:
    for old, new in names.items():
        if old not in fields:
            continue
        if new in fields and fields[new] != fields[old]:
            raise InvalidInput(
                f"{place} has both {old} and {new}, with different values",
                remedy=f"Keep {new} and remove {old}.",
                field=f"{place}.{old}",
            )
        fields[new] = fields.pop(old)


def _state_version(suite: dict[str, Any], version: str) -> None:
    suite["metadata"]["schema_version"] = version
    if "schema_version" in suite:
        suite["schema_version"] = version


def _wrong_type(place: str, expected: str, value: Any) -> InvalidInput:
    return InvalidInput(
        f"{place} must be {expected}, not {short_json(value)}",
        remedy="Run `agent-eval validate` on the suite and correct what it lists.",
        field=place,
    )


def migrate_to(payload: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a suite, as `migrate` takes it, in a schema version, which may be an earlier one.

    Raises:
        InvalidInput: As `migrate`; the version is unknown; or the suite has what that version cannot hold.
    """
    if version not in READABLE_SCHEMA_VERSIONS:
        raise InvalidInput(
            f"schema version {short_json(version)} cannot be written",
            remedy=f"Known versions are {', '.join(READABLE_SCHEMA_VERSIONS)}.",
            field="target_version",
        )
    migrated = migrate(payload)
    if lost := list(_lost(migrated["cases"], version)):
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        raise InvalidInput(
            f"schema version {version} cannot hold {', '.join(lost[:_SHOWN])}{more}",
            remedy="Remove these fields, or write a later version.",
            field=lost[0],
            lost=len(lost),
        )
    for case in migrated["cases"] if version in VERSIONS_OF_OLD_NAMES else ():
        for place, fields, names in _renamed(case):
            _rename(fields, {new: old for old, new in names.items()}, place)
    _state_version(migrated, version)
    return migrated


def _lost(cases: list[dict[str, Any]], version: str) -> Iterator[str]:
    """Yield the place of everything that a version cannot hold."""
    later = READABLE_SCHEMA_VERSIONS[READABLE_SCHEMA_VERSIONS.index(version) + 1 :]
    case_fields, event_fields, types = (
        [name for known in later for name in names.get(known, "").split()]
        for names in (_CASE_FIELDS, _EVENT_FIELDS, _EVENT_TYPES)
    )
    for position, case in enumerate(cases):
        yield from (f"cases[{position}].{name}" for name in case_fields if case.get(name))
        trace = case.get("trace")
        for index, event in enumerate(trace if isinstance(trace, list) else ()):
            if not isinstance(event, dict):
                continue
            place = f"cases[{position}].trace[{index}]"
            yield from (f"{place}.{name}" for name in event_fields if event.get(name) is not None)
            if event.get("type") in types:
                yield f"{place}.type {event['type']}"
            if "1.1.0" in later and event.get("ts") is None:
                yield f"{place} without ts"
