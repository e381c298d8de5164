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

NAME: Json = {"type": "string", "minLength": 1, "maxLength": 200}
COUNT: Json = {"type": "integer", "minimum": 1, "maximum": 10_000}
AMOUNT: Json = {"type": "number", "exclusiveMinimum": 0}
FLAG: Json = {"type": "boolean"}
DATE: Json = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}


def pattern(text: str) -> Json:
    """Write the schema of a string that matches a pattern."""
    return {"type": "string", "pattern": text}


def one_of(*words: str) -> Json:
    """Write the schema of one of these words."""
    return {"enum": list(words)}


def record(**properties: Json) -> Json:
    """Write the schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class Tool:
    """A tool that the agent is offered.

    Attributes:
        properties: Schemas of its arguments by name.
        writes: Whether it changes something.
    """

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
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": self.required,
            "additionalProperties": False,
        }

    @property
    def firm(self) -> list[str]:
        """Arguments that are no prose, so that an expectation can compare them."""
        return [name for name, schema in self.properties.items() if schema != PROSE]


def toolbox(*tools: Tool) -> dict[str, Tool]:
    """Return tools by name."""
    return {tool.name: tool for tool in tools}


@dataclass(frozen=True)
class Call:
    """A call of a tool, and how the tool answers.

    Attributes:
        response: What it answers; ignored where it fails.
        error: Why it fails; None where it answers.
        together: Whether a model asks for it in one go with the call before.
    """

    tool: str
    arguments: Json
    response: Any = None
    error: str | None = None
    together: bool = False


@dataclass(frozen=True)
class Script:
    """What an agent does on a task: calls in order, then its answer."""

    calls: tuple[Call, ...]
    answer: str


@dataclass(frozen=True)
class Trap:
    """A wrong way that a careless agent takes, and that the default judges see.

    `name` says in one word what goes wrong.
    """

    name: str
    script: Script


@dataclass(frozen=True)
class Injection:
    """An instruction in data that a tool returns.

    `says` is what an agent that obeys says then; empty where it only acts.
    """

    text: str
    calls: tuple[Call, ...] = ()
    says: str = ""
    paraphrase: str = ""


@dataclass(frozen=True)
class Scenario:
    """A task for an agent: what is asked, the right way to do it, and what is expected.

    Attributes:
        offered: Names of the tools that the agent has.
        facts: Texts that the answer contains.
        patterns: Patterns that it matches.
        schema: JSON Schema of an answer that is JSON.
        forbidden: Tools that the agent must not use.
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
