"""Values of options to parts of a specification; those to flags, and to what a pack records.

Both follow the table: `Option.goes_to` names the field of the specification, `Option.recorded` the one of
`execution_config`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from agent_eval.config.options import SECRET, Command, Option
from agent_eval.config.rows.file import KEYS
from agent_eval.config.spec import AgentSpec, Identity, Judging, Limits, LlmSpec, Output, RunSpec
from agent_eval.config.table import ROWS, options_of, settings_of
from agent_eval.config.values import texts_of
from agent_eval.contracts.execution import AttemptLimits, RunLimits, TrialLimits
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.redaction_rules import RedactionRules
from agent_eval.storage.yaml import parse_yaml

PARTS: dict[str, Callable[..., Any]] = {
    "limits.attempt": AttemptLimits,
    "limits.trial": TrialLimits,
    "limits.run": RunLimits,
    "limits": Limits,
    "agent": AgentSpec,
    "judging.llm": LlmSpec,
    "judging": Judging,
    "identity": Identity,
    "output": Output,
    "redaction": RedactionRules,
}
"""The class of every part of a specification; a part of a part comes before it."""


def assemble(values: Mapping[str, Any], parts: Mapping[str, Callable[..., Any]] = PARTS) -> dict[str, Any]:
    """Build the parts of a specification.

    `values` are by `goes_to`; a field without one keeps its default. The fields returned are those of the
    specification itself, the parts among them.

    Example:
        >>> assemble({"cases": ("refund",), "judging.pass_threshold": 80.0})
        {'cases': ('refund',), 'judging': Judging(...pass_threshold=80.0, ...)}
    """
    fields: dict[str, dict[str, Any]] = {"": {}}
    for place, value in values.items():
        part, _, name = place.rpartition(".")
        fields.setdefault(part, {})[name] = value
    for part, make in parts.items():
        if part in fields:
            above, _, name = part.rpartition(".")
            fields.setdefault(above, {})[name] = make(**fields.pop(part))
    return fields.pop("")


NAMING = ("agent.command", "agent.url", "agent.name")
"""Fields of which one, and only one, names the agent; `agent.base_url` does where none of them does."""

_OF_AN_AGENT = ("agent", "setup", "limits")


def is_for_an_agent(option: Option) -> bool:
    """Whether an option only means something where an agent is run."""
    return option.part.partition(".")[0] in _OF_AN_AGENT


def check_agent(asked: Iterable[Option], *, spell: Callable[[Option], str]) -> None:
    """Refuse options of an agent that contradict each other.

    `asked` are the options that the user gave, without those that hold by default. `spell` writes an option
    as the user does: as a flag, or as an input.

    Raises:
        UsageError: Several agents are named, or options that do not go with the agent or with each other.
    """
    places = {option.goes_to: option for option in asked}
    named = [places[place] for place in NAMING if place in places]
    hosted = places.get("agent.base_url")
    if hosted is not None and {"agent.command", "agent.url"} & places.keys():
        named.append(hosted)
    if len(named) > 1:
        raise UsageError(
            f"Several agents are named: by {' and '.join(map(spell, named))}.",
            remedy="Give one of them.",
            field=named[1].name,
        )
    repair = places.get("agent.repair_command")
    if repair is not None and "agent.command" not in places:
        raise UsageError(
            f"{spell(repair)} goes with an agent that is a program.",
            remedy="Name the program with --propose-command, or as `agent: {run: COMMAND}` in the file.",
            field=repair.name,
        )


def refuse_without_agent(
    asked: Iterable[Option], *, spell: Callable[[Option], str], origin: Callable[[Option], str] = lambda _: ""
) -> None:
    """Refuse options that are for running an agent, where none is named.

    `asked` and `spell` are as for `check_agent`. `origin` says where an option comes from, in brackets, for
    the message.

    Raises:
        UsageError: There is such an option.
    """
    stray = next((option for option in asked if is_for_an_agent(option)), None)
    if stray is not None:
        raise UsageError(
            f"{spell(stray)} is for running an agent, and none is named{origin(stray)}.",
            remedy="Name it with `agent`; or leave this out.",
            field=stray.name,
        )


class _Defaults(NamedTuple):
    """The parts of a specification in which nothing was asked for."""

    agent: AgentSpec = AgentSpec()
    judging: Judging = Judging()
    limits: Limits = Limits()
    identity: Identity = Identity()


def command_line(command: Command, parts: Any) -> list[str]:
    """Write the flags with which a command does what the parts of a specification say.

    `parts` has the parts as attributes, such as a `RunSpec`. Defaults, secrets, and parts that are None, are
    left out.
    """
    words = []
    settings = set(settings_of(command))
    for option in (*options_of(command), *settings_of(command)):
        part = option.part.partition(".")[0]
        if part not in _Defaults._fields or getattr(parts, part) is None:
            continue
        value = _at(parts, option.goes_to)
        if option.kind in SECRET or value == _at(_Defaults(), option.goes_to):
            continue
        if option.kind == "object":
            # One key for each judge that is configured.
            key = KEYS[option.name].rpartition(".")[0]
            for name, each in value.items():
                words += ["--set", f"{key}.{name}={json.dumps(each, ensure_ascii=False)}"] if each else []
        elif option in settings:
            words += ["--set", f"{KEYS[option.name]}={as_yaml(option, value)}"]
        elif option.kind == "switch":
            words.append(option.flag)
        else:
            words += [word for text in texts_of(option, value) for word in (option.flag, text)]
    return words


def as_yaml(option: Option, value: Any) -> str:
    """Write a value as `--set` takes it after `KEY=`."""
    texts = texts_of(option, value)
    if option.is_listed:
        return json.dumps(texts, ensure_ascii=False)
    if not isinstance(value, str | Path):
        return texts[0].lower()
    with suppress(InvalidInput):
        if parse_yaml(texts[0].encode(), source="--set") == texts[0]:
            return texts[0]
    return json.dumps(texts[0], ensure_ascii=False)


def _at(parts: Any, place: str) -> Any:
    return reduce(getattr, place.split("."), parts)


_RECORDED = {option.recorded: option for option in ROWS if option.recorded}
"""By field of `execution_config`. Rows for several commands that have the same field go to the same place."""


def recorded_fields(spec: RunSpec) -> dict[str, Any]:
    """Collect the fields of `execution_config` that the table names, with the values of a specification."""
    recorded: dict[str, Any] = {}
    for field, option in _RECORDED.items():
        part, _, name = field.rpartition(".")
        within = recorded.setdefault(part, {}) if part else recorded
        within[name] = _at(spec, option.goes_to)
    return recorded


def values_from_record(execution: Any) -> dict[str, Any]:
    """Read the values of options back, by `goes_to`, from the `execution_config` of a pack."""
    return {option.goes_to: _at(execution, field) for field, option in _RECORDED.items()}
