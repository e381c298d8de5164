"""Messages of any dialect as events: texts, thoughts, calls and results in blocks, parts or items.

APIs and frameworks write the same message in words of their own, which `vocabulary` has. Four shapes are
read: chat (`content`, `tool_calls`), blocks (`{"type": "tool_use"}`), parts (`{"functionCall": {}}`), and
items, which are events without a role (`responses_items`). A format says where its messages are, not how to
read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import EventFields, items, mapping, part_of, text, usage_in
from agent_eval.importers.known_fields import report_unknown
from agent_eval.importers.responses_items import item_events
from agent_eval.importers.vocabulary import (
    ARGUMENTS,
    CALL_IDS,
    CALLS_INSIDE,
    IDS,
    KINDS,
    NAMES,
    PAYLOADS,
    RESULTS_INSIDE,
    ROLES,
    TYPED_BY_TOOL,
    first_text,
    holds_results,
    kind_of,
    kinds_in,
    snake,
)

_CONTENTS = ("parts", "blocks", "contents", "items", "content", "_content")
_LISTS_OF_CALLS = ("tool_calls", "toolCalls", "toolInvocations", "invalid_tool_calls", "toolRequests")
_THOUGHTS = ("reasoning_content", "reasoning", "thought", "reasoningText")
_TEXTS = frozenset({"text", "inputtext", "outputtext", "systemprompt", "userprompt", "summarytext", ""})
_THINKING = frozenset({"thinking", "reasoning", "redactedthinking", "redacted", "reasoningtext", "think"})
_SAYS_NOTHING = frozenset(
    {"stepstart", "stepfinish", "stepend", "sourceurl", "sourcedocument", "usage", "inputjsondelta"}
)
"""Kinds of blocks that hold nothing that was said or done; usage is read apart."""
_OPAQUE = frozenset({"thoughtsignature", "thought", "videometadata", "partmetadata"})
_RETRY = "retryprompt"
"""What a model is told to do again: with the name of a tool it is the result of a call that failed."""
_ROLES_OF_PARTS = {"systemprompt": "system", "userprompt": "user", _RETRY: "user"}
_RAN_ON = {"servertooluse": "server", "servertoolcall": "server", "mcptooluse": "mcp"}
_SPEAKERS: dict[str, Callable[..., EventFields]] = {
    "agent": make.agent_message,
    "user": make.user_message,
    "system": make.system_message,
}
_CODE, _SEARCH = "code_execution", "google_search"


class MessageReader:
    """Reads messages of the record at `place`; what of one it does not know becomes a diagnostic.

    `is_whole`: messages are as their source has them, so that a field which none defines is reported.
    """

    def __init__(self, place: str, diagnostics: Diagnostics, *, is_whole: bool = True) -> None:
        self.place, self.diagnostics, self._is_whole = place, diagnostics, is_whole

    def messages(self, values: Any, field: str, *, role: str | None = None) -> list[Message]:
        """Read a list of messages or items, or a list that holds one such list; `field` is where it is.

        `role` is that of messages which state none.
        """
        if isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
            values = values[0]
        return [
            self.message(value, f"{field}[{number}]", role=role) for number, value in enumerate(items(values))
        ]

    def events_of(self, values: Any, field: str) -> list[EventFields]:
        """Return what happens in a list of messages, as `messages` takes it."""
        return [fields for message in self.messages(values, field) for fields in message.events]

    def message(self, value: Any, field: str, *, role: str | None = None) -> Message:
        """Read one message with its id, by which a repetition is told."""
        fields = mapping(value)
        own = (fields if _WRAPPERS.isdisjoint(fields) else unwrapped(value)).get("id")
        events = self.events(value, field, role=role)
        is_call_id = own is not None and any(own == made.get("call_id") for made in events)
        return message_of(events, own if isinstance(own, str) and own and not is_call_id else None)

    def events(self, value: Any, field: str, *, role: str | None = None) -> list[EventFields]:
        """Return what happens in one message or item."""
        if type(value) is dict and len(value) == 2:  # most are a role and a text
            content, speaker = value.get("content"), _SPEAKERS.get(ROLES.get(value.get("role", ""), ""))
            if type(content) is str and content and speaker is not None:
                return [speaker(content)]
        if type(value) is dict and value.keys() == _PLAIN_RESULT and value["role"] == "tool":
            content = value["content"]
            if type(content) is str and content:
                return [make.tool_result(content, value["tool_call_id"])]
        fields = unwrapped(value)
        stated = next((fields[name] for name in ("role", "_role") if isinstance(fields.get(name), str)), role)
        kind = fields.get("type")
        if stated is None and fields.get("kind") in ("request", "response"):
            stated = "assistant" if fields["kind"] == "response" else None
        elif stated is None and isinstance(kind, str):
            if kind not in ROLES:
                return item_events(fields, self.place, field, self.diagnostics)
            stated = kind
        speaker_role = ROLES.get(stated or "", stated)
        if speaker_role == "remove":
            reason = "removes an earlier message from the state; the trace keeps it"
            self.diagnostics.note(self.place, field, reason)
            return []
        if speaker_role is not None and speaker_role not in (*_SPEAKERS, "tool"):
            reason = f"has the role {speaker_role!r}, which is none of this format"
            self.diagnostics.lost(self.place, field, reason)
            return []
        if self._is_whole:
            report_unknown(fields, "message", self.place, f"{field}.", self.diagnostics)
        events = list(self._events(fields, speaker_role, field))
        add_facts(fields, events, is_agent=speaker_role == "agent")
        return events

    def _events(self, fields: Mapping[str, Any], role: str | None, field: str) -> Iterator[EventFields]:
        content = next((fields[name] for name in _CONTENTS if fields.get(name) not in (None, [], "")), None)
        more = mapping(fields.get("additional_kwargs"))
        # AutoGen lists results without a kind.
        blocks = [mapping(block).keys() for block in items(content)]
        listed = bool(blocks) and all({"call_id", "content"} <= names for names in blocks)
        if role == "tool" and not (holds_results(content) or listed):
            call_id = first_text(fields, IDS) or more.get("tool_call_id")
            yield _result(fields, call_id, _text_of(content))
            return
        if role == "agent":  # what it thought comes before its content
            thoughts = (text(each.get(name)) for name in _THOUGHTS for each in (fields, more))
            if (thought := next(filter(None, thoughts), None)) is not None:
                yield make.reasoning(thought)
            for summary in map(mapping, items(fields.get("thoughts"))):
                yield make.reasoning(summary.get("description") or summary.get("subject"))
        elif content is None and role in _SPEAKERS and fields.get("content") is not None:
            yield _SPEAKERS[role](fields["content"])
        by_id = set()
        for made in self.blocks(content, role, field, call_id=first_text(fields, CALL_IDS)):
            by_id.add(made.get("call_id", made["type"]))
            yield made
        if role in ("agent", "user"):
            yield from _after(fields, by_id)

    def blocks(
        self, content: Any, role: str | None, field: str, *, call_id: str | None = None
    ) -> list[EventFields]:
        """Read content: a text, or blocks of which texts in a row are one message.

        `call_id` is that of results which state none.
        """
        if not isinstance(content, str | dict | list | None) or (
            isinstance(content, list) and not all(isinstance(block, str | dict) for block in content)
        ):
            return [_SPEAKERS[role](content)] if role in _SPEAKERS else []  # a value of its own
        events: list[EventFields] = []
        spoken: list[dict[str, Any]] = []
        thoughts: list[str] = []
        notes: dict[str, list[Any]] = {}
        speaker = role
        for number, block in enumerate(content if isinstance(content, list) else [content]):
            if block is None and not isinstance(content, list):
                continue
            if isinstance(block, dict) and block.get("thought") is True and text(block.get("text")):
                thoughts.append(block["text"])
                continue
            of_part = text(mapping(block).get("part_kind"))
            spoken_by = (_ROLES_OF_PARTS.get(kind_of(of_part).word) if of_part else None) or role
            part = _spoken(block)
            if spoken and (part is None or spoken_by != speaker):
                events += self._message(speaker, spoken, notes, field)
                spoken, notes = [], {}
            if part is not None:
                speaker = spoken_by
                spoken.append(part)
                for name, known in _NOTES:
                    if isinstance(block, dict) and items(block.get(name)):
                        notes.setdefault(known, []).extend(block[name])
                continue
            made = _acted(mapping(block), call_id)
            if made is None and isinstance(content, dict) and role in _SPEAKERS:
                return [_SPEAKERS[role](content)]  # a value of its own
            events += [make.reasoning("".join(thoughts))] if thoughts and made else []
            thoughts = [] if made else thoughts
            events += made if made is not None else self._unknown(mapping(block), f"{field}[{number}]")
        events += [make.reasoning("".join(thoughts))] if thoughts else []
        return events + self._message(speaker, spoken, notes, field)

    def _message(
        self, role: str | None, parts: list[dict[str, Any]], notes: dict[str, list[Any]], field: str
    ) -> list[EventFields]:
        if not parts:
            return []
        content: Any = parts
        if all(part.get("type") == "text" for part in parts):
            content = "".join(part["text"] for part in parts)
            if not content and role != "user":
                return []
        if role == "tool":
            return [make.tool_result(content)]
        speaker = _SPEAKERS.get(role or "")
        if speaker is None:
            self.diagnostics.lost(self.place, field, "has no role, so its author is unknown")
            return []
        return [speaker(content, attributes=notes) if notes else speaker(content)]

    def _unknown(self, block: Mapping[str, Any], field: str) -> list[EventFields]:
        kinds = {kind.word for kind in kinds_in(block)}
        stated = next((block[name] for name in KINDS if isinstance(block.get(name), str)), None)
        named = sorted(
            name
            for name, value in block.items()
            if value is not None and name.lower().replace("_", "") not in _OPAQUE
        )
        if _SAYS_NOTHING.isdisjoint(kinds) and (named or not block):
            what = f"the type {stated!r}" if stated is not None else ", ".join(named[:4]) or "nothing"
            self.diagnostics.lost(self.place, field, f"is of {what}, which is not known")
        return []


_WRAPPERS = frozenset({"lc", "data", "Role"})
"""Fields of messages in a wrapper."""
_NOTES = (("citations", "anthropic.citations"), ("annotations", "openai.annotations"))


def unwrapped(value: Any) -> Mapping[str, Any]:
    """Return the fields of a message without the wrapper that LangChain, .NET and others put around it."""
    fields = mapping(value)
    if fields.get("lc") == 1 and isinstance(fields.get("id"), list) and fields["id"]:
        return {**mapping(fields.get("kwargs")), "role": str(fields["id"][-1])}
    kind = fields.get("type")
    if isinstance(kind, str) and kind in ROLES and isinstance(fields.get("data"), dict):
        return {**fields["data"], "role": kind}
    if kind in ("chat", "ChatMessage", "ChatMessageChunk", "AIMessageChunk"):
        return {**fields, "role": fields.get("role", "assistant")}
    if "Role" in fields and "role" not in fields:
        plain = _as_python(fields)
        role = plain["role"]
        return {**plain, "role": str(mapping(role).get("label", role)).lower()}
    return fields


def _as_python(value: Any) -> Any:
    """Write the fields of .NET as Python does: `CallId` as `call_id`; the arguments of a call as they are."""
    if isinstance(value, list):
        return [_as_python(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    whole = ("Arguments", "Result", "Metadata")
    return {snake(name): inner if name in whole else _as_python(inner) for name, inner in value.items()}


def _after(fields: Mapping[str, Any], read: set[Any]) -> Iterator[EventFields]:
    """Yield what a message has after its content: sound, a refusal, calls, results beside them.

    `read` has the ids of the calls that blocks have already.
    """
    more = mapping(fields.get("additional_kwargs"))
    audio = mapping(fields.get("audio"))
    if audio:
        part = {"type": "audio", "data": audio.get("data"), "name": audio.get("id")}
        yield make.agent_message([{"type": "text", "text": audio.get("transcript") or ""}, part])
    refusal = text(fields.get("refusal")) or text(more.get("refusal"))
    if refusal is not None:
        yield make.agent_message(refusal, stop_reason="refusal")
    listed = [call for name in _LISTS_OF_CALLS for call in items(fields.get(name))]
    for call in map(mapping, listed or items(more.get("tool_calls"))):
        made = _call_events(call)
        if made[0].get("call_id", "tool_call") not in read:
            yield from made
    legacy = mapping(fields.get("function_call")) or mapping(more.get("function_call"))
    if legacy and not listed:
        yield make.tool_call(text(legacy.get("name")), legacy.get("arguments"))


def _acted(block: Mapping[str, Any], call_id: str | None) -> list[EventFields] | None:
    """Read a block that is a call, a result, both in one, or a thought; None if it is none of these."""
    kinds = kinds_in(block)
    word = kinds[0].word if kinds else ""
    if word in _THINKING or "reasoningContent" in block:
        inner = mapping(block.get("reasoningContent", block))
        inner = {} if block.get("redacted") is True else mapping(inner.get("reasoningText", inner))
        return [make.reasoning(first_text(inner, ("text", "content", "thinking", "reasoning", "think")))]
    if word == "refusal":
        return [make.agent_message(block["refusal"], stop_reason="refusal")] if block.get("refusal") else []
    if word == "compaction":
        return [make.event("agent", "state", output=block.get("content"))]
    code = mapping(block.get("executableCode", block.get("executable_code")))
    if code:
        arguments = {name: code[name] for name in ("language", "code") if code.get(name) is not None}
        return [make.tool_call(_CODE, arguments, code.get("id"), ran_on="server")]
    ran = mapping(block.get("codeExecutionResult", block.get("code_execution_result")))
    if ran:
        error = None if ran.get("outcome") in (None, "OUTCOME_OK") else ran["outcome"]
        return [make.tool_result(ran.get("output"), ran.get("id"), tool=_CODE, error=error, ran_on="server")]
    server = next((name for name in ("toolCall", "toolResponse", "tool_response") if name in block), None)
    if server is not None and not kinds:
        inner = mapping(block[server])
        name = first_text(inner, ("toolType", "tool_type", "name"))
        if server == "toolCall":
            return [make.tool_call(name, inner.get("args"), inner.get("id"), ran_on="server")]
        return [make.tool_result(inner.get("response"), inner.get("id"), tool=name, ran_on="server")]
    answered = next((name for name in RESULTS_INSIDE if isinstance(block.get(name), dict)), None)
    is_result = word.endswith("toolresult") or word == _RETRY or any(kind.is_result for kind in kinds)
    is_bare_result = not kinds and "content" in block and first_text(block, CALL_IDS) is not None
    if answered is not None or is_result or is_bare_result:
        return [_block_result(block, word, answered, call_id)]
    is_call = any(kind.is_call for kind in kinds) or any(
        isinstance(block.get(name), dict) and block[name] for name in CALLS_INSIDE
    )
    is_typed = "toolCallId" in block and TYPED_BY_TOOL.fullmatch(str(block.get("type")))
    is_named = not kinds and first_text(block, IDS) and first_text(block, NAMES)
    is_bare = is_named and any(name in block for name in ARGUMENTS)
    return _call_events(block) if is_call or is_typed or is_bare else None


def _call_events(block: Mapping[str, Any]) -> list[EventFields]:
    """Read a call, wherever its name and its arguments are, with the result that some formats put into it."""
    function = block.get("function")
    if type(function) is dict and len(function) == 2 and block.keys() == _PLAIN_CALL:
        return [make.tool_call(text(function.get("name")), function.get("arguments"), text(block["id"]))]
    kinds = [kind.word for kind in kinds_in(block)]
    call: Mapping[str, Any] = block
    names: list[str | None] = []
    own: str | None = None
    while True:
        own = own or first_text(call, IDS)
        plugin, function = text(call.get("plugin_name")), text(call.get("function_name"))
        names.append(f"{plugin}-{function}" if plugin and function else first_text(call, NAMES))
        inside = next((name for name in CALLS_INSIDE if isinstance(call.get(name), dict)), None)
        if inside is None:
            break
        call = call[inside]
        if inside == "custom":
            # The input of a custom tool is free text, not JSON.
            made = make.event("agent", "tool_call", tool=first_text(call, NAMES), input=call.get("input"))
            return [made | ({"call_id": own} if own else {})]
    typed = TYPED_BY_TOOL.fullmatch(str(block.get("type"))) if "toolCallId" in block else None
    name = typed[1] if typed else next(filter(None, reversed(names)), None) or text(call.get("type"))
    hosted = call.get("server_tool_call")
    arguments = next((call[word] for word in ARGUMENTS if word in call), None)
    if hosted is not None:
        arguments = mapping(hosted).get("arguments", hosted)
    place = next((_RAN_ON[word] for word in kinds if word in _RAN_ON), None)
    if place == "mcp":
        place = f"mcp:{block.get('server_name') or ''}".removesuffix(":")
    error = text(block.get("parse_error")) or (text(block.get("error")) if "args" in block else None)
    state = call.get("state")
    if isinstance(state, dict):  # opencode's
        arguments = state.get("input")
    events = [make.tool_call(name, arguments, own, ran_on=place)]
    if any(word in call for word in ("output", "result", "errorText", "resultDisplay")):
        events.append(_result(call, own))
    elif error:
        events[0]["error"] = error
    return events


_PLAIN_RESULT = {"role", "content", "tool_call_id"}
_PLAIN_CALL = {"id", "type", "function"}
"""The fields of most calls: two of the function, and none of a result."""


def _block_result(
    block: Mapping[str, Any], word: str, answered: str | None, call_id: str | None
) -> EventFields:
    result = block if answered is None else block[answered]
    if word == "toolresult" and "tool_result" in block:
        return make.tool_result(block["tool_result"], first_text(block, CALL_IDS) or call_id)
    if answered in ("functionResponse", "function_response"):
        response = result.get("response")
        error = mapping(response).get("error")
        return make.tool_result(response, result.get("id"), tool=text(result.get("name")), error=error)
    own = first_text(result, CALL_IDS) or first_text(mapping(result.get("origin")), IDS)
    made = _result(result, own or call_id)
    if "call_id" not in made and (named := first_text(result, ("id",))):
        made["call_id"] = named
    hosted = word.endswith("toolresult") and word not in ("toolresult", "mcptoolresult")
    return made | ({"ran_on": "server"} if hosted or word == "servertoolcallresponse" else {})


def _result(result: Mapping[str, Any], call_id: Any, spoken: str | None = None) -> EventFields:
    """Make the event of a result; `spoken` is its text where that is known already."""
    output, error = outcome(result)
    if spoken is not None and error is None:
        output = spoken
    origin = mapping(result.get("origin"))
    named = first_text(result, NAMES[:-2]) or first_text(origin, NAMES) or first_text(result, NAMES[-2:])
    plugin = text(result.get("plugin_name"))
    tool = f"{plugin}-{result['function_name']}" if plugin and text(result.get("function_name")) else named
    return make.tool_result(output, call_id, tool=tool, error=error)


def outcome(result: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what a result holds, and its error; a result that is only marked as failed holds its error."""
    output = next((result[name] for name in PAYLOADS if result.get(name) is not None), None)
    kind = ""
    if isinstance(output, dict) and {"type", "value"} >= set(output) and isinstance(output.get("type"), str):
        kind, output = output["type"], output.get("value")
    elif str(mapping(output).get("type", "")).endswith("_error"):
        return None, mapping(output).get("error_code") or output
    plain = [
        block for block in items(output) if isinstance(block, dict) and set(block) in ({"text"}, {"json"})
    ]
    if plain and plain == output:
        values = [value for block in output for value in block.values()]
        output = values[0] if len(values) == 1 else values
    failed = (
        any(result.get(name) is True for name in ("is_error", "isError", "error"))
        or result.get("success") is False
        or result.get("status") in ("error", "failed", "cancelled")
        or result.get("outcome") in ("failed", "denied", "retried")
        or result.get("state") in ("output-error", "output-denied")
        or kind.startswith("error")
        or kind == "execution-denied"
        or kind_of(str(result.get("part_kind", ""))).word == _RETRY
        or result.get("type") == "tool-error"
    )
    stated = next(
        (result[name] for name in _ERRORS if result.get(name) not in (None, "", False, True, {})), None
    )
    if stated is not None:
        words = mapping(stated).get("message", stated)
        return None if output in ("", None, stated, words) else output, stated
    if failed:
        spoken = _text_of(output)
        return None, spoken or output or result.get("status") or True
    return output, None


