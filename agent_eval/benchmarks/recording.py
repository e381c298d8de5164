"""Record what an agent does on a scenario as the events of a trace, with times, tokens and costs."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from agent_eval.benchmarks.scenario import Call, Json, Scenario, Script
from agent_eval.benchmarks.words import NOON

MODELS = (("gpt-4.1-mini", 0.4, 1.6), ("claude-haiku-4-5", 1.0, 5.0), ("gemini-2.5-flash", 0.3, 2.5))
"""Names of models with US dollars for a million tokens of input and output."""


class Recorder:
    """Records one script.

    Args:
        rng: Source of times and token counts.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._now: datetime = NOON + timedelta(seconds=rng.randrange(40_000))
        self._model = rng.choice(MODELS)
        self._read = rng.randrange(500, 1400)
        self._calls = 0
        self.events: list[Json] = []

    def record(self, scenario: Scenario, script: Script) -> list[Json]:
        """Record the user's request, the calls with their results, and the answer."""
        self._add("user", "message", 0, input=scenario.request)
        for group in grouped(script.calls):
            self._record_group(group)
        self._add("agent", "message", self._thinking(), output=script.answer, **self._answered(script.answer))
        return self.events

    def _record_group(self, group: list[Call]) -> None:
        if self._rng.random() < 0.25:
            words = f"Next I need {', '.join(call.tool for call in group)}."
            self._add("agent", "reasoning", self._rng.randrange(40, 200), output=words)
        ids = []
        for position, call in enumerate(group):
            spent = self._answered(str(call.arguments), "tool_calls") if position == 0 else {}
            latency = self._thinking() if position == 0 else 0
            ids.append(self._record_call(call, latency, **spent))
        results = list(zip(group, ids, strict=True))
        # What is asked for in one go is answered in any order.
        self._rng.shuffle(results)
        for call, call_id in results:
            self._record_result(call, call_id)

    def _record_call(self, call: Call, latency: int, **spent: Any) -> str:
        self._calls += 1
        call_id = f"call_{self._calls:02d}"
        fields = {"tool": call.tool, "call_id": call_id, "input": call.arguments}
        self._add("agent", "tool_call", latency, **fields, **spent)
        return call_id

    def _record_result(self, call: Call, call_id: str) -> None:
        answer = {"output": call.response} if call.error is None else {"error": call.error}
        self._read += len(str(answer)) // 4
        latency = self._rng.randrange(30, 900)
        self._add("tool", "tool_result", latency, tool=call.tool, call_id=call_id, **answer)

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


def grouped(calls: tuple[Call, ...]) -> list[list[Call]]:
    """Divide calls into those that a model asks for in one go.

    Example:
        >>> calls = (Call("a", {}), Call("b", {}, together=True), Call("c", {}))
        >>> [[call.tool for call in group] for group in grouped(calls)]
        [['a', 'b'], ['c']]
    """
    groups: list[list[Call]] = []
    for call in calls:
        if call.together and groups:
            groups[-1].append(call)
        else:
            groups.append([call])
    return groups
