"""Both generations of the AUI API on localhost, with the answers and faults that a test wants.

It refuses what the real service would refuse: an unknown path or field, a wrong key, an unknown task.
Requests are remembered as (method, path, query, body).
"""

import itertools
import json
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.server import Served

KEY = "API_KEY_canary_0123456789"

TASK_FIELDS = {"user_id", "task_origin_type", "agent"}
MESSAGE_FIELDS = {"task_id", "text", "context", "agent_variables"}
V3_FIELDS = {"text", "user_id", "thread_id", "image_url", "agent_variables"}
ORIGINS = {
    *("stores", "web-widget", "inspection-playground", "feedback-playground"),
    *("llm-management", "third-party", "agent-builder"),
}


@dataclass(frozen=True)
class Fault:
    """What a request gets instead of its answer: the one to this end of a path that comes after so many."""

    path: str
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: float = 0.0
    cut: bool = False
    after: int = 0


class FakeAui(Served):
    """The service. `answers` are messages with their `trace_info`, by turn; the last one goes on."""

    def __init__(self, *answers: Mapping[str, Any], welcome: str | None = None) -> None:
        super().__init__(self._handle)
        self.answers = list(answers) or [{"text": "hello"}]
        self.welcome = welcome
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.tokens = 0
        self.expires_in = 3600
        self.apart = False
        self._turns: dict[str, list[Mapping[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._start()

    @property
    def url(self) -> str:
        return self._host()

    def bodies(self, path: str) -> list[Any]:
        """Bodies of the requests to a path that ends so, in order."""
        return [body for _, place, _, body in self.requests if place.endswith(path)]

    def _is_due(self, fault: Fault, path: str) -> bool:
        return path.endswith(fault.path) and len(self.bodies(fault.path)) > fault.after

    def _handle(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        method, body = handler.command, json.loads(data) if data else None
        parts = urlsplit(handler.path)
        query = dict(parse_qsl(parts.query))
        with self._lock:
            self.requests.append((method, parts.path, query, body))
            fault = next((each for each in self.faults if self._is_due(each, parts.path)), None)
            if fault is not None:
                self.faults.remove(fault)
        with suppress(BrokenPipeError, ConnectionResetError):
            if fault is None:
                status, value = self._answer(handler, method, parts.path, query, body)
                _send(handler, Fault("", status, json.dumps(value).encode()))
            else:
                time.sleep(fault.hang)
                _send(handler, fault)

    def _answer(
        self, handler: BaseHTTPRequestHandler, method: str, path: str, query: dict[str, str], body: Any
    ) -> tuple[int, Any]:
        if path.startswith("/api/v1/external/"):
            if handler.headers.get("x-network-api-key") != KEY:
                return 401, {"message": "Unauthorized"}
            return self._v1(method, path.removeprefix("/api/v1/external/"), query, body)
        if path == "/management/v1/auth/token":
            if body != {"grant_type": "publishable_key", "publishable_key": KEY}:
                return 401, {"error": {"code": "invalid_key", "message": "The key is not valid."}}
            self.tokens += 1
            return 200, {"access_token": f"token-{self.tokens}", "expires_in": self.expires_in}
        if path.startswith("/messaging/v1/"):
            if handler.headers.get("Authorization") != f"Bearer token-{self.tokens}":
                return 401, {"error": {"code": "token_expired", "message": "The token has expired."}}
            return self._v3(method, path.removeprefix("/messaging/v1/"), body)
        return 404, {"message": f"no such path: {path}"}

    def _v1(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if (method, path) == ("POST", "tasks"):
            unknown = [*(body.keys() - TASK_FIELDS), *({body.get("task_origin_type")} - ORIGINS)]
            if unknown or not body.get("user_id"):
                return 422, {"errors": [{"loc": ["body", *unknown], "msg": "Unknown", "type": "value_error"}]}
            task_id = f"task-{next(self._numbers)}"
            self._turns[task_id] = []
            welcome = {"welcome_message": self.welcome} if self.welcome else {}
            return 200, {"id": task_id, "user_id": body["user_id"], "title": "new", **welcome}
        if (method, path) == ("POST", "message"):
            if body.keys() - MESSAGE_FIELDS or query.get("is_external_api") != "true":
                return 422, {"errors": [{"loc": ["body"], "msg": "Unknown field", "type": "value_error"}]}
            if body.get("task_id") not in self._turns:
                return 404, {"message": "There is no such task."}
            return 200, self._next(
                body["task_id"], with_trace=not self.apart and "include_trace_info" in query
            )
        parts = path.split("/")
        if method == "GET" and parts[-1] == "trace-info" and self.apart:
            return 200, self._turns[parts[1]][int(parts[3].removeprefix("message-")) - 1].get("trace_info")
        return 404, {"message": f"no such path: {path}"}

    def _next(self, place: str, *, with_trace: bool) -> dict[str, Any]:
        turns = self._turns[place]
        answer = self.answers[min(len(turns), len(self.answers) - 1)]
        turns.append(answer)
        shown = {name: value for name, value in answer.items() if with_trace or name != "trace_info"}
        return {"id": f"message-{len(turns)}", "created_at": "2026-11-22T08:00:00Z", **shown}

    def _v3(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if (method, path) == ("POST", "messages"):
            if body.keys() - V3_FIELDS or not body.get("user_id"):
                fault = {"field": "body", "message": "unknown field"}
                return 422, {"error": {"code": "invalid", "message": "Invalid.", "details": [fault]}}
            thread = body.get("thread_id") or f"thread-{next(self._numbers)}"
            self._turns.setdefault(thread, [])
            message = self._next(thread, with_trace=False)
            message.pop("executed_workflows", None)
            trace = dict(self._turns[thread][-1].get("trace_info") or {})
            self._turns[thread][-1] = {"trace_info": {"input": {"message": body["text"]}, **trace}}
            return 200, {"thread_id": thread, "message": message}
        parts = path.split("/")
        if method == "GET" and parts[0] == "threads" and parts[-1] == "trace":
            return 200, [turn["trace_info"] for turn in self._turns[parts[1]]]
        return 404, {"error": {"code": "not_found", "message": "There is nothing here."}}


def _send(handler: BaseHTTPRequestHandler, answer: Fault) -> None:
    handler.send_response(answer.status)
    length = len(answer.body) + (100 if answer.cut else 0)
    fields = {"Content-Type": "application/json", "Content-Length": str(length), **answer.headers}
    for name, value in fields.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(answer.body)
    handler.wfile.flush()
    if answer.cut:
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
