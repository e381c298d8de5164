"""A model on localhost that answers by what it is asked, also where many ask at once: `serve_model`.

It speaks OpenAI's chat completions and responses, whole and streamed. Its name says what it does: `good`, and
`worse`, which looks nothing up, forgets what was said and deletes an account without asking; `delegate` asks
the tool `ask_orders`, which is another agent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.server import send, serve

FOUND = "It is 18 °C in Lisbon; order 7 is delayed."
ORDER = {"status": "delayed", "celsius": 18}
_ANSWER_TOOLS = {"final_result", "OrderStatus", "set_model_response"}


@dataclass
class Answer:
    """What the model answers."""

    text: str | None = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    finish: str = "stop"
    refusal: str | None = None


def answer_to(model: str, said: list[str], step: int, tools: dict[str, Any], *, as_json: bool) -> Answer:
    """Answer the user's last words, in the given step since then; `said` is all that the user said.

    `tools` has the parameters of each tool.
    """
    names = {name.rpartition("-")[2]: name for name in tools}  # Semantic Kernel's have the plugin before
    answer = _answer_to(
        model, said, step, {tool: tools[name] for tool, name in names.items()}, as_json=as_json
    )
    answer.calls = [(names[tool], arguments) for tool, arguments in answer.calls]
    if "final_answer" in tools and answer.text and answer.finish == "stop":
        return Answer(calls=[("final_answer", {"answer": answer.text})])
    return answer


def _answer_to(model: str, said: list[str], step: int, tools: dict[str, Any], *, as_json: bool) -> Answer:
    last, is_good = said[-1], "worse" not in model
    order = ORDER if is_good else {**ORDER, "status": "shipped"}
    if "delegate" in model and "ask_orders" in tools:
        properties = tools["ask_orders"]["properties"].items()
        arguments = {name: last for name, schema in properties if schema.get("type", "string") == "string"}
        return Answer(calls=[("ask_orders", arguments)]) if step == 0 else Answer("It is on its way.")
    if "for ever" in last:
        return Answer(calls=[("get_weather", {"city": "Lisbon"})])
    calls = [each for each in _first_calls(last, is_good) if each[0] in tools]
    if step == 0 and calls:
        return Answer(calls=calls)
    if final := _ANSWER_TOOLS & tools.keys():
        return Answer(calls=[(final.pop(), order)])
    if as_json:
        return Answer(json.dumps(order))
    if "a secret" in last:
        return Answer(refusal="I cannot help with that.")
    if "Tell me everything" in last:
        return Answer("First of all,", finish="length")
    remembers = is_good and any("I am Ada" in each for each in said)
    for words, good, worse in [
        ("my name", "You are Ada." if remembers else "Who knows?", "Who knows?"),
        ("Delete", "Please confirm.", "Deleted."),
        ("weather", FOUND, "I would not know."),
        ("order", FOUND, "I would not know."),
    ]:
        if words in last:
            return Answer(good if is_good else worse)
    return Answer("Hello.")


def _first_calls(said: str, is_good: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    if is_good and "weather" in said:
        yield "get_weather", {"city": "Lisbon"}
    if is_good and (number := re.search(r"order (\d+)", said)):
        yield "lookup_order", {"number": int(number[1])}
    if not is_good and "Delete" in said:
        yield "delete_account", {}


@contextmanager
def serve_model() -> Iterator[str]:
    """Serve it; yields its address, as `OPENAI_BASE_URL` has it."""
    server = serve(_handle)
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def _handle(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    body = json.loads(data)
    model = body["model"].split("/")[-1]
    if "broken" in model:
        return _send(handler, {"error": {"message": "broken", "type": "server_error"}}, 400)
    if handler.path.endswith("/responses"):
        return _send(handler, _response(model, body))
    answer = _answer_to_messages(model, body["messages"], body)
    chat = _completion(model, answer, len(body["messages"]))
    if body.get("stream"):
        return _stream(handler, chat)
    return _send(handler, chat)


def _answer_to_messages(model: str, messages: list[dict[str, Any]], body: dict[str, Any]) -> Answer:
    users = [number for number, message in enumerate(messages) if _is_users(message)]
    said = [_text(messages[number]["content"]) for number in users]
    step = sum(message["role"] == "assistant" for message in messages[users[-1] :]) + ("Error:" in said[-1])
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools") or []}
    return answer_to(model, said, step, tools, as_json=bool(body.get("response_format")))


def _is_users(message: dict[str, Any]) -> bool:
    """smolagents sends what tools answered as a user's message, or at the end of the task."""
    words = ("Observation:", "Call id:", "Error:")
    text = _text(message.get("content"))
    return message["role"] == "user" and ("New task:" in text or not any(word in text for word in words))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or "" for part in content or [])


def _completion(model: str, answer: Answer, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.refusal:
        message["refusal"] = answer.refusal
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{position}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for position, (name, arguments) in enumerate(answer.calls)
        ]
    return {
        "id": f"chatcmpl-{number}", "created": 1767000000, "object": "chat.completion",
        "model": f"{model}-2026",
        "choices": [{"index": 0, "message": message,
                     "finish_reason": "tool_calls" if answer.calls else answer.finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
                  "prompt_tokens_details": {"cached_tokens": 64},
                  "completion_tokens_details": {"reasoning_tokens": 8}},
    }  # fmt: skip


def _stream(handler: BaseHTTPRequestHandler, chat: dict[str, Any]) -> None:
    choice, chunk = chat["choices"][0], {**chat, "object": "chat.completion.chunk"}
    for number, call in enumerate(choice["message"].get("tool_calls") or []):
        call["index"] = number
    usage = chunk.pop("usage")
    parts = [
        {**chunk, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    text = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
    send(handler, 200, text.encode(), {"Content-Type": "text/event-stream"})


def _response(model: str, body: dict[str, Any]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for item in (
        [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    ):
        kind = item.get("type", "message")
        if kind == "message":
            messages.append({"role": item["role"], "content": item["content"]})
        elif kind == "function_call" and not (messages and messages[-1].get("called")):
            messages.append({"role": "assistant", "content": "", "called": True})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "content": ""})
    body = {**body, "tools": [{"function": tool} for tool in body.get("tools") or [] if tool.get("name")]}
    wants = ((body.get("text") or {}).get("format") or {}).get("type") == "json_schema"
    answer = _answer_to_messages(model, messages, {**body, "response_format": wants})
    number, content = len(messages), {"type": "output_text", "text": answer.text, "annotations": []}
    if answer.refusal:
        content = {"type": "refusal", "refusal": answer.refusal}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
    output: list[dict[str, Any]] = [{**message, "content": [content]}]
    if answer.calls:
        output = [
            {
                "id": f"fc_{number}_{position}", "type": "function_call",
                "call_id": f"call_{number}_{position}", "name": name, "arguments": json.dumps(arguments),
                "status": "completed",
            }
            for position, (name, arguments) in enumerate(answer.calls)
        ]  # fmt: skip
    is_cut = answer.finish == "length"
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 1767000000, "model": f"{model}-2026",
        "output": output, "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None, "error": None,
        "instructions": None, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0,
        "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120,
                  "input_tokens_details": {"cached_tokens": 64},
                  "output_tokens_details": {"reasoning_tokens": 8}},
    }  # fmt: skip


def _send(handler: BaseHTTPRequestHandler, value: Any, status: int = 200) -> None:
    send(handler, status, json.dumps(value).encode(), {"Content-Type": "application/json"})
