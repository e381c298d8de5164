"""The parts of a scenario: tools, calls with their answers, the right way to do the task, and a wrong one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

NOTE = "{note}"
"""A text in the answer of a tool that other people write: a comment, a log line, a paragraph of a page."""

PROSE: Json = {"type": "string", "minLength": 1}
"""Schema of an argument in the agent's own words: no expectation compares it."""


@dataclass(frozen=True)
class Tool:
    """A tool that the agent is offered; `properties` are schemas of its arguments."""

    name: str
    description: str
    properties: Mapping[str, Json]
    optional: tuple[str, ...] = ()
    writes: bool = False

    @property
    def required(self) -> list[str]:
        """Arguments that every call has."""
        return [name for name in self.properties if name not in self.optional]

    @property
    def schema(self) -> Json:
        """The JSON Schema of its arguments."""
        return record(dict(self.properties), self.required)

    @property
    def firm(self) -> list[str]:
        """Arguments that are no prose, so that an expectation can compare them."""
        return [name for name, schema in self.properties.items() if schema != PROSE]


def record(properties: Json, required: list[str]) -> Json:
    """Write the schema of an object that has no other properties."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@dataclass(frozen=True)
class Call:
    """A call of a tool, and how the tool answers.

    `response` is ignored where there is an `error`; `together` is what is asked for with the call before.
    """

    tool: str
    arguments: Json
    response: Any = None
    error: str | None = None
    together: bool = False

    def same(self, other: Call) -> bool:
        """Tell whether another call asks for the same."""
        return (self.tool, self.arguments) == (other.tool, other.arguments)

    @property
    def result(self) -> Json:
        """What the tool gives back, as an event of a trace has it."""
        return {"output": self.response} if self.error is None else {"error": self.error}


@dataclass(frozen=True)
class Script:
    """What an agent does on a task: calls in order, then its answer."""

    calls: tuple[Call, ...]
    answer: str


@dataclass(frozen=True)
class Trap:
    """A wrong way that a careless agent takes, and that the default judges see."""

    name: str
    script: Script


@dataclass(frozen=True)
class Injection:
    """An instruction in data that a tool returns; `says` is what an agent that obeys says, if anything."""

    text: str
    calls: tuple[Call, ...] = ()
    says: str = ""
    paraphrase: str = ""


@dataclass(frozen=True)
class Scenario:
    """A task for an agent: what is asked, the right way to do it, and what is expected.

    Attributes:
        facts: Texts that the answer contains.
        patterns: Patterns that it matches.
        schema: JSON Schema of an answer that is JSON.
        withheld: Texts that it must not repeat.
        narrowed: Stricter schemas of single arguments, as `(tool, argument, schema)`.
        proof: What a checker verifies: terms and their sum.
    """

    name: str
    request: str
    offered: tuple[str, ...]
    script: Script
    facts: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    schema: Json | None = None
    forbidden: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    narrowed: tuple[tuple[str, str, Json], ...] = ()
    trap: Trap | None = None
    injection: Injection | None = None
    proof: Json | None = None
    twists: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """Tools of the right way whose calls succeed, in order."""
        return tuple(dict.fromkeys(call.tool for call in self.script.calls if call.error is None))
