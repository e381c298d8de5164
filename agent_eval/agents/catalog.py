"""Find agents by name. A new kind of agent is one file and one row in `_ROWS`; a provider has its own.

Each provider of `models.catalog` whose models can be tested is a kind of agent: `openai:MODEL`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from agent_eval.errors import UsageError
from agent_eval.models.catalog import MODELS

if TYPE_CHECKING:
    from agent_eval.agents.base import Agent, AgentOptions, Opening


@dataclass(frozen=True, slots=True)
class AgentKind:
    """One kind of agent.

    Attributes:
        location: The subclass of `agents.base.Agent`, as `module:Class`; imported when needed.
        form: How to write such an agent, for error messages; an agent that can be opened, or several
            joined by ` or `.
        schemes: URL schemes that name this kind; the whole URL then names the agent.
        sees_environment: Whether the agent's code sees the whole environment of agent-eval. A CI job refuses
            such agents, because that environment holds the job's token.
        key_variable: Environment variable that has the agent's key; None for an agent without one.
    """

    name: str
    location: str
    form: str
    schemes: tuple[str, ...] = ()
    sees_environment: bool = False
    key_variable: str | None = None

    @property
    def has_endpoint(self) -> bool:
        """Whether it is asked at an address that `AgentOptions.base_url` replaces."""
        return self.name in MODELS or self.name.startswith("aui")

    def load(self) -> type[Agent]:
        """Import the class."""
        if self.name in MODELS:
            from agent_eval.agents.hosted import agent_of

            return agent_of(self.name)
        module, _, name = self.location.partition(":")
        loaded: type[Agent] = getattr(importlib.import_module(module), name)
        return loaded


_ROWS = (
    AgentKind("command", "agent_eval.agents.command:CommandAgent", "command:PROGRAM ARGUMENTS"),
    AgentKind("http", "agent_eval.agents.http:HttpAgent", "http://… or https://…", schemes=("http", "https")),
    *(
        AgentKind(row.name, row.location, f"{row.name}:MODEL", key_variable=row.key_variable)
        for row in MODELS.values()
        if row.is_agent
    ),
    AgentKind("aui", "agent_eval.agents.aui:AuiAgent", "aui:AGENT_ID"),
    AgentKind("aui-v3", "agent_eval.agents.aui:AuiV3Agent", "aui-v3:AGENT_ID"),
    AgentKind(
        "python",
        "agent_eval.agents.python:PythonAgent",
        "python:MODULE:NAME or python:FILE.py:NAME",
        sees_environment=True,
    ),
    AgentKind("recorded", "agent_eval.agents.base:RecordedAgent", "recorded"),
)

AGENTS: dict[str, AgentKind] = {row.name: row for row in _ROWS}
"""Every kind by name, in the order in which messages list them."""


def agent_forms() -> str:
    """List how to write agents, for error messages: `command:PROGRAM ARGUMENTS; http://…; …`."""
    return "; ".join(row.form for row in _ROWS)


def kind_of(spec: str) -> AgentKind | None:
    """Return the kind of the agent that `spec` names; None for an unknown kind.

    What is no kind and has a space or a slash is a command line: `python agent.py`, `./agent`.
    """
    prefix, _, rest = spec.partition(":")
    if re.search(r"\S[ /]", prefix):
        return AGENTS["command"]
    if rest.startswith("//"):
        return next((row for row in _ROWS if prefix in row.schemes), None)
    return AGENTS.get(prefix)


def open_agent(spec: str, options: AgentOptions | None = None) -> Agent:
    """Build the agent that `spec` names, in one of the forms of `agent_forms`.

    Raises:
        UsageError: `spec` names no kind of agent, or an agent that cannot be used.
    """
    from agent_eval.agents.base import AgentOptions

    kind = kind_of(spec)
    prefix, _, rest = spec.partition(":")
    if kind is None:
        near = get_close_matches(prefix, AGENTS, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"{spec!r} names no agent: there is no kind {prefix!r}",
            remedy=f"{hint}Write it as one of: {agent_forms()}.",
        )
    if prefix not in AGENTS or (rest.startswith("//") and prefix in kind.schemes):
        rest = spec
    return kind.load().from_options(rest, options or AgentOptions())


def agent_from_description(described: Mapping[str, Any], options: AgentOptions) -> Opening:
    """Undo `Agent.describe`: the `spec` and options with which `open_agent` builds the described agent.

    `described` is `execution_config.agent` of a pack that is trusted, or that names a recording. The options
    of the command line win over it.

    Raises:
        KeyError, TypeError, ValueError: The description names no kind, or is incomplete.
    """
    name = described.get("agent")
    if name not in AGENTS:
        raise ValueError(f"there is no kind {name!r}")
    return AGENTS[name].load().from_description(described, options)
