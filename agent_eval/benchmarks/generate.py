"""Generate a suite of an archetype: the same request gives the same bytes."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from agent_eval.benchmarks.archetypes import TODAY, Archetype, Call, Json, Scenario, Script, archetype
from agent_eval.benchmarks.twists import combined, varied
from agent_eval.contracts import SCHEMA_VERSION

MODELS = (("gpt-4.1-mini", 0.4, 1.6), ("claude-haiku-4-5", 1.0, 5.0), ("gemini-2.5-flash", 0.3, 2.5))
"""Names of models with US dollars for a million tokens of input and output."""


def case_of(scenario: Scenario, archetype: Archetype, case_id: str) -> Json:
    """Return the definition of a case, as JSON values."""
    if scenario.schema is not None:
        expected = json.loads(scenario.script.answer)
    else:
        expected = scenario.facts[0] if scenario.facts else None
    # A contract for each tool of the right way, with stricter arguments where the task has them.
    contracts: Json = {}
    for name in dict.fromkeys(call.tool for call in scenario.script.calls):
        schema = archetype.tools[name].schema
        for narrowed, argument, stricter in scenario.narrowed:
            if narrowed == name:
                schema["properties"][argument] = {"allOf": [schema["properties"][argument], stricter]}
        contracts[name] = {"required_args": archetype.tools[name].required, "args_schema": schema}
    return {
        "case_id": case_id,
        "input": scenario.request,
        "expected_output": expected,
        "tool_contracts": contracts,
        "policy": {
            "required_tools": list(scenario.required),
            "forbidden_tools": list(scenario.forbidden),
        },
        "regex_patterns": list(scenario.patterns),
        "json_schema": scenario.schema,
        "metadata": _metadata(scenario, archetype),
    }


def _metadata(scenario: Scenario, archetype: Archetype) -> Json:
    offered = [archetype.tools[name] for name in scenario.offered]
    # The answers of the tools, on the right way and on the wrong one, which adds only calls of its own. Rows
    # of the same call answer its repetitions in order.
    right = scenario.script.calls
    wrong = scenario.trap.script.calls if scenario.trap else ()
    recorded = [*right, *(each for each in wrong if not any(each.same(call) for call in right))]
    final: Json = {"mode": "contains"} if scenario.facts else {}
    if scenario.schema is not None:
        final = {"mode": "json"}
    else:
        final |= {"contains": list(scenario.facts[1:])} if scenario.facts[1:] else {}
        final |= {"not_contains": list(scenario.withheld)} if scenario.withheld else {}
    metadata: Json = {
        "benchmark": {
            "scenario": scenario.name,
            "twists": list(scenario.twists),
            "trap": scenario.trap.name if scenario.trap else None,
        },
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.schema}
            for tool in offered
        ],
        "tool_response_cassette": [
            {
                "tool": call.tool,
                "arguments": call.arguments,
                **({"response": call.response} if call.error is None else {"error": call.error}),
            }
            for call in recorded
        ],
        "final_output": final,
        "trajectory_match": _trajectory(scenario, archetype),
        "strict": [
            *({"strict": "tool_used", "toolName": name} for name in scenario.required),
            *({"strict": "tool_not_used", "toolName": name} for name in scenario.forbidden),
        ],
        "allowed_tools": [tool.name for tool in offered if tool.name not in scenario.forbidden],
    }
    if scenario.withheld:
        metadata["canaries"] = list(scenario.withheld)
    if scenario.proof is not None:
        metadata["lean_payload"] = scenario.proof
    return metadata


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


class Recorder:
    """Records one script; `rng` is the source of times and token counts."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._now = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC)
        self._now += timedelta(seconds=rng.randrange(40_000))
        self._model = rng.choice(MODELS)
        self._read = rng.randrange(500, 1400)
        self._ids = count(1)
        self.events: list[Json] = []

    def record(self, request: str, script: Script) -> list[Json]:
        """Record the user's request, the calls with their results, and the answer."""
        self._add("user", "message", 0, input=request)
        group: list[Call] = []
        for call, after in zip(script.calls, (*script.calls[1:], None), strict=True):
            group.append(call)
            if after is None or not after.together:
                self._record_group(group)
                group = []
        self._add("agent", "message", self._thinking(), output=script.answer, **self._answered(script.answer))
        return self.events

    def _record_group(self, group: list[Call]) -> None:
        """Record what a model asks for in one go."""
        if self._rng.random() < 0.25:
            words = f"Next I need {', '.join(call.tool for call in group)}."
            self._add("agent", "reasoning", self._rng.randrange(40, 200), output=words)
        results = []
        for position, call in enumerate(group):
            spent = self._answered(str(call.arguments), "tool_calls") if position == 0 else {}
            latency = self._thinking() if position == 0 else 0
            named = {"tool": call.tool, "call_id": f"call_{next(self._ids):02d}"}
            self._add("agent", "tool_call", latency, **named, input=call.arguments, **spent)
            results.append((named, call.result))
        # It is answered in any order.
        self._rng.shuffle(results)
        for named, result in results:
            self._read += len(str(result)) // 4
            self._add("tool", "tool_result", self._rng.randrange(30, 900), **named, **result)

    def _thinking(self) -> int:
        return self._rng.randrange(400, 2600)

    def _answered(self, text: str, stop: str = "stop") -> Json:
        """Return the tokens and the cost of one answer of the model, and why it ended."""
        name, of_input, of_output = self._model
        written = len(text) // 4 + self._rng.randrange(12, 90)
        cost = round((self._read * of_input + written * of_output) / 1_000_000, 6)
        usage = {"input_tokens": self._read, "output_tokens": written}
        self._read += written
        return {"model": name, "usage": usage, "cost_usd": cost, "stop_reason": stop}

    def _add(self, actor: str, kind: str, latency: int, **fields: Any) -> None:
        self._now += timedelta(milliseconds=latency)
        stamp = self._now.isoformat(timespec="milliseconds")
        event = {"ts": stamp, "actor": actor, "type": kind, **fields}
        self.events.append(event if actor == "user" else {**event, "latency_ms": latency})


