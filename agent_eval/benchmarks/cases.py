"""Turn a scenario into a case: what is asked, the tools with their answers, and what judges expect."""

from __future__ import annotations

import json
from typing import Any

from agent_eval.benchmarks.catalog import Archetype
from agent_eval.benchmarks.scenario import Call, Json, Scenario, Tool


def case_of(scenario: Scenario, archetype: Archetype, case_id: str) -> Json:
    """Return the definition of a case, as JSON values.

    Args:
        archetype: Where its tools are.
    """
    return {
        "case_id": case_id,
        "input": scenario.request,
        "expected_output": _expected(scenario),
        "tool_contracts": _contracts(scenario, archetype),
        "policy": {
            "required_tools": list(scenario.required),
            "forbidden_tools": list(scenario.forbidden),
        },
        "regex_patterns": list(scenario.patterns),
        "json_schema": scenario.schema,
        "metadata": _metadata(scenario, archetype),
    }


def _expected(scenario: Scenario) -> Any:
    if scenario.schema is not None:
        return json.loads(scenario.script.answer)
    return scenario.facts[0] if scenario.facts else None


def _metadata(scenario: Scenario, archetype: Archetype) -> Json:
    offered = [archetype.tools[name] for name in scenario.offered]
    metadata: Json = {
        "benchmark": {
            "scenario": scenario.name,
            "twists": list(scenario.twists),
            "trap": scenario.trap.name if scenario.trap else None,
        },
        "tools": [_declared(tool) for tool in offered],
        "tool_response_cassette": _cassette(scenario),
        "final_output": _final_output(scenario),
        "trajectory_match": _trajectory(scenario, archetype),
        "strict": _strict(scenario),
        "allowed_tools": [tool.name for tool in offered if tool.name not in scenario.forbidden],
    }
    if scenario.withheld:
        metadata["canaries"] = list(scenario.withheld)
    if scenario.proof is not None:
        metadata["lean_payload"] = scenario.proof
    return metadata


def _declared(tool: Tool) -> Json:
    return {"name": tool.name, "description": tool.description, "parameters": tool.schema}


def _contracts(scenario: Scenario, archetype: Archetype) -> Json:
    """Return the contract of each tool of the right way, with stricter arguments where the task has them."""
    contracts: Json = {}
    for name in dict.fromkeys(call.tool for call in scenario.script.calls):
        tool = archetype.tools[name]
        schema = tool.schema
        for narrowed, argument, stricter in scenario.narrowed:
            if narrowed == name:
                schema["properties"][argument] = {"allOf": [schema["properties"][argument], stricter]}
        contracts[name] = {"required_args": tool.required, "args_schema": schema}
    return contracts


def _cassette(scenario: Scenario) -> list[Json]:
    """Record the answers of the tools, on the right way and on the wrong one.

    Rows of the same call answer its repetitions in order. The wrong way adds only calls of its own.
    """
    calls = list(scenario.script.calls)
    if scenario.trap is not None:
        known = {_key(call) for call in calls}
        calls += [call for call in scenario.trap.script.calls if _key(call) not in known]
    return [_row(call) for call in calls]


def _key(call: Call) -> str:
    return f"{call.tool} {json.dumps(call.arguments, sort_keys=True)}"


def _row(call: Call) -> Json:
    answer = {"response": call.response} if call.error is None else {"error": call.error}
    return {"tool": call.tool, "arguments": call.arguments, **answer}


def _final_output(scenario: Scenario) -> Json:
    if scenario.schema is not None:
        return {"mode": "json"}
    expected: Json = {"mode": "contains"} if scenario.facts else {}
    if scenario.facts[1:]:
        expected["contains"] = list(scenario.facts[1:])
    if scenario.withheld:
        expected["not_contains"] = list(scenario.withheld)
    return expected


def _trajectory(scenario: Scenario, archetype: Archetype) -> Json:
    """Expect each call of the right way once, by the arguments that are no prose."""
    expected: list[Json] = []
    for call in scenario.script.calls:
        firm = archetype.tools[call.tool].firm
        arguments = {name: value for name, value in call.arguments.items() if name in firm}
        row = {"tool": call.tool, "arguments": arguments, "match": "partial"}
        if row not in expected:
            expected.append(row)
    forbidden = [{"tool": name} for name in scenario.forbidden]
    return {"mode": "superset", "calls": expected, **({"forbidden": forbidden} if forbidden else {})}


def _strict(scenario: Scenario) -> list[Json]:
    return [
        *({"strict": "tool_used", "toolName": name} for name in scenario.required),
        *({"strict": "tool_not_used", "toolName": name} for name in scenario.forbidden),
    ]
