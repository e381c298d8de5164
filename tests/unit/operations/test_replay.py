"""From what a pack says of its agent to an agent that can be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import open_agent
from agent_eval.errors import UsageError
from agent_eval.operations.replay import recorded_agent
from tests.unit.agents.tasks import AGENT_FORMS, write_agent_module

DESCRIBED = {
    **dict.fromkeys(AGENT_FORMS.values(), AgentOptions()),
    "command:python 'my agent.py'": AgentOptions(repair_command="python repair.py", pass_on=("SETTING",)),
    "openai:small": AgentOptions(
        base_url="http://localhost:1/v1", system="Be brief.", parameters={"seed": 1}
    ),
    "openai:": AgentOptions(),
    "anthropic:large": AgentOptions(parameters={"max_tokens": 9}),
}
"""Agents and their settings: every kind as messages show it, and what kinds have besides."""


@pytest.mark.parametrize("spec", DESCRIBED)
def test_an_agent_is_run_from_what_it_says_of_itself(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent_module(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    agent = open_agent(spec, DESCRIBED[spec])
    described = agent.describe()
    agent.close()
    found, options = recorded_agent(described, AgentOptions())
    again = open_agent(found, options)
    assert again.describe() == described
    again.close()


def test_what_the_command_line_says_comes_first() -> None:
    agent = open_agent("openai:m", AgentOptions(base_url="http://localhost:1/v1", system="before"))
    mine = AgentOptions(base_url="http://localhost:2/v1", system="now", parameters={"seed": 2})
    _, options = recorded_agent(agent.describe(), mine)
    assert (options.base_url, options.system, options.parameters) == (
        "http://localhost:2/v1",
        "now",
        {"seed": 2},
    )
    agent.close()


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"agent": "teleprinter"},
        {"agent": "command"},
        {"agent": "command", "command": "not a list", "environment": 7},
        {"agent": "openai", "model": "m"},
        {"agent": "http", "url": "https://x/[redacted]"},
    ],
)
def test_what_says_too_little_is_refused(described: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="cannot be run from what the pack says"):
        recorded_agent(described, AgentOptions())