TWO_OF = 0.4
"""Share of the cases that ask for two things, where these go together."""

_CASE_ID = re.compile(r"(?P<archetype>[a-z_]+)-(?P<seed>-?\d+)-(?P<number>\d{4,})-[a-z_]+")


@dataclass(frozen=True)
class SuiteRequest:
    """Which suite to generate; `with_traces` adds the traces of an agent that does everything right."""

    archetype: str
    cases: int
    seed: int = 0
    with_traces: bool = False


def generate_suite(request: SuiteRequest) -> Json:
    """Generate a suite, as JSON values.

    The first cases of a larger suite of the same seed are those of a smaller one, and no definition of a case
    depends on whether it has a trace, so that two such suites can be compared.
    """
    of = archetype(request.archetype)
    cases = []
    for number in range(request.cases):
        case_id, scenario = scenario_of(of, request.seed, number)
        cases.append(case_of(scenario, of, case_id))
        if request.with_traces:
            cases[-1]["trace"] = numbered(record(scenario, case_id))
    benchmarks = [case["metadata"]["benchmark"] for case in cases]
    traps = Counter(each["trap"] for each in benchmarks if each["trap"])
    about = {
        "archetype": request.archetype,
        "seed": request.seed,
        "scenarios": len({each["scenario"] for each in benchmarks}),
        "traps": dict(sorted(traps.items())),
    }
    return {
        "dataset_id": f"{request.archetype}_{request.cases}",
        "metadata": {"schema_version": SCHEMA_VERSION, "benchmark": about},
        "cases": cases,
    }


def scenario_of(of: Archetype, seed: int, number: int) -> tuple[str, Scenario]:
    """Make the scenario of the case at a place of a suite, from 0, with the id of that case.

    Each scenario comes once in every round of all of them, in an order of the round's own.
    """
    turn, place = divmod(number, len(of.scenarios))
    order = list(of.scenarios)
    random.Random(f"{of.name}/{seed}/round {turn}").shuffle(order)
    rng = random.Random(f"{of.name}/{seed}/{number}")
    plain = order[place](rng)
    other = rng.choice(of.scenarios)(rng)
    two = combined(plain, other) if other.name != plain.name and rng.random() < TWO_OF else None
    scenario = varied(two or plain, of, rng)
    return f"{of.name}-{seed}-{number:04d}-{scenario.name}", scenario


def scenario_of_case(case_id: str) -> Scenario | None:
    """Make the scenario of a generated case again; None if the id is of no such case."""
    match = _CASE_ID.fullmatch(case_id)
    if match is None:
        return None
    made_id, scenario = scenario_of(archetype(match["archetype"]), int(match["seed"]), int(match["number"]))
    return scenario if made_id == case_id else None


def record(scenario: Scenario, case_id: str) -> list[Json]:
    """Record the right way of a scenario, as events without numbers."""
    return Recorder(random.Random(f"{case_id}/trace")).record(scenario.request, scenario.script)


def numbered(events: list[Json]) -> list[Json]:
    """Return events with their indices; one that has a number keeps it."""
    return [{"idx": number, **event} for number, event in enumerate(events)]
