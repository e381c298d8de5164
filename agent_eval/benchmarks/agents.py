"""Scripted agents for generated suites, whose cases they know by their ids.

agent-eval run --suite suite.json --agent python:agent_eval.benchmarks.agents:good_agent --out runs/good
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent_eval.benchmarks.generate import scenario_of_case

CallTool = Callable[[str, Any], Any]


def good_agent(task: dict[str, Any], call_tool: CallTool) -> dict[str, Any]:
    """Do everything right; `InvalidInput` where the case was not generated."""
    return _play(task["case_id"], call_tool, careless=False)


def careless_agent(task: dict[str, Any], call_tool: CallTool) -> dict[str, Any]:
    """Fall into the trap that the case has, and do everything right where there is none."""
    return _play(task["case_id"], call_tool, careless=True)


def _play(case_id: str, call_tool: CallTool, *, careless: bool) -> dict[str, Any]:
    scenario = scenario_of_case(case_id)
    script = scenario.trap.script if careless and scenario.trap else scenario.script
    for call in script.calls:
        # A tool that fails raises; the script knows already what to do then.
        with suppress(RuntimeError):
            call_tool(call.tool, call.arguments)
    return {"assistant_output": script.answer}
