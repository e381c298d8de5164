"""Answers to tool calls from a case's metadata, so that the same calls always get the same answers.

`tool_response_cassette` answers single calls. It is an object keyed by call,

    {"lookup::{\"id\": 1}": {"status": "shipped"}}

or a list of rows, which can do more:

    [{"tool": "lookup", "arguments": {"id": 1}, "response": {"status": "shipped"}},
     {"tool": "lookup", "arguments": {"id": 2}, "responses": ["busy", "done"]},
     {"tool": "charge", "arguments": {"sum": 5}, "error": "card declined", "delay_ms": 250}]

Rows for the same call answer its repetitions one after the other; the last one answers all that follow.
`tool_responses` answers by the tool's name, whatever the arguments. In an object, a value with `$sequence`, a
list of answers, or with any of `$response`, `$error` and `$delay_ms`, says the same as a row. As the
specification has it, a response that is an object with `error` is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_eval.agents.base import ToolAnswer, ToolFault, Tools
from agent_eval.contracts import Case, canonical_json
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.storage.json import parse

CASSETTE, RESPONSES = "tool_response_cassette", "tool_responses"
UNKNOWN_TOOL = "unknown_tool"
LONGEST_DELAY_MS = 600_000
_KEYS = frozenset({"$response", "$error", "$delay_ms"})
_ROW_KEYS = frozenset({"tool", "arguments", "response", "responses", "error", "delay_ms"})

CallKey = tuple[str, str]


class CaseTools:
    """The answers that one case has, and where an attempt stands in their sequences.

    Make one an attempt: every attempt starts at the beginning.

    Args:
        case: The case.
        strict: Whether a call without an answer fails the attempt (`--strict-side-effects`).
        beyond: Answers what the case does not; without it such calls get the error `unknown_tool`.

    Raises:
        InvalidInput: The case's answers are not what they must be; names case and field.
    """

    def __init__(self, case: Case, *, strict: bool = False, beyond: Tools | None = None) -> None:
        self._strict, self._beyond = strict, beyond
        self._calls = _cassette(case)
        self._tools = _responses(case)
        self._position: dict[CallKey | str, int] = {}

    def answer(self, tool: str, arguments: Any) -> ToolAnswer:
        """See `Tools.answer`."""
        key = call_key(tool, arguments)
        if key in self._calls:
            return self._next(key, self._calls[key])
        if tool in self._tools:
            return self._next(tool, self._tools[tool])
        if self._beyond is not None:
            return self._beyond.answer(tool, arguments)
        if self._strict:
            raise ToolFault(
                FailureKind.CONTRACT_VIOLATION,
                f"called {tool} with {canonical(arguments)[:200]}, for which the case has no answer",
            )
        return ToolAnswer(error=UNKNOWN_TOOL)

    def recorded(self) -> Sequence[dict[str, Any]]:
        """See `Tools.recorded`."""
        return () if self._beyond is None else self._beyond.recorded()

    def _next(self, key: CallKey | str, answers: list[ToolAnswer]) -> ToolAnswer:
        position = self._position.get(key, 0)
        self._position[key] = position + 1
        return answers[min(position, len(answers) - 1)]


def check_tools(case: Case) -> None:
    """Refuse a case whose tool answers cannot be used, before anything runs.

    Raises:
        InvalidInput: Names case and field.
    """
    CaseTools(case)


def _cassette(case: Case) -> dict[CallKey, list[ToolAnswer]]:
    given = case.metadata.get(CASSETTE)
    answers: dict[CallKey, list[ToolAnswer]] = {}
    if given is None:
        return answers
    if isinstance(given, dict):
        for text, value in given.items():
            key = key_of_fingerprint(text)
            if key is None:
                raise _wrong(case, f"{CASSETTE}.{text}", 'is no call such as tool::{"argument": 1}')
            answers.setdefault(key, []).extend(_of_value(case, value, f"{CASSETTE}.{text}", CASSETTE))
        return answers
    if not isinstance(given, list):
        raise _wrong(case, CASSETTE, "must be an object or a list")
    for number, row in enumerate(given):
        place = f"{CASSETTE}[{number}]"
        if not isinstance(row, dict) or not isinstance(row.get("tool"), str):
            raise _wrong(case, place, "must be an object with the name of a tool")
        answers.setdefault(call_key(row["tool"], row.get("arguments")), []).extend(_of_row(case, row, place))
    return answers


def _responses(case: Case) -> dict[str, list[ToolAnswer]]:
    given = case.metadata.get(RESPONSES)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _wrong(case, RESPONSES, "must be an object by tool name")
    return {tool: _of_value(case, value, f"{RESPONSES}.{tool}", RESPONSES) for tool, value in given.items()}


def _of_row(case: Case, row: Mapping[str, Any], place: str) -> list[ToolAnswer]:
    unknown = sorted(set(row) - _ROW_KEYS)
    if unknown:
        raise _wrong(case, f"{place}.{unknown[0]}", f"is unknown; a row has {', '.join(sorted(_ROW_KEYS))}")
    delay = _delay(case, row.get("delay_ms", 0), f"{place}.delay_ms")
    if row.get("error") is not None:
        return [ToolAnswer(error=row["error"], source=CASSETTE, delay_ms=delay)]
    responses = row.get("responses", [row.get("response")])
    if not isinstance(responses, list) or not responses:
        raise _wrong(case, f"{place}.responses", "must be a list with at least one answer")
    return [_plain_answer(response, CASSETTE, delay) for response in responses]


def _of_value(case: Case, value: Any, place: str, source: str) -> list[ToolAnswer]:
    if isinstance(value, dict) and set(value) == {"$sequence"}:
        sequence = value["$sequence"]
        if not isinstance(sequence, list) or not sequence:
            raise _wrong(case, f"{place}.$sequence", "must be a list with at least one answer")
        return [_one(case, item, place, source) for item in sequence]
    return [_one(case, value, place, source)]


def _one(case: Case, value: Any, place: str, source: str) -> ToolAnswer:
    if isinstance(value, dict) and value and _KEYS.issuperset(value):
        delay = _delay(case, value.get("$delay_ms", 0), f"{place}.$delay_ms")
        if value.get("$error") is not None:
            return ToolAnswer(error=value["$error"], source=source, delay_ms=delay)
        return _plain_answer(value.get("$response"), source, delay)
    return _plain_answer(value, source, 0.0)


def _plain_answer(response: Any, source: str, delay: float) -> ToolAnswer:
    return answer_of(response, source=source, delay_ms=delay)


def answer_of(response: Any, *, source: str, delay_ms: float = 0.0) -> ToolAnswer:
    """A tool's response as an answer: an object with an `error` that is not null is an error."""
    if isinstance(response, dict) and response.get("error") is not None:
        return ToolAnswer(response.get("output"), response["error"], source, delay_ms)
    return ToolAnswer(response, None, source, delay_ms)


