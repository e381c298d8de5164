"""Find what in a record has the shape of a tool call, a result or an answer, whatever its format is.

It knows only the words that these are made of, wherever in the record they stand. Prose that describes a call
is not seen.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from agent_eval.importers.events import mapping
from agent_eval.importers.span_records import attributes_of
from agent_eval.importers.streams import data_stream_of, is_data_stream
from agent_eval.importers.vocabulary import (
    AGENTS,
    ARGUMENTS,
    CALL_IDS,
    CALLS_INSIDE,
    IDS,
    KINDS,
    NAMES,
    PAYLOADS,
    RESULTS_INSIDE,
    TYPED_BY_TOOL,
    Kind,
    first_text,
    holds_results,
    kind_of,
    kinds_in,
    plain,
)

CALL, RESULT, ANSWER = "tool call", "tool result", "answer"
"""What can be lost."""
STEP = "step"
"""Action and observation of an agent that writes text: a call with its result, and neither has an id."""

_NAME_ATTRIBUTE = re.compile(r"(?:.*\.)?tool_calls?\.\d+\.(?:tool_call\.)?(?:function\.)?name")
_ANSWER_ATTRIBUTE = re.compile(
    r"gen_ai\.completion\.\d+\.content|llm\.output_messages\.\d+\.message\.(content|contents\.\d+\.message_content\.text)"
)
_TOOL_SPAN = re.compile(r"(execute_tool|tools/call|running tool:?|ai\.toolCall|tool\.)")
_DEFINITIONS = frozenset(
    {
        *("tools", "tool_definitions", "toolDefinitions", "functions", "available_tools", "function_tools"),
        *("output_tools", "toolConfig", "tool_config", "gen_ai.tool.definitions", "ai.prompt.tools"),
        *("llm.tools", "model_request_parameters", "toolSpec", "function_declarations", "scores"),
        *("resourceAttributes", "intermediate_data", "intermediateData", "expected_tool_use"),
    }
)
"""Fields that declare tools, say what is expected, or have no conversation in them: they are not entered."""
_SCHEMAS = ("inputSchema", "input_schema", "parameters_json_schema", "json_schema", "parametersJsonSchema")
_LISTS_OF_CALLS = ("toolcalls", "toolrequests", "toolinvocations")
_ANSWERS = (
    *("final_answer", "final_result", "finalText", "output_text", "final_output", "submission"),
    *("ai.response.text", "finalAnswer"),
)
_DEEPEST = 60
_LONGEST_TEXT = 4_000_000
"""Characters of a text up to which it is searched for JSON."""
_START = 60
"""Characters of an answer that are looked for in the events."""


class Shape(NamedTuple):
    """What has the shape of a call, a result or an answer.

    Attributes:
        what: `CALL`, `RESULT`, `ANSWER` or `STEP`.
        path: Where in the record.
        id: The call's id; None if there is none.
        name: The tool's name, or the start of an answer.
        arguments: Digest of a call's arguments, or of what a result holds; empty for none.
        certain: False where a span has the shape: then the name alone says whether it was read.
    """

    what: str
    path: str
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    certain: bool = True

    @property
    def described(self) -> str:
        """Such as `a tool call of refund`."""
        named = f" of {self.name}" if self.what == CALL and self.name else ""
        return f"{'an' if self.what == ANSWER else 'a'} {self.what}{named}"


def shapes_of(value: Any) -> list[Shape]:
    """Return what has the shape of a call, a result or an answer in a record, which is JSON or a text."""
    search = _Search()
    search.enter(value, None, None, None, 0)
    return search.shapes


_Path = tuple[Any, Any] | None


class _Search:
    """Goes through a record, with the path to where it is: pairs of the path above and a step."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []

    def enter(self, value: Any, path: _Path, key: Any, above: Any, depth: int) -> None:
        """Look into a value that `above` has under `key`."""
        kind = type(value)
        if depth > _DEEPEST:
            return
        if kind is dict:
            skipped = self._look_at(value, path, key, above, depth)
            for name, inner in value.items():
                kind = type(inner)
                if kind is str:
                    if inner[:1] not in _STARTS:
                        continue
                elif kind is not dict and kind is not list:
                    continue
                if name not in _DEFINITIONS and name not in skipped:
                    self.enter(inner, (path, name), name, value, depth + 1)
        elif kind is list:
            for position, inner in enumerate(value):
                kind = type(inner)
                if kind is dict or kind is list or (kind is str and len(inner) > 1 and inner[0] in _STARTS):
                    self.enter(inner, (path, position), key, above, depth + 1)
        elif kind is str:
            self._text(value, path, key, above, depth)

    def _text(self, text: str, path: _Path, key: Any, above: Any, depth: int) -> None:
        """Look into the JSON that a text holds: a value, or the events of a stream."""
        start = text[:1]
        if start in ("{", "[", " ", "\n"):
            inner = _json(text)
            if isinstance(inner, dict | list) and inner:
                self.enter(inner, (path, "~"), key, above, depth + 1)
        elif path is None and is_data_stream(text):
            self.enter(data_stream_of(text).events, (path, "~"), key, above, depth + 1)
        elif start == "R" and text.startswith(_SHOWN_CALL):
            call_id, name = (_SHOWN[word].search(text) for word in ("call_id", "name"))
            self._add(CALL, path, call_id and call_id[1], name and name[1])
        elif start in ("d", "e", ":") and (text.startswith("data:") or "\ndata:" in text[:4000]):
            for number, line in enumerate(text.splitlines()):
                inner = _json(line[5:].strip()) if line.startswith("data:") else None
                if isinstance(inner, dict):
                    self.enter(inner, (path, number), key, above, depth + 1)

    def _add(self, what: str, path: _Path, call_id: Any = None, name: Any = None, **more: Any) -> None:
        own = call_id if isinstance(call_id, str) and call_id else None
        self.shapes.append(Shape(what, _written(path), own, name, **more))

    def _look_at(
        self, fields: dict[str, Any], path: _Path, key: Any, above: Any, depth: int
    ) -> Iterable[str]:
        """Add what an object is; return its fields that need no look of their own."""
        words = _words(tuple(fields))
        pairs = fields[words.pairs] if words.pairs is not None else None
        if words.pairs and isinstance(pairs, list) and pairs and "key" in mapping(pairs[0]):
            self.enter(attributes_of(pairs), (path, words.pairs), "attributes", fields, depth + 1)
            return (words.pairs,)
        if words.dotted:
            self._attributes(fields, path, above)
        skipped: Iterable[str] = ()
        if words.may_act or fields.get("role") in _TOOLS or key in RESULTS_INSIDE:
            if fields.get("type") == "TOOL" and "input" in fields and isinstance(fields.get("name"), str):
                self._observation(fields, path)
                return ("input", "output", "metadata")
            kinds = [kind_of(fields[name]) for name in words.kinds if isinstance(fields[name], str)]
            if _is_definition(fields, words) and not any(kind.is_call for kind in kinds):
                return ()
            if not any(kind.word.endswith("delta") for kind in kinds):
                before = len(self.shapes)
                skipped = self._calls(fields, path, (key, above), kinds)
                may_result = words.may_result or key in RESULTS_INSIDE
                if may_result and fields.get("content", fields.get("result")) not in _GENERATED:
                    self._results(fields, path, (key, above), kinds, self.shapes[before:])
            action, is_told = fields.get("action"), not _OF_STEPS.isdisjoint(fields)
            if (
                is_told
                and isinstance(fields.get("observation"), str)
                and isinstance(action, str)
                and action.strip()
            ):
                self._add(STEP, path)
        if words.may_answer and (answer := (_answer(fields, words) or "").strip()):
            self._add(ANSWER, path, name=answer[:_START].split("\n")[0].strip())
        return skipped

    def _attributes(self, fields: dict[str, Any], path: _Path, span: Any) -> None:
        """Add the calls that the attributes of a span are, and that its name says."""
        for name, value in fields.items():
            if isinstance(value, str) and _NAME_ATTRIBUTE.fullmatch(name):
                start = name.removesuffix("name")
                whole = start.removesuffix("function.")
                arguments = fields.get(f"{start}arguments", fields.get(f"{whole}arguments"))
                call_id = fields.get(f"{whole}id") or fields.get(f"{start}id")
                self._add(CALL, (path, name), call_id, value, arguments=digest_of(arguments))
            elif name.endswith(".tool_call_id") and isinstance(value, str):
                start = name.removesuffix("tool_call_id")
                if fields.get(f"{start}content") or fields.get(f"{start}contents.0.message_content.text"):
                    self._add(RESULT, (path, name), value)
        tool = first_text(fields, ("gen_ai.tool.name", "ai.toolCall.name", "tool.name"))
        if tool is None and fields.get("mcp.method.name") != "tools/call":
            return
        if tool is None:
            named = first_text(mapping(span), ("name", "operationName", "span_name", "spanName")) or ""
            tool = _TOOL_SPAN.sub("", named).strip()
        if tool.lower().startswith("handoff to"):
            return
        call_id = first_text(fields, ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id", "tool.id"))
        arguments = next((fields[name] for name in _SPAN_ARGUMENTS if name in fields), None)
        self._add(CALL, path, call_id, tool, arguments=digest_of(arguments), certain=False)
        if (result := next((name for name in _SPAN_RESULTS if name in fields), None)) is not None:
            self._add(RESULT, (path, result), call_id, certain=False)

    def _observation(self, fields: dict[str, Any], path: _Path) -> None:
        """Add the call that an observation of a tool is, as Langfuse exports it."""
        attributes = mapping(mapping(_parsed(fields.get("metadata"))).get("attributes"))
        call_id = first_text(attributes, ("gen_ai.tool.call.id", "ai.toolCall.id"))
        tool = attributes.get("gen_ai.tool.name") or _TOOL_SPAN.sub("", fields["name"]).strip()
        self._add(CALL, path, call_id, tool, arguments=digest_of(fields["input"]), certain=False)
        if fields.get("output") is not None:
            self._add(RESULT, (path, "output"), call_id, certain=False)

    def _calls(
        self, fields: dict[str, Any], path: _Path, place: tuple[Any, Any], kinds: list[Kind]
    ) -> Iterable[str]:
        words = _words(tuple(fields))
        kind = next((kind.word for kind in kinds if kind.is_call), None)
        name, own_id = first_text(fields, words.names), first_text(fields, words.call_ids)
        if "toolCallId" in fields and (typed := TYPED_BY_TOOL.fullmatch(str(fields.get("type")))):
            name, kind = typed[1], "toolcall"
        self._add_odd_calls(fields, path, place[0])
        inside = next((place for place in words.inside if _is_call(fields[place])), None)
        if inside is not None:
            call, inner = fields[inside], _words(tuple(fields[inside]))
            call_id = own_id or first_text(fields, ("id",)) or first_text(call, (*inner.call_ids, "id"))
            self._call((path, inside), call_id, first_text(call, inner.names), call, inner.arguments)
            if inside == "toolInvocation" and "result" in call:
                self._add(RESULT, ((path, inside), "result"), call.get("toolCallId"))
            return (inside,)
        if any(kind.is_result for kind in kinds) or place[0] in RESULTS_INSIDE or place[0] == "origin":
            return ()
        state = fields.get("state")
        if name and own_id and isinstance(state, dict) and "input" in state:
            self._call(path, own_id, name, state, ("input",))
        elif not (name or kind):
            return ()
        else:
            any_id = own_id or first_text(fields, ("id",))
            arguments = tuple(place for place in words.arguments if not _is_schema(fields[place]))
            if name and (kind or (arguments and (own_id or self._is_listed(*place)))):
                if any_id is None and mapping(place[1]).get("type") == "function":
                    any_id = first_text(place[1], IDS)  # that of the call which it is in
                self._call(path, any_id, name, fields, arguments)
            elif name and any(isinstance(_parsed(fields.get(word)), dict) for word in _OF_CALLS):
                self._call(path, any_id, name, fields, arguments)
            elif kind and own_id and arguments:
                self._call(path, own_id, kind, fields, arguments)
            elif kind in ("commandexecution", "localshellcall", "websearchcall") and any_id:
                self._call(path, any_id, kind, fields, ("command", "action"))
            else:
                return ()
            return arguments
        return ()

    def _add_odd_calls(self, fields: dict[str, Any], path: _Path, key: Any) -> None:
        """Add code that a model wrote to be run, and the first piece of a streamed call where none looks."""
        for block in fields["code_blocks"] if isinstance(fields.get("code_blocks"), list) else ():
            self._add(CALL, (path, "code_blocks"), None, "code_executor", arguments=digest_of(block))
        is_piece = fields.get("type") == "tool_call_chunk" and key != "tool_call_chunks"
        if is_piece and (name := first_text(fields, NAMES)) is not None:
            self._add(CALL, path, first_text(fields, IDS), name, arguments="in pieces")

    def _call(
        self, path: _Path, call_id: str | None, name: str | None, fields: Mapping[str, Any], at: Iterable[str]
    ) -> None:
        """Add a call with the arguments that the first of some fields has."""
        arguments = next((fields[place] for place in at if place in fields), None)
        if name is not None and name[0] == "'" and isinstance(arguments, str):
            name, arguments = name.strip("'"), arguments.strip("'")  # as CrewAI repeats calls
        self._add(CALL, path, call_id, name, arguments=digest_of(arguments))

    @staticmethod
    def _is_listed(key: Any, above: Any) -> bool:
        """Whether an object stands where calls are: below `tool_calls`, or in an object that is one."""
        if key in CALLS_INSIDE or (isinstance(key, str) and plain(key).endswith(_LISTS_OF_CALLS)):
            return True
        if key in ("content", "parts", "blocks") and "role" in (above or ()):
            return str(above["role"]) in AGENTS
        kinds = kinds_in(above) if above else []
        return any(kind.word == "function" or (kind.is_call and not kind.is_result) for kind in kinds)

    def _results(
        self,
        fields: dict[str, Any],
        path: _Path,
        place: tuple[Any, Any],
        kinds: list[Kind],
        made: list[Shape],
    ) -> None:
        """Add the result that an object is; a call may carry its own. `place`: its key, and what it is in."""
        words = _words(tuple(fields))
        call_id = first_text(fields, words.call_ids)
        if any("llm" in kind.word or "model" in kind.word for kind in kinds):
            call_id = None  # of a call of a model
        ids = fields.get("tool_call_ids")
        if call_id is None and isinstance(ids, list) and len(ids) == 1:
            call_id = ids[0]
        has_payload = any(fields[name] is not None for name in words.payloads)
        if fields.get("role") in _TOOLS:
            content = fields.get("content", fields.get("blocks", fields.get("contents")))
            is_definition = "description" in mapping(mapping(content).get("function"))
            if content in (None, [], "") or is_definition or holds_results(content):
                return
            call_id = call_id or mapping(fields.get("additional_kwargs")).get("tool_call_id")
        elif place[0] in RESULTS_INSIDE:
            if not (call_id or has_payload):
                return
            origin = fields.get("origin")
            call_id = call_id or (origin if isinstance(origin, dict) else fields).get("id")
        elif any(kind.is_result for kind in kinds):
            if not (call_id or has_payload):
                return
            if call_id is None and any("response" in kind.word for kind in kinds):
                call_id = fields.get("id")
        elif made and any(fields.get(name) not in (None, "") for name in _OUTPUTS_OF_CALLS):
            call_id = made[0].id
        elif not (call_id and has_payload and not made):
            self._observations(fields, path, place)
            return
        # Only results without an id are told apart by what they hold.
        payload = "" if call_id else digest_of([fields[name] for name in words.payloads])
        self._add(RESULT, path, call_id, arguments=payload)

    def _observations(self, fields: dict[str, Any], path: _Path, place: tuple[Any, Any]) -> None:
        """Add what an agent that acts in an environment got to see."""
        state, above = fields.get("state"), place[1]
        if isinstance(fields.get("observation"), str) and "cause" in fields:
            if fields["observation"] not in ("agent_state_changed", "null"):
                call_id = mapping(fields.get("tool_call_metadata")).get("tool_call_id")
                observed = digest_of([fields.get("content"), fields.get("id")])
                self._add(RESULT, path, call_id, arguments=observed)
        elif isinstance(state, dict) and isinstance(fields.get("callID"), str):
            if state.get("status") in ("completed", "error"):
                self._add(RESULT, path, fields["callID"])
        elif place[0] == "observation" and isinstance(fields.get("results"), list):
            for inner in fields["results"] if mapping(above).get("tool_calls") else ():
                if isinstance(inner, dict) and not inner.get("source_call_id"):
                    self._add(RESULT, path, arguments=digest_of(inner))
        elif fields.get("tool_calls") and fields.get("observations"):
            self._add(RESULT, (path, "observations"), arguments=digest_of(fields["observations"]))


_OF_CALLS = ("arguments", "args", "tool_input", "toolInput", "tool_args", "toolArgs", "tool_kwargs")
"""Arguments that, beside a name, only a call has."""
_GENERATED = ("Final result processed.",)
"""What frameworks answer to the call that is the final answer: no tool said it."""
_OUTPUTS_OF_CALLS = (*("aggregated_output", "result", "output", "resultDisplay", "errorText", "tool_output"),)
_SPAN_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "tool_arguments", "ai.toolCall.args"),
    *("gcp.vertex.agent.tool_call_args", "input.value"),
)
_SPAN_RESULTS = (
    *("gen_ai.tool.call.result", "tool_response", "ai.toolCall.result"),
    *("gcp.vertex.agent.tool_response", "output.value"),
)


