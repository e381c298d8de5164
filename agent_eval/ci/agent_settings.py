"""Which agent a job runs, and how, as the user said it; checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.agents.catalog import AGENTS
from agent_eval.ci.agent_inputs import AGENT_INPUTS
from agent_eval.errors import UsageError

NAMED_BY = ("agent-command", "agent-url", "agent-openai-base-url", "agent")
"""Inputs of which one, and only one, says which agent it is."""

MOST_TRIALS = 1000

_VARIABLE = re.compile(r"[^=\0\s]+")
_IN_THIS_PROCESS = frozenset({"python"})


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """An agent and how it is run. Fields are named as the inputs; see `ci.agent_inputs` for their meaning."""

    agent_command: str
    agent_url: str
    agent_openai_base_url: str
    agent: str
    agent_model: str
    system_prompt: Path | None
    agent_env: tuple[str, ...]
    agent_header: tuple[str, ...]
    setup_command: str
    setup_env: tuple[str, ...]
    setup_timeout_seconds: float
    trials: int
    max_repairs: int
    parallel: int | None
    command_timeout_seconds: float
    max_output_bytes: int | None
    max_steps: int | None
    max_tool_calls: int | None
    max_case_seconds: float | None
    max_case_tokens: int | None
    max_case_cost: float | None
    max_run_seconds: float | None
    max_run_cost: float | None
    strict_side_effects: bool
    replay: Path | None

    @property
    def spec(self) -> str:
        """The agent as `agents.catalog.open_agent` wants it."""
        if self.agent_command:
            return f"command:{self.agent_command}"
        if self.agent_openai_base_url:
            return f"openai:{self.agent_model}"
        return self.agent_url or self.agent

    @property
    def headers(self) -> dict[str, str]:
        """Name of each header to the environment variable that has its value."""
        pairs = (line.partition("=") for line in self.agent_header)
        return {name.strip(): variable.strip() for name, _, variable in pairs}


def agent_settings(values: Mapping[str, Any], given: Mapping[str, str]) -> AgentSettings | None:
    """The agent that the values name; None where they name none, and recorded traces are judged.

    Args:
        values: Parsed values of `AGENT_INPUTS`, by field.
        given: Those that somebody gave, by input name: where each came from.

    Raises:
        UsageError: Several agents, settings for an agent without one, or a value that no agent can use.
    """
    named = [name for name in NAMED_BY if name in given]
    if not named:
        stray = next((row.name for row in AGENT_INPUTS if row.name in given), None)
        if stray is None:
            return None
        raise UsageError(
            f"{stray} is for running an agent, and none is named (from {given[stray]}).",
            remedy=f"Give one of {', '.join(NAMED_BY)}, or leave it out.",
            field=stray,
        )
    if len(named) > 1:
        raise UsageError(
            f"Several agents are named: by {' and '.join(named)}.",
            remedy="Give one of them; several agents are several steps.",
            field=named[1],
        )
    settings = AgentSettings(**values)
    _check_kind(settings)
    _check_names(settings)
    if settings.trials > MOST_TRIALS:
        raise UsageError(
            f"trials: {settings.trials} is more than {MOST_TRIALS}.",
            remedy=f"Set `trials` to at most {MOST_TRIALS}.",
            field="trials",
        )
    return settings


def _check_kind(settings: AgentSettings) -> None:
    kind = settings.agent.partition(":")[0]
    if kind in _IN_THIS_PROCESS:
        raise UsageError(
            f"agent: {settings.agent!r} would run in the process that holds the job's token.",
            remedy="Give `agent-command` a program that calls the function.",
            field="agent",
        )
    if settings.agent_url and settings.agent_url.partition(":")[0] in AGENTS.keys() - {"http"}:
        raise UsageError(
            f"agent-url: {settings.agent_url!r} is no address.",
            remedy="Write it as https://host/path, or give it as `agent`.",
            field="agent-url",
        )


def _check_names(settings: AgentSettings) -> None:
    for name, listed in (("agent-env", settings.agent_env), ("setup-env", settings.setup_env)):
        for variable in listed:
            if not _VARIABLE.fullmatch(variable):
                # What stands there by mistake may be a secret.
                raise UsageError(
                    f"{name} has something that is not the name of a variable.",
                    remedy=f"Write names into `{name}`, one a line; the values come from the step's `env`.",
                    field=name,
                )
    for line in settings.agent_header:
        header, separator, variable = line.partition("=")
        if not (separator and header.strip() and _VARIABLE.fullmatch(variable.strip())):
            raise UsageError(
                "agent-header has a line that is not of the form NAME=VARIABLE.",
                remedy="Write for example `Authorization=AGENT_AUTHORIZATION`, and set that variable.",
                field="agent-header",
            )