_ERRORS = ("errorText", "exception", "error")


def add_facts(fields: Mapping[str, Any], events: list[EventFields], *, is_agent: bool) -> None:
    """Give the usage, the model, the time and the like of a message to its last event of the agent."""
    if _FACTS.isdisjoint(fields):
        return
    about = [fields, *(mapping(fields[name]) for name in _ABOUT if name in fields)]
    moments = (make.timestamp_of(each.get(name)) for each in about for name in _TIMES)
    moment = next(filter(None, moments), None)
    last = make.last_of_agent(events)
    if is_agent:
        facts = {
            name: next((value for each in about if (value := first_text(each, words))), None)
            for name, words in _OF_FACTS.items()
        }
        stated = [each[name] for each in about for name in (*_USAGES, "Usage") if name in each]
        blocks = map(mapping, items(fields.get("contents")))
        stated += [block.get("usage_details", block.get("details")) for block in blocks]
        usage = next((known for each in stated if (known := usage_in(each))), None)
        places = (fields, mapping(fields.get("metrics")))
        costs = [each.get(name) for each in places for name in ("cost", "cost_usd")]
        amounts = {"usage": usage, "cost_usd": next(filter(make.is_amount, costs), None)}
        known = make.not_null(facts | amounts)
        if last is None and known and not events and not set(known) <= {"agent_name"}:
            last = make.agent_message(None)
            events.append(last)
        if last is not None:
            last.update({name: value for name, value in known.items() if name not in last})
    for made in events if moment is not None else ():
        made.setdefault("ts", moment)


