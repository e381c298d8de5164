"""Answer tool calls from a case's metadata, so that the same calls always get the same answers.

`tool_response_cassette` answers single calls. It is an object keyed by call,

    {"lookup::{\"id\": 1}": {"status": "shipped"}}

or a list of rows, which can express more:

    [{"tool": "lookup", "arguments": {"id": 1}, "response": {"status": "shipped"}},
     {"tool": "lookup", "arguments": {"id": 2}, "responses": ["busy", "done"]},
     {"tool": "charge", "arguments": {"sum": 5}, "error": "card declined"}]

Rows for the same call answer its repetitions one after the other; the last row answers all further ones.
`tool_responses` answers by the tool's name, whatever the arguments. By the specification, a response that is
an object with `error` is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from typing_extensions import override

from agent_eval.agents.base import ToolAnswer, ToolFault, Tools
from agent_eval.contracts import Case, canonical_json
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.storage.json import Limits, parse, within_64_bits
from agent_eval.storage.redaction import MARKERS, REDACTED

CASSETTE, RESPONSES = "tool_response_cassette", "tool_responses"
UNKNOWN_TOOL = "unknown_tool"
_ROW_KEYS = frozenset({"tool", "arguments", "response", "responses", "error"})
_GONE = frozenset({"$sequence", "$response", "$error", "$delay_ms"})
"""Keys of a response that had a meaning of their own, and would pass for the tool's answer."""

CallKey = tuple[str, str]


def unchanged(value: Any) -> Any:
    """Return a value as it is."""
    return value


class CaseTools(Tools):
    """The tools of one attempt, answered from the case. Each attempt needs an object of its own.

    Args:
        strict: Whether a call without an answer fails the attempt (`--strict-side-effects`).
        beyond: Answers the calls that the case does not; without it they get the error `unknown_tool`.
        redacted: Replaces secrets in arguments: the answers of a case from a pack are found by those.

    Raises:
        InvalidInput: The case's answers are malformed; names case and field.
    """

    def __init__(
        self,
        case: Case,
        *,
        strict: bool = False,
        beyond: Tools | None = None,
        redacted: Callable[[Any], Any] = unchanged,
    ) -> None:
        self._strict, self._beyond, self._redacted = strict, beyond, redacted
        self._calls, responses = _cassette(case), case.metadata.get(RESPONSES)
        if not isinstance(responses, dict | None):
            raise _invalid(case, RESPONSES, "must be an object by tool name")
        self._tools = {
            tool: [_answer_in_value(case, value, f"{RESPONSES}.{tool}", RESPONSES)]
            for tool, value in (responses or {}).items()
        }
        self._position: dict[CallKey | str, int] = {}

    @override
    def answer(self, tool: str, arguments: Any) -> ToolAnswer:
        for form in (arguments, self._redacted(arguments)) if self._calls else ():
            key = call_key(tool, form)
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

    @override
    def recorded(self) -> Sequence[dict[str, Any]]:
        return () if self._beyond is None else self._beyond.recorded()

    def _next(self, key: CallKey | str, answers: list[ToolAnswer]) -> ToolAnswer:
        position = self._position.get(key, 0)
        self._position[key] = position + 1
        return answers[min(position, len(answers) - 1)]


def has_answers(case: Case) -> bool:
    """Whether a case answers calls of tools."""
    return bool(case.metadata.get(CASSETTE) or case.metadata.get(RESPONSES))


def _cassette(case: Case) -> dict[CallKey, list[ToolAnswer]]:
    cassette = case.metadata.get(CASSETTE)
    answers: dict[CallKey, list[ToolAnswer]] = {}
    if isinstance(cassette, dict):
        for text, value in cassette.items():
            key, place = key_of_fingerprint(text), f"{CASSETTE}.{text}"
            if key is None:
                raise _invalid(case, place, 'is not a call such as tool::{"argument": 1}')
            answers.setdefault(key, []).append(_answer_in_value(case, value, place, CASSETTE))
    elif isinstance(cassette, list):
        for number, row in enumerate(cassette):
            place = f"{CASSETTE}[{number}]"
            if not isinstance(row, dict) or not isinstance(row.get("tool"), str):
                raise _invalid(case, place, "must be an object with the name of a tool")
            if unknown := sorted(set(row) - _ROW_KEYS):
                problem = f"is unknown; a row has {', '.join(sorted(_ROW_KEYS))}"
                raise _invalid(case, f"{place}.{unknown[0]}", problem)
            in_row = answers.setdefault(call_key(row["tool"], row.get("arguments")), [])
            responses = row.get("responses", [row.get("response")])
            if row.get("error") is not None:
                in_row.append(ToolAnswer(error=row["error"], source=CASSETTE))
            elif isinstance(responses, list) and responses:
                in_row += [answer_of(response, source=CASSETTE) for response in responses]
            else:
                raise _invalid(case, f"{place}.responses", "must be a list with at least one answer")
    elif cassette is not None:
        raise _invalid(case, CASSETTE, "must be an object or a list")
    return answers


