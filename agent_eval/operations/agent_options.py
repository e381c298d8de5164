"""Read the texts and secrets that an agent's specification names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_eval.agents.base import AgentOptions
from agent_eval.config.spec import AgentSpec
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.files import read_bytes

LARGEST_PROMPT = 1 << 20


def agent_options(agent: AgentSpec, environ: Mapping[str, str]) -> AgentOptions:
    """Read the texts and secrets that an agent's specification names.

    Raises:
        UsageError: A header's variable is not set.
        InvalidInput: The system prompt cannot be read.
    """
    return AgentOptions(
        environ=environ,
        repair_command=agent.repair_command,
        pass_on=agent.environment,
        keep_alive=agent.keep_alive,
        headers={name: _value_of(variable, environ) for name, variable in agent.headers},
        gateway=agent.gateway,
        base_url=agent.base_url,
        system=read_prompt(agent.system_prompt) if agent.system_prompt is not None else None,
    )


def _value_of(variable: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "")
    if not value:
        raise UsageError(
            f"agent-header names the environment variable {variable}, which is not set.",
            remedy="Set it to the value of the header.",
            field="agent-header",
        )
    return value


def read_prompt(path: Path) -> str:
    """Read the text of a system prompt.

    Raises:
        InvalidInput: The file is missing, larger than a MiB, or not UTF-8.
    """
    try:
        return read_bytes(path, max_bytes=LARGEST_PROMPT).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text", remedy="Save it as UTF-8.", file=str(path)) from None