_TIMES = ("timestamp", "createdAt", "created_at", "created", "CreatedAt")
_ABOUT = ("meta", "metadata", "response_metadata", "modelInfo", "_meta")
_USAGES = ("usage", "usage_metadata", "usageMetadata", "models_usage", "metrics", "tokens", "token_usage")
_OF_FACTS = {
    "model": ("model", "model_name", "ai_model_id", "model_id", "modelID", "modelId"),
    "stop_reason": ("finish_reason", "stop_reason", "finishReason", "stopReason", "FinishReason"),
    "agent_name": ("author_name", "authorName", "agent_name", "name"),
}
_FACTS = frozenset({*_TIMES, *_ABOUT, *_USAGES, "contents", "cost", "cost_usd"}) | {
    name for names in _OF_FACTS.values() for name in names
}


def mark_errors(events: Iterable[EventFields], failed: str) -> None:
    """Take results that begin with `failed` for errors: some formats have no other mark."""
    for fields in events:
        output = fields.get("output")
        if fields["type"] == "tool_result" and isinstance(output, str) and output.startswith(failed):
            fields["error"] = fields.pop("output")


def _spoken(block: Any) -> dict[str, Any] | None:
    """Return a block of text, an image or a file as `content_of` reads it; None for anything else."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return None
    word = next((kind.word for kind in kinds_in(block)), "")
    if word in _TEXTS or (word == _RETRY and not block.get("tool_name")):
        for name in ("text", "content"):
            stated = block.get(name)
            stated = stated["value"] if isinstance(stated, dict) and "value" in stated else stated
            if isinstance(stated, str) and (word or name in ("text",) or set(block) <= {"content"}):
                return {"type": "text", "text": stated}
            if isinstance(stated, list) and word == "userprompt":
                return {"type": "text", "text": "".join(part for part in stated if isinstance(part, str))}
    if word in ("uri", "blob", "file") and not block.keys().isdisjoint(("modality", "mime_type")):
        kind = block["modality"] if block.get("modality") in ("image", "audio") else "file"
        data = block.get("content") if word == "blob" else None
        return {**block, "type": kind, "url": block.get("uri"), "data": data}
    if word == "image" and not block.keys().isdisjoint(("data_uri", "uri")):
        return {**block, "type": "image", "url": block.get("data_uri") or block.get("uri")}
    inline = mapping(block.get("inlineData", block.get("inline_data")))
    file = mapping(block.get("fileData", block.get("file_data")))
    if not inline and not file:
        return block if word and part_of(block) is not None else None
    source = inline or file
    media_type = source.get("mimeType", source.get("mime_type"))
    kind = str(media_type).partition("/")[0]
    made: dict[str, Any] = {"type": kind if kind in ("image", "audio") else "file", "mime_type": media_type}
    if isinstance(data := inline.get("data"), str):  # in the alphabet of URLs where Python writes it
        data = data.replace("-", "+").replace("_", "/")
        made["data"] = data + "=" * (-len(data) % 4)
    if file:
        made["url"] = file.get("fileUri", file.get("file_uri"))
    named = first_text(source, ("displayName", "display_name"))
    return made | ({"filename": named} if named else {})


def _text_of(content: Any) -> str | None:
    """Return the text of content; None where it holds anything else."""
    if isinstance(content, str):
        return content
    parts = [_spoken(block) for block in items(content)]
    if not parts or any(part is None or part.get("type") != "text" for part in parts):
        return None
    return "".join(part["text"] for part in parts if part is not None)
