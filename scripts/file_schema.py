"""The pydantic model of `agent-eval.yml`, made from the rows of its keys; its JSON Schema is for editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from agent_eval.config.options import Kind, Option
from agent_eval.config.project_file import SHORT
from agent_eval.config.rows.file import KEYS
from agent_eval.contracts.policy import GatePolicy

_TYPES: Mapping[Kind, Any] = {
    "switch": bool,
    "share": float,
    "amount": float,
    "count": int,
    "integer": int,
    "seed": int,
    "parallel": int | Literal["auto"],
    "lines": str | list[str],
    "list": str | list[str],
    "variables": str | list[str],
    "headers": dict[str, str] | list[str],
    "object": Any,
}

_JUDGES = str | list[str] | dict[str, Any]
"""`judges` is a list of names, a file, or the configuration of each judge by its name."""


def model_of(rows: Iterable[Option]) -> type[BaseModel]:
    """Make the model of a file whose keys state these rows; rows without a key are passed over."""
    tree: dict[str, Any] = {}
    for row in rows:
        if row.name in KEYS and not KEYS[row.name].startswith("judges"):
            *groups, name = KEYS[row.name].split(".")
            place = tree
            for group in groups:
                place = place.setdefault(group, {})
            place[name] = (_type_of(row) | None, Field(default=None, description=row.help))
    tree["judges"] = (_JUDGES | None, Field(default=None, description="Judges, and their configuration."))
    return _model("ProjectFile", tree)


def _model(name: str, tree: Mapping[str, Any], above: str = "") -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for key, value in tree.items():
        if not isinstance(value, dict):
            fields[_field(key)] = _aliased(value, key)
            continue
        inner: Any = _model(key.title().replace("_", ""), value, f"{above}{key}.")
        named = f"What stands below `{above}{key}`."
        kinds = inner | str | None if f"{above}{key}" in SHORT else inner | None
        fields[_field(key)] = (kinds, Field(default=None, alias=key, description=named))
    made: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    return made


def _field(key: str) -> str:
    """Name the field of a key; `from` is a word of Python, and some names are those of pydantic's methods."""
    return f"{key}_"


def _aliased(value: tuple[Any, Any], key: str) -> tuple[Any, Any]:
    kind, field = value
    return kind, Field(default=None, alias=key, description=field.description)


def _type_of(row: Option) -> Any:
    if row.part == "own_policy":
        kind = GatePolicy.model_fields[row.goes_to.rpartition(".")[2]].annotation
        return kind | list[str] if row.name == "policy.safety" else kind
    if row.metavar.startswith("NAME="):
        return dict[str, str] | list[str]
    if row.choices and not row.is_listed:
        return Literal[row.choices]
    return _TYPES.get(row.kind, str)