def _written(path: _Path) -> str:
    steps: list[Any] = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(steps))
    return text.replace(".~", "~").removeprefix(".")


_STARTS = frozenset({"{", "[", " ", "\n", "d", "e", ":", "R"})
"""How a text begins that may be JSON, or a stream of events."""
_SHOWN_CALL = "ResponseFunctionToolCall("
_SHOWN = {word: re.compile(rf"[(, ]{word}='([^']*)'") for word in ("call_id", "name")}
"""Fields of a call that is written as Python shows it."""


class _Words(NamedTuple):
    """What the names of an object's fields say it may be: objects with the same names are many."""

    pairs: str | None
    dotted: bool
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    call_ids: tuple[str, ...]
    inside: tuple[str, ...]
    payloads: tuple[str, ...]
    answers: tuple[str, ...]
    schemas: tuple[str, ...]
    may_declare: bool
    may_act: bool
    may_result: bool
    may_answer: bool


@lru_cache(maxsize=4096)
def _words(fields: tuple[str, ...]) -> _Words:
    present = frozenset(fields)

    def those(words: Iterable[str]) -> tuple[str, ...]:
        return tuple(word for word in words if word in present)

    return _Words(
        pairs=next(iter(those(("attributes", "tags"))), None),
        dotted=any("." in name for name in fields),
        kinds=those(KINDS),
        names=those(NAMES),
        arguments=those(ARGUMENTS),
        call_ids=those(CALL_IDS),
        inside=those(CALLS_INSIDE),
        payloads=those(PAYLOADS),
        answers=those(_ANSWERS),
        schemas=those(("parameters", "arguments", "input")),
        may_declare=bool(those(_SCHEMAS))
        or ("description" in present and not those(name for name in ARGUMENTS if name != "parameters")),
        may_act=not _OF_ACTS.isdisjoint(present),
        may_result=bool(those((*PAYLOADS, *CALL_IDS, "role", "state", "observations"))),
        may_answer=not _OF_ANSWERS.isdisjoint(present),
    )


