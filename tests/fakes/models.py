"""Model services on localhost: OpenAI's chat completions and Anthropic's messages, as far as agents use them.

A server plays a script, one step a request and the last one again and again. It refuses requests that the
real service would refuse: no model, no messages, tool results that answer no call.
"""

import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.server import Served


@dataclass(frozen=True)
class Step:
    """What a server does with one request.

    `text` and `calls` (tool, arguments) make a proper answer. Else `status` with `headers`, or a raw `body`.
    `slow` waits before every byte, `cut` closes the connection in the middle, `hang` waits before answering.
    """

    text: str | None = None
    calls: Sequence[tuple[str, Any]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    hang: float = 0.0
    slow: float = 0.0
    cut: bool = False
    usage: tuple[int, int] = (100, 10)


class FakeModel(Served):
    """A server with its script; remembers the requests.

    Attributes:
        requests: Bodies of the requests, in order.
        authorizations: How each of them named its key.
    """

    path = ""

    def __init__(self, *script: Step) -> None:
        super().__init__(self.handle)
        self.script = list(script) or [Step(text="hello")]
        self.requests: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        self._lock = threading.Lock()
        self._start()

    @property
    def base_url(self) -> str:
        """What an SDK is told."""
        raise NotImplementedError

    @property
    def origin(self) -> str:
        return self._host()

    def handle(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        request = json.loads(data)
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.authorizations.append(
                handler.headers.get("Authorization") or handler.headers.get("X-Api-Key")
            )
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        problem = f"no such path: {handler.path}" if handler.path != self.path else self.problem(request)
        if problem:
            step = Step(status=400, body=json.dumps({"error": {"message": problem}}).encode())
        time.sleep(step.hang)
        body = step.body
        if body is None:
            body = b'{"error": {"message": "as the script says"}}'
            if step.status == 200:
                body = json.dumps(self.answer(request, step, number)).encode()
        handler.send_response(step.status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        for name, value in step.headers.items():
            handler.send_header(name, value)
        with suppress(BrokenPipeError, ConnectionResetError):
            handler.end_headers()
            _send(handler, step, body)

    def problem(self, request: dict[str, Any]) -> str:
        """What the real service would find wrong with a request; empty for nothing."""
        if not request.get("model") or not request.get("messages"):
            return "model and messages are required"
        asked = self.asked_ids(request["messages"])
        answered = self.answered_ids(request["messages"])
        return "" if asked == answered else f"tool calls {asked} were answered as {answered}"

    def asked_ids(self, messages: list[dict[str, Any]]) -> list[str]:
        raise NotImplementedError

    def answered_ids(self, messages: list[dict[str, Any]]) -> list[str]:
        raise NotImplementedError

    @staticmethod
    def answer(request: dict[str, Any], step: Step, number: int) -> dict[str, Any]:
        """The proper answer to the request with this number."""
        raise NotImplementedError


def _send(handler: BaseHTTPRequestHandler, step: Step, body: bytes) -> None:
    if step.cut:
        handler.wfile.write(body[: len(body) // 2])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
    elif step.slow:
        for position in range(len(body)):
            handler.wfile.write(body[position : position + 1])
            handler.wfile.flush()
            time.sleep(step.slow)
    else:
        handler.wfile.write(body)


class FakeOpenAi(FakeModel):
    """https://platform.openai.com/docs/api-reference/chat/create"""

    path = "/v1/chat/completions"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    def asked_ids(self, messages: list[dict[str, Any]]) -> list[str]:
        return [call["id"] for message in messages for call in message.get("tool_calls") or []]

    def answered_ids(self, messages: list[dict[str, Any]]) -> list[str]:
        return [message["tool_call_id"] for message in messages if message["role"] == "tool"]

    @staticmethod
    def answer(request: dict[str, Any], step: Step, number: int) -> dict[str, Any]:
        calls = [
            {
                "id": f"call_{number}_{position}",
                "type": "function",
                "function": {
                    "name": tool,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for position, (tool, arguments) in enumerate(step.calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": step.text}
        if calls:
            message["tool_calls"] = calls
        finish = "tool_calls" if calls else "stop"
        return {
            "id": f"chatcmpl-{number}", "object": "chat.completion", "model": f"{request['model']}-2026",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": step.usage[0], "completion_tokens": step.usage[1],
                      "total_tokens": sum(step.usage), "prompt_tokens_details": {"cached_tokens": 5}},
        }  # fmt: skip


class FakeAnthropic(FakeModel):
    """https://docs.anthropic.com/en/api/messages"""

    path = "/v1/messages"

    @property
    def base_url(self) -> str:
        return self.origin

    def problem(self, request: dict[str, Any]) -> str:
        if not request.get("max_tokens"):
            return "max_tokens is required"
        if any(message["role"] not in ("user", "assistant") for message in request["messages"]):
            return "roles are user and assistant"
        return super().problem(request)

    def asked_ids(self, messages: list[dict[str, Any]]) -> list[str]:
        return [block["id"] for block in _blocks(messages) if block["type"] == "tool_use"]

    def answered_ids(self, messages: list[dict[str, Any]]) -> list[str]:
        return [block["tool_use_id"] for block in _blocks(messages) if block["type"] == "tool_result"]

    @staticmethod
    def answer(request: dict[str, Any], step: Step, number: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = [] if step.text is None else [{"type": "text", "text": step.text}]
        content += [
            {"type": "tool_use", "id": f"toolu_{number}_{position}", "name": tool, "input": arguments}
            for position, (tool, arguments) in enumerate(step.calls)
        ]
        return {
            "id": f"msg_{number}", "type": "message", "role": "assistant",
            "model": f"{request['model']}-2026", "content": content,
            "stop_reason": "tool_use" if step.calls else "end_turn",
            "usage": {"input_tokens": step.usage[0] - 5, "output_tokens": step.usage[1],
                      "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0},
        }  # fmt: skip


def _blocks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for each in messages if isinstance(each["content"], list) for block in each["content"]]


FAKES: dict[str, type[FakeModel]] = {"openai": FakeOpenAi, "anthropic": FakeAnthropic}
"""The server of each provider whose models can be tested; `test_catalog` holds it to the catalog."""
