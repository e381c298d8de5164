"""Event streams of OpenAI, put together to the answer that the API gives without streaming."""

from __future__ import annotations

from typing import Any

from agent_eval.importers.events import items, mapping, text
from agent_eval.importers.sse import EventStream, place_of

ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


def is_response_stream(first: Any) -> bool:
    """Whether a stream with this first event is one of Responses."""
    return str(mapping(first).get("type", "")).startswith("response.")


def response_of(stream: EventStream) -> tuple[dict[str, Any], bool]:
    """Return the answer of Responses that a stream carries, and whether the stream is whole."""
    response: dict[str, Any] = {}
    done: dict[Any, Any] = {}
    for data in map(mapping, stream.events):
        kind = data.get("type")
        if kind == "error":
            response["error"] = {name: data.get(name) for name in ("code", "message")}
        if kind == "response.output_item.done":
            done[place_of(data.get("output_index"), len(done))] = data.get("item")
        stated = data.get("response")
        if isinstance(stated, dict):
            response = {**response, **stated}
            if kind in ENDS:
                if not response.get("output") and done:
                    response["output"] = list(done.values())
                return response, True
    return {**response, "output": list(done.values())}, False


def completion_of(stream: EventStream) -> tuple[dict[str, Any], bool]:
    """Return the answer of Chat Completions that a stream carries, and whether the stream is whole."""
    body: dict[str, Any] = {"object": "chat.completion"}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in map(mapping, stream.events):
        for name in ("id", "model", "created", "usage", "error", "service_tier", "system_fingerprint"):
            if chunk.get(name) is not None:
                body[name] = chunk[name]
        for choice in map(mapping, items(chunk.get("choices"))):
            index = place_of(choice.get("index"), 0)
            made = choices.setdefault(index, {"index": index, "message": {"role": "assistant"}})
            _add_delta(made["message"], mapping(choice.get("delta")))
            if choice.get("finish_reason") is not None:
                made["finish_reason"] = choice["finish_reason"]
    body["choices"] = [_finished(choices[index]) for index in sorted(choices)]
    return body, "error" in body or all("finish_reason" in choice for choice in body["choices"])


def _add_delta(message: dict[str, Any], delta: Any) -> None:
    for name in _TEXTS:
        part = text(delta.get(name))
        if part is not None:
            message[name] = message.get(name, "") + part
    calls = message.setdefault("calls", [])
    for call in map(mapping, items(delta.get("tool_calls"))):
        function = mapping(call.get("function"))
        own, index = text(call.get("id")), call.get("index")
        made = _call_of(calls, own, index, text(function.get("name")))
        # The id and the name are in the first fragment only; some servers repeat them in each.
        made["id"] = made["id"] or own or ""
        made["name"] = made["name"] or function.get("name") or ""
        made["arguments"] += function.get("arguments") or ""


def _call_of(calls: list[dict[str, Any]], own: str | None, index: Any, name: str | None) -> dict[str, Any]:
    """Return the call that a fragment belongs to, a new one where it begins one.

    Some servers give every call the index 0, or none: then a new id begins a call; without ids a name does.
    """
    of_index = [call for call in calls if call["index"] == index]
    if own is not None:
        known = next((call for call in calls if call["id"] == own), None)
        known = known or next((call for call in of_index[-1:] if not call["id"]), None)
    else:
        known = next(iter(of_index[-1:]), None)
        if known is not None and index is None and name and known["name"] and not known["id"]:
            known = None
    if known is None:
        known = {"index": index, "id": "", "name": "", "arguments": ""}
        calls.append(known)
    return known


def _finished(choice: dict[str, Any]) -> dict[str, Any]:
    calls = choice["message"].pop("calls", [])
    if calls:
        choice["message"]["tool_calls"] = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in sorted(calls, key=lambda call: place_of(call["index"], 0))
        ]
    return choice