_TOOLS = ("tool", "function", "toolResult")
"""Roles of those who answer a call."""
_OF_ACTS = frozenset(
    {*NAMES, *CALL_IDS, *CALLS_INSIDE, *KINDS, "code_blocks", "state", "observation"}
    | {"observations", "results", "tool_call_ids", "origin"}
)
_OF_STEPS = frozenset({"thought", "response"})
_OF_ODD_ANSWERS = frozenset(
    {*_ANSWERS, "part_kind", "part", "delta", "finish_reason", "is_final_answer", "textDelta"}
)
_OF_ANSWERS = _OF_ODD_ANSWERS | {"role", "source", "type"}


def _json(text: str) -> Any:
    if len(text) > _LONGEST_TEXT or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def digest_of(arguments: Any) -> str:
    """Return the digest of arguments, as object or JSON text; empty where there are none."""
    if isinstance(arguments, str):
        inner = _json(arguments)
        arguments = inner if inner is not None else arguments.strip()
    if arguments in (None, "", {}, "null"):
        return ""
    written = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    return hashlib.blake2b(written, digest_size=8).hexdigest()


def _is_call(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    words = _words(tuple(value))
    return bool(words.arguments and first_text(value, words.names)) and not _is_definition(value, words)


def _parsed(value: Any) -> Any:
    """Return the JSON of a text, null where it has none; any other value as it is."""
    return _json(value) if isinstance(value, str) else value


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and (
        value.get("type") == "object"
        or "properties" in value
        or "$schema" in value
        or _is_schema(value.get("json"))
    )


def _is_definition(fields: Mapping[str, Any], words: _Words) -> bool:
    """Whether an object declares a tool: it has the schema of arguments, or says what the tool is for."""
    return words.may_declare or any(_is_schema(fields[name]) for name in words.schemas)


def _answer(fields: Mapping[str, Any], words: _Words) -> str | None:
    """Return the text that an object says in the agent's name; None if it says none."""
    stated = first_text(fields, words.answers)
    if stated is not None and stated.strip():
        return stated
    for name in fields if words.dotted else ():
        if _ANSWER_ATTRIBUTE.fullmatch(name) and (spoken := _text_of(fields[name])):
            return spoken
    if not _OF_ODD_ANSWERS.isdisjoint(fields) and (spoken := _odd_answer(fields)):
        return spoken
    kind = fields.get("type")
    if any(type(who := fields.get(name)) is str and who in AGENTS for name in ("role", "source", "type")):
        return next((spoken for name in _SPOKEN if (spoken := _text_of(fields.get(name)))), None)
    if isinstance(kind, str) and _SAID.match(kind) and fields.get("source") not in (None, "user"):
        return next((spoken for name in _SPOKEN if (spoken := _text_of(fields.get(name)))), None)
    return None


_SPOKEN = ("content", "text", "message", "parts", "blocks", "contents", "data", "finalText")


def _odd_answer(fields: Mapping[str, Any]) -> str | None:
    """Return the text of an object that says in another way than by a role that it is the agent's."""
    if fields.get("part_kind") == "text" and isinstance(fields.get("content"), str):
        return fields["content"] or None
    part, delta = fields.get("part"), fields.get("delta")
    if isinstance(part, dict) and part.get("type") == "text":
        return _text_of(part.get("text"))
    if fields.get("type") == "text-delta":
        return _text_of(delta) or _text_of(fields.get("textDelta"))
    if isinstance(delta, dict):
        return _text_of(delta.get("content"))
    if "finish_reason" in fields and isinstance(fields.get("message"), str):
        inner = _json(fields["message"])
        return _text_of(fields["message"] if inner is None else inner)
    if fields.get("is_final_answer"):
        return str(fields.get("action_output") or fields.get("observations") or "") or None
    return None


_SAID = re.compile(r"(Text|Structured|ToolCallSummary|Stop)\w*Message")


def _text_of(content: Any) -> str | None:
    if isinstance(content, str):
        return content.strip() or None
    if isinstance(content, list):
        return "".join(filter(None, map(_text_of_block, content))) or None
    if isinstance(content, dict):
        return _text_of(content.get("content")) or _text_of(content.get("text"))
    return None


def _text_of_block(block: Any) -> str | None:
    if not isinstance(block, dict) or block.get("thought"):
        return None
    text = block.get("text")
    if isinstance(text, dict):
        text = text.get("value")
    kinds = {kind.word for kind in kinds_in(block)}
    if text is None and kinds <= {"text"}:
        text = block.get("content")
    return text if isinstance(text, str) and not text.startswith(_SHOWN_CALL) else None
