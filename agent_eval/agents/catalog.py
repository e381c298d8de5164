"""Where agents are found. A new kind of agent is one file and one line in `AGENTS`."""

from __future__ import annotations

import importlib
from difflib import get_close_matches

from agent_eval.agents.base import Agent, AgentOptions
from agent_eval.errors import UsageError

AGENTS: dict[str, str] = {
    "anthropic": "agent_eval.agents.anthropic:AnthropicAgent",
    "command": "agent_eval.agents.command:CommandAgent",
    "http": "agent_eval.agents.http:HttpAgent",
    "openai": "agent_eval.agents.openai:OpenAiCompatibleAgent",
    "python": "agent_eval.agents.python:PythonAgent",
    "recorded": "agent_eval.agents.recorded:RecordedAgent",
}
"""Kinds of agents, as `module:Class`. A class has `from_options(rest, options)`."""

FORMS = (
    "command:PROGRAM ARGUMENTS",
    "http://… or https://…",
    "openai:MODEL",
    "anthropic:MODEL",
    "python:MODULE:FUNCTION",
    "recorded",
)
"""How agents are named."""


def open_agent(spec: str, options: AgentOptions | None = None) -> Agent:
    """The agent that `spec` names, in one of `FORMS`.

    Raises:
        UsageError: It names none, or one that cannot be used.
    """
    kind, _, rest = spec.partition(":")
    if kind in ("http", "https") and rest.startswith("//"):
        kind, rest = "http", spec
    if kind not in AGENTS:
        near = get_close_matches(kind, AGENTS, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"{spec!r} names no agent: there is no kind {kind!r}",
            remedy=f"{hint}Write it as one of: {'; '.join(FORMS)}.",
        )
    module, _, name = AGENTS[kind].partition(":")
    make = getattr(importlib.import_module(module), name).from_options
    agent: Agent = make(rest, options or AgentOptions())
    return agent
