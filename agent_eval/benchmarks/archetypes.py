"""Read archetypes: files of tools and scenarios in `archetypes/`, with placeholders that are drawn at random.

A text may hold expressions of Jinja as `${…}`; a text that is nothing else is the value itself, not its text.
Values are drawn in the order in which the file has them, so that a seed gives the same suite for ever:

* `draw` names values, one after the other; `one, two` takes a list apart, and `again` draws the value before
  it anew for as long as it holds.
* `{each: list, as: name, give: value}` is a list of values; `nth` is the place in it.
* A call is `{tool: arguments, gives: response}`, with `fails: error` in place of `gives`, and `together:
  true` where a model asks for it in one go with the call before.
* `calls` are named calls, of a file for all scenarios, of a scenario for itself. Such a name may stand in
  place of a tool, and takes values from where it is used.
* `functions` may be called in expressions; `takes` are their arguments with defaults.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache, partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import jinja2

from agent_eval.errors import UsageError
from agent_eval.storage.yaml import read_yaml

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


ARCHETYPES = ("support_agent", "research_agent", "ops_agent", "coding_agent")
"""Files of `archetypes/`, as `--archetype` takes their names."""

TODAY = date(2026, 3, 16)
"""The day on which every scenario takes place."""

_FILES = Path(__file__).parent / "archetypes"
_EXPRESSION = re.compile(r"\$\{((?:[^{}]|\{[^{}]*\})*)\}", re.DOTALL)
_ENVIRONMENT = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701  # no HTML
_ENVIRONMENT.globals["zip"] = zip

Names = Mapping[str, Any]


@dataclass(frozen=True)
class Archetype:
    """What an archetype's scenarios are made of.

    Attributes:
        scenarios: Functions that make a scenario, each with data of its own choice.
        notes: Harmless texts of other people.
        injections: Makes the instructions that others write into its data.
        closings: Ways in which a request ends.
        outages: Errors of a tool that answers when it is called again.
    """

    name: str
    tools: Mapping[str, Tool]
    scenarios: tuple[Callable[[random.Random], Scenario], ...]
    notes: tuple[str, ...]
    injections: Callable[[random.Random], tuple[Injection, ...]]
    closings: tuple[str, ...]
    outages: tuple[str, ...]


@cache
def archetype(name: str) -> Archetype:
    """Load an archetype."""
    if name not in ARCHETYPES:
        raise UsageError(f"there is no archetype {name!r}", remedy=f"Name one of: {', '.join(ARCHETYPES)}.")
    common, own = (read_yaml(_FILES / f"{file}.yaml") for file in ("common", name))
    file = {**own, **{key: {**common[key], **own.get(key, {})} for key in ("types", "values", "functions")}}
    types: dict[str, Any] = {"PROSE": PROSE}
    for type_name, schema in file["types"].items():
        types[type_name] = _schema(schema, types)
    tools = {}
    for tool, about in file["tools"].items():
        takes = {argument: _schema(schema, types) for argument, schema in about["takes"].items()}
        optional, writes = tuple(about.get("optional", ())), about.get("writes", False)
        tools[tool] = Tool(tool, about["does"], takes, optional, writes)
    return Archetype(
        name,
        tools,
        tuple(partial(_scenario, key, about, file, types) for key, about in file["scenarios"].items()),
        tuple(file["notes"]),
        partial(_injections, file),
        tuple(common["closings"]),
        tuple(common["outages"]),
    )


def _schema(short: Any, types: Names) -> Any:
    """Write out a schema: a name of `types`, `^pattern`, a list for an enum, `record`, or itself."""
    if isinstance(short, str):
        return {"type": "string", "pattern": short} if short.startswith("^") else types[short]
    if isinstance(short, list):
        return {"enum": short}
    if "record" in short:
        members = {name: _schema(member, types) for name, member in short["record"].items()}
        return record(members, sorted(members))
    inner = {"items", "additionalProperties"}
    return {key: _schema(value, types) if key in inner else value for key, value in short.items()}


def _scenario(name: str, about: Json, file: Json, types: Names, rng: random.Random) -> Scenario:
    names = _drawn(about.get("draw", {}), _functions(rng, file))
    named = {**file["calls"], **about.get("calls", {})}
    request = about["request"]
    if isinstance(request, list):
        openings = _filled(file.get("openings", []), names)
        opening = rng.choice(openings) if openings else ""
        request = opening + _filled(rng.choice(request), names)
    # In this order, as the calls, the answer and the trap may draw as well.
    request, script = _filled(request, names), _script(about, names, named)
    facts, patterns, withheld = (
        tuple(str(_filled(text, names)) for text in about.get(key, ()))
        for key in ("facts", "patterns", "withheld")
    )
    trap = about.get("trap")
    return Scenario(
        name,
        request,
        tuple(about["offered"]),
        script,
        facts,
        patterns,
        schema=_schema({"record": about["schema"]}, types) if "schema" in about else None,
        forbidden=tuple(about.get("forbidden", ())),
        withheld=withheld,
        narrowed=tuple((tool, argument, schema) for tool, argument, schema in about.get("narrowed", ())),
        trap=Trap(trap["name"], _script(trap, names, named)) if trap else None,
        proof=_filled(about["proof"], names) if "proof" in about else None,
    )


def _injections(file: Json, rng: random.Random) -> tuple[Injection, ...]:
    about = file["injections"]
    names = _drawn(about["draw"], _functions(rng, file))
    named = about.get("calls", {})
    return tuple(
        Injection(
            _filled(way["text"], names),
            tuple(_calls(way.get("does", []), names, named)),
            _filled(way.get("says", ""), names),
            _filled(way["paraphrase"], names),
        )
        for way in about["ways"]
    )


def _script(about: Json, names: Names, named: Names) -> Script:
    calls = tuple(_calls(about["does"], names, named))
    answer = _filled(about["answer"], names)
    return Script(calls, answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))


def _calls(about: Any, names: Names, named: Names) -> Iterator[Call]:
    """Make calls of one call, the name of one, or a list of either."""
    if isinstance(about, list):
        for each in about:
            yield from _calls(each, names, named)
    elif isinstance(about, str):
        yield from _calls(named[_filled(about, names)], names, named)
    elif "each" in about:
        for scope in _scopes(about, names):
            yield from _calls(about["give"], scope, named)
    else:
        together = bool(_filled(about.get("together", False), names))
        tool, arguments = next(iter(about.items()))
        arguments = _filled(arguments, names)
        if tool in named:
            for call in _calls(named[tool], {**names, **arguments}, named):
                yield replace(call, together=together)
        else:
            response, error = _filled(about.get("gives"), names), _filled(about.get("fails"), names)
            yield Call(tool, arguments, response, error, together)


def _functions(rng: random.Random, file: Json) -> Names:
    """Return what expressions may name: values of the file, ways to draw at random, functions of the file."""

    def shuffled(rows: Iterable[Any]) -> list[Any]:
        listed = list(rows)
        rng.shuffle(listed)
        return listed

    names = {
        **file.get("values", {}),
        "note": NOTE,
        "randrange": rng.randrange,
        "choice": lambda *ways: rng.choice(ways if len(ways) > 1 else ways[0]),
        "sample": rng.sample,
        "shuffled": shuffled,
        "digits": lambda prefix, length: f"{prefix}{rng.randrange(10 ** (length - 1), 10**length)}",
        "hexadecimal": lambda length: f"{rng.randrange(16**length):0{length}x}",
        "day": lambda offset: (TODAY + timedelta(days=offset)).isoformat(),
        "money": "{:.2f}".format,
    }
    for name, about in file["functions"].items():
        names[name] = partial(_called, about, names)
    return names


def _called(about: Json, names: Names, **arguments: Any) -> Any:
    scope = {**names, **about.get("takes", {}), **arguments}
    return _filled(about["gives"], _drawn(about["draw"], scope))


def _drawn(draw: Json, names: Names) -> Names:
    """Draw values in order; return all names."""
    scope, before = dict(names), ("", None)
    for key, value in draw.items():
        if key == "again":
            while _filled(value, scope):
                _bind(scope, before[0], _filled(before[1], scope))
        else:
            _bind(scope, key, _filled(value, scope))
            before = (key, value)
    return scope


def _bind(scope: dict[str, Any], key: str, value: Any) -> None:
    names = key.split(", ")
    scope.update(zip(names, value, strict=True) if len(names) > 1 else {key: value})


def _scopes(about: Json, names: Names) -> Iterator[Names]:
    for nth, value in enumerate(_filled(about["each"], names)):
        scope = {**names, "nth": nth}
        _bind(scope, about.get("as", "each"), value)
        yield scope


def _filled(value: Any, names: Names) -> Any:
    """Fill in the placeholders of a value."""
    if isinstance(value, str):
        return _compiled(value)(names) if "${" in value else value
    if isinstance(value, list):
        return [_filled(each, names) for each in value]
    if isinstance(value, dict):
        if "each" in value:
            return [_filled(value["give"], scope) for scope in _scopes(value, names)]
        return {key: _filled(each, names) for key, each in value.items()}
    return value


@cache
def _compiled(text: str) -> Callable[[Names], Any]:
    # Texts and expressions in turn: re.split keeps what the group found.
    texts = _EXPRESSION.split(text)
    expressions = [
        itemgetter(each)
        if each.isidentifier()
        else _ENVIRONMENT.compile_expression(each, undefined_to_none=False)
        for each in texts[1::2]
    ]
    if texts[0] == texts[-1] == "" and len(expressions) == 1:
        return expressions[0]

    def fill(names: Names) -> str:
        values = [str(expression(names)) for expression in expressions]
        return "".join(chain.from_iterable(zip(texts[::2], [*values, ""], strict=True)))

    return fill