def _answer_in_value(case: Case, value: Any, place: str, source: str) -> ToolAnswer:
    if isinstance(value, dict) and (gone := sorted(value.keys() & _GONE)):
        problem = "is gone: write a row of `tool_response_cassette` with `responses` or `error`"
        raise _invalid(case, f"{place}.{gone[0]}", problem)
    return answer_of(value, source=source)


def answer_of(response: Any, *, source: str) -> ToolAnswer:
    """Build the answer from a tool's response: an object with an `error` that is not null is an error."""
    if isinstance(response, dict) and response.get("error") is not None:
        return ToolAnswer(response.get("output"), response["error"], source)
    return ToolAnswer(response, None, source)


def _invalid(case: Case, field: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"case {case.case_id!r}: metadata.{field} {problem}",
        remedy="Write the answers of tools as the guide to live agents shows.",
        case_id=case.case_id,
        field=f"metadata.{field}",
    )


def declared_tools(case: Case) -> list[dict[str, Any]]:
    """Return the tools that a case offers to a model, as `{"name", "description", "parameters"}`.

    `metadata.tools` lists them, each in that form or in that of OpenAI (`{"type": "function", "function":
    {…}}`) or Anthropic (`input_schema`). Without the list, the case's tool contracts are the tools.
    """
    tools = case.metadata.get("tools")
    if tools is None:
        return [
            _tool(name, "", contract.args_schema or _schema(contract.required_args))
            for name, contract in sorted(case.tool_contracts.items())
        ]
    if not isinstance(tools, list):
        raise _invalid(case, "tools", "must be a list")
    declared = []
    for number, tool in enumerate(tools):
        body = tool.get("function", tool) if isinstance(tool, dict) else None
        if not isinstance(body, dict) or not isinstance(body.get("name"), str) or not body["name"]:
            raise _invalid(case, f"tools[{number}]", "must be an object with the name of a tool")
        description, schema = body.get("description", ""), body.get("parameters", body.get("input_schema"))
        declared.append(
            _tool(
                body["name"],
                description if isinstance(description, str) else "",
                schema if isinstance(schema, dict) else _schema(()),
            )
        )
    return declared


def _tool(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": schema}


def _schema(required: Iterable[str]) -> dict[str, Any]:
    names = sorted(set(required))
    return {"type": "object", "properties": {name: {} for name in names}, "required": names}


_SEPARATOR = "::"
_ARGUMENTS = re.compile(rf"{_SEPARATOR}(?=[{{\[])")


def canonical(arguments: Any) -> str:
    """Return a text that is equal for equal arguments.

    The order of keys does not matter, nor does `1.0` for `1` (they are the same number in JSON), nor whether
    an object or list is recorded as such or as its JSON text, as models write arguments. null equals `{}`.

    Example:
        >>> canonical({"b": 1.0, "a": [2]}) == canonical('{"a": [2], "b": 1}')
        True
    """
    value = {} if arguments is None else arguments
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(InvalidInput):
            data = value.encode("utf-8", "surrogatepass")
            value = parse(data, source="arguments", limits=Limits(wide_integers=True))
    return canonical_json(within_64_bits(_normalize(value))).decode()


def call_key(tool: str, arguments: Any) -> CallKey:
    """Identify a call: the same key for the same tool and equal arguments.

    The names of what was redacted do not count: an older version wrote none, and a variable may be renamed.
    """
    text = canonical(arguments)
    if "[redacted:" in text:
        text = MARKERS.sub(REDACTED.encode(), text.encode()).decode()
    return tool, text


def key_of_fingerprint(text: str) -> CallKey | None:
    """Return the key of the call that `tool::{"a": 1}` names, in any layout of JSON; None if malformed."""
    tool, separator, arguments = text.partition(_SEPARATOR)
    # A tool's name may itself contain the separator; the arguments begin with the first bracket after one.
    if begin := _ARGUMENTS.search(text):
        tool, arguments = text[: begin.start()], text[begin.end() :]
    return (tool, canonical(arguments)) if separator else None


def _normalize(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _normalize(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_normalize(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
