"""What a planted fault is, and what it is planted in."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_eval.benchmarks.archetypes import Archetype, Call, Json, Scenario
from agent_eval.errors import FailureKind


@dataclass(frozen=True)
class Subject:
    """A recorded trace in which a fault is planted, with everything that a fault may look at.

    Attributes:
        scenario: What the agent was asked, and the right way.
        archetype: Where its tools are.
        events: The trace, which the fault changes.
        rng: Source of choices.
        metadata: What the fault adds to the metadata of the case.
    """

    scenario: Scenario
    archetype: Archetype
    events: list[Json]
    rng: random.Random
    metadata: Json = field(default_factory=dict)

    @property
    def answer(self) -> Json:
        """The last event, which is the agent's answer."""
        return self.events[-1]

    def places(self, kind: str) -> list[int]:
        """Return the places of the events of a type."""
        return [place for place, event in enumerate(self.events) if event["type"] == kind]

    @property
    def calls(self) -> list[int]:
        """Places of the tool calls."""
        return self.places("tool_call")

    @property
    def spent(self) -> Json:
        """Tokens and cost of one answer of the model, as the agent's own answer has them."""
        return {name: self.answer[name] for name in ("model", "usage", "cost_usd") if name in self.answer}

    def result_of(self, place: int) -> int:
        """Return the place of the result of the call at a place."""
        wanted = self.events[place]["call_id"]
        return next(
            number
            for number, event in enumerate(self.events)
            if event["type"] == "tool_result" and event["call_id"] == wanted
        )

    def insert_call(self, place: int, call: Call) -> int:
        """Insert a call with its result; return the place after both."""
        call_id = f"call_x{len(self.events)}"
        at = {"ts": self.events[place - 1]["ts"], "latency_ms": self.rng.randrange(50, 900)}
        named = {"tool": call.tool, "call_id": call_id}
        answer = {"output": call.response} if call.error is None else {"error": call.error}
        self.events[place:place] = [
            {**at, **self.spent, "actor": "agent", "type": "tool_call", **named, "input": call.arguments},
            {**at, "actor": "tool", "type": "tool_result", **named, **answer},
        ]
        return place + 2

    def remove_call(self, place: int) -> None:
        """Remove the call at a place, with its result."""
        for number in sorted((place, self.result_of(place)), reverse=True):
            del self.events[number]

    def say(self, answer: Any) -> None:
        """Replace the agent's answer."""
        self.answer["output"] = answer

    def say_also(self, text: str) -> None:
        """Add a sentence to the agent's answer."""
        self.say(f"{self.answer['output']} {text}")

    def cut_after(self, place: int) -> None:
        """Leave out everything after a place."""
        del self.events[place + 1 :]


@dataclass(frozen=True)
class Fault:
    """One known way in which a trace is wrong.

    Attributes:
        name: Its name in `metadata.planted_fault`.
        kind: The kind of failure that it is.
        does: What the agent did, in words.
        judges: Judges that should find it.
        may_find: Judges that may find what follows from it; nothing is wrong if they do not.
        applies: Whether it can be planted in a trace.
        plant: Changes the recording.

    Example:
        >>> fault = Fault("silent", FailureKind.MISSING_OUTPUT, "gave no answer", frozenset({"regex"}))
        >>> fault.to_json()["kind"]
        'missing_output'
    """

    name: str
    kind: FailureKind
    does: str
    judges: frozenset[str]
    may_find: frozenset[str] = frozenset()
    applies: Callable[[Subject], bool] = lambda _: True
    plant: Callable[[Subject], None] = lambda _: None

    def to_json(self) -> Json:
        """Return what the metadata of a case says of the fault."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "does": self.does,
            "judges": sorted(self.judges),
            "may_find": sorted(self.may_find),
        }