def _delay(case: Case, value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_DELAY_MS:
        raise _wrong(case, place, f"must be milliseconds from 0 to {LONGEST_DELAY_MS}")
    return float(value)


def _wrong(case: Case, field: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"case {case.case_id!r}: metadata.{field} {what}",
        remedy="Write the answers of tools as the guide to live agents shows.",
        case_id=case.case_id,
        field=f"metadata.{field}",
    )


def declared_tools(case: Case) -> list[dict[str, Any]]:
    """The tools a model is offered, as `{"name", "description", "parameters"}`.

    `metadata.tools` lists them, each like that or as OpenAI (`{"type": "function", "function": {…}}`) or
    Anthropic (`input_schema`) have it. Without the list they follow from the case's tool contracts.

    Raises:
        InvalidInput: The list is not one of tools.
    """
    given = case.metadata.get("tools")
    if given is None:
        return [_from_contract(name, contract) for name, contract in sorted(case.tool_contracts.items())]
    if not isinstance(given, list):
        raise _wrong(case, "tools", "must be a list")
    return [_declared(case, tool, f"tools[{number}]") for number, tool in enumerate(given)]


def _declared(case: Case, tool: Any, place: str) -> dict[str, Any]:
    body = tool.get("function", tool) if isinstance(tool, dict) else None
    if not isinstance(body, dict) or not isinstance(body.get("name"), str) or not body["name"]:
        raise _wrong(case, place, "must be an object with the name of a tool")
    schema = body.get("parameters", body.get("input_schema"))
    description = body.get("description", "")
    return {
        "name": body["name"],
        "description": description if isinstance(description, str) else "",
        "parameters": schema if isinstance(schema, dict) else _schema(()),
    }


def _from_contract(name: str, contract: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": "",
        "parameters": contract.args_schema or _schema(contract.required_args),
    }


def _schema(required: Iterable[str]) -> dict[str, Any]:
    names = sorted(set(required))
    return {"type": "object", "properties": {name: {} for name in names}, "required": names}


_SEPARATOR = "::"
_ARGUMENTS = re.compile(rf"{_SEPARATOR}(?=[{{\[])")


def canonical(arguments: Any) -> str:
    """Text that is equal for equal arguments.

    The order of keys does not matter, nor does `1.0` for `1` (they are the same number in JSON), nor whether
    an object or list is given as such or as its JSON text, as models write arguments. No arguments are `{}`.
    """
    value = _opened(arguments)
    return canonical_json(_plain({} if value is None else value)).decode()


def call_key(tool: str, arguments: Any) -> tuple[str, str]:
    """What identifies a call."""
    return tool, canonical(arguments)


def fingerprint(tool: str, arguments: Any) -> str:
    """A call as the key of a cassette that is an object: `tool::{"a": 1}`, keys sorted."""
    value = _opened(arguments)
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else str(value)
    return f"{tool}{_SEPARATOR}{text}"


def key_of_fingerprint(text: str) -> tuple[str, str] | None:
    """The call that a fingerprint names, however its JSON is laid out; None when it names none."""
    tool, separator, arguments = text.partition(_SEPARATOR)
    # A tool's name may itself contain the separator; the arguments begin with the first bracket after one.
    if begin := _ARGUMENTS.search(text):
        tool, arguments = text[: begin.start()], text[begin.end() :]
    return (tool, canonical(arguments)) if separator else None


def _opened(arguments: Any) -> Any:
    """Arguments given as JSON text, read; anything else as it is."""
    if isinstance(arguments, str) and arguments.lstrip()[:1] in ("{", "["):
        try:
            return parse(arguments.encode("utf-8", "surrogatepass"), source="arguments")
        except InvalidInput:
            return arguments
    return arguments


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
