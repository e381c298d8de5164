"""Serve the demonstration's agents on this machine, by the AUI API of tasks (`aui:AGENT_ID`).

Nothing here is a real service: any key is accepted, and answers come from the domains of `demo.agents`.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from agent_eval.demo.agents import DEFECTS, Answer, Session, domains_by_agent, forbidden_to
from agent_eval.errors import UsageError

_LARGEST_BODY = 1 << 20

Result = tuple[int, Any]
"""HTTP status, and JSON value of the body."""


class DemoAgents:
    """The agents of all bundled suites, with their conversations by id. Safe to use from many threads.

    `defects` are names from `DEFECTS`.
    """

    def __init__(self, defects: Sequence[str] = ()) -> None:
        for name in defects:
            if name not in DEFECTS:
                known = ", ".join(DEFECTS)
                raise UsageError(f"there is no defect {name!r}", remedy=f"Name one of: {known}.")
        self._defects = [DEFECTS[name] for name in defects]
        self.talks: dict[str, Session] = {}
        self._numbers = itertools.count(1)

    def begin(self, agent_id: str) -> str:
        """Begin a conversation; return its id."""
        talk_id = f"conversation-{next(self._numbers)}"
        self.talks[talk_id] = Session(domains_by_agent()[agent_id])
        return talk_id

    def say(self, talk_id: str, text: str, variables: Any) -> Answer:
        """Answer a message of the user, with all defects; `variables` that are no object count as none."""
        talk = self.talks[talk_id]
        with talk.lock:
            answer = talk.answer(text, variables if isinstance(variables, Mapping) else {})
            is_lost = answer.text == talk.domain.unknown
            context = replace(forbidden_to(talk.domain.agent_id), is_lost=is_lost)
            for defect in self._defects:
                answer = defect.apply(answer, context)
            talk.turns.append((text, answer))
        return answer


def respond(agents: DemoAgents, method: str, target: str, body: Mapping[str, Any], key: str | None) -> Result:
    """Answer a request: status, and JSON value of the body.

    `target` is its path with the query, `key` that of the network. Without a body, `body` is empty.
    """
    parts = urlsplit(target)
    flags = {name for name, value in parse_qsl(parts.query) if value.lower() == "true"}
    for wanted, pattern, answer in _ROUTES:
        match = re.fullmatch(pattern, parts.path)
        if match is None or method != wanted:
            continue
        if not key:  # which one it is does not matter here
            return 401, {"message": "The header x-network-api-key is missing."}
        return answer(agents, body, flags, *map(unquote, match.groups()))
    return 404, {"message": f"There is nothing at {method} {parts.path}."}


def _create_task(agents: DemoAgents, body: Mapping[str, Any], _: Set[str]) -> Result:
    agent, user_id = body.get("agent"), body.get("user_id")
    agent_id = agent.get("agent_id") if isinstance(agent, Mapping) else None
    if not isinstance(user_id, str):
        return _missing("user_id")
    if agent_id not in domains_by_agent():
        return 404, {"message": f"There is no agent {agent_id!r}; there are {', '.join(domains_by_agent())}."}
    welcome = domains_by_agent()[agent_id].welcome
    return 200, {"id": agents.begin(agent_id), "user_id": user_id, "welcome_message": welcome}


def _send_message(agents: DemoAgents, body: Mapping[str, Any], flags: Set[str]) -> Result:
    task_id, text = body.get("task_id"), body.get("text")
    if not isinstance(text, str) or not text:
        return _missing("text")
    talk = agents.talks.get(str(task_id))
    if talk is None:
        return 404, {"message": f"There is no task {task_id!r}."}
    answer = agents.say(str(task_id), text, body.get("agent_variables"))
    business, context = (
        not flags.isdisjoint({"include_trace_info", f"include_{part}_trace"})
        for part in ("business", "context")
    )
    trace = _trace(text, answer, business=business, context=context) if business or context else None
    return 200, {
        "id": f"message-{len(talk.turns)}",
        "text": answer.text,
        "cards": [],
        "executed_workflows": list(answer.workflows),
        **({"trace_info": trace} if trace else {}),
    }


def _read_trace(
    agents: DemoAgents, _: Mapping[str, Any], flags: Set[str], task_id: str, message_id: str
) -> Result:
    talk, number = agents.talks.get(task_id), message_id.removeprefix("message-")
    if talk is None or not number.isdigit() or not 1 <= int(number) <= len(talk.turns):
        return 404, {"message": "There is no such message."}
    business, context = (f"include_{part}_logic" in flags for part in ("business", "context"))
    return 200, _trace(*talk.turns[int(number) - 1], business=business, context=context)


_V1 = "/api/v1/external"
_PART = "([^/]+)"
_ROUTES: Sequence[tuple[str, str, Callable[..., Result]]] = (
    ("POST", f"{_V1}/tasks", _create_task),
    ("POST", f"{_V1}/message", _send_message),
    ("GET", f"{_V1}/tasks/{_PART}/messages/{_PART}/trace-info", _read_trace),
)


def _missing(name: str) -> Result:
    return 422, {"errors": [{"loc": ["body", name], "msg": "Field required", "type": "missing"}]}


def _trace(text: str, answer: Answer, *, business: bool, context: bool) -> dict[str, Any]:
    """Write the trace of an answer.

    `business` is what the agent understood and decided, `context` the context and the calls of integrations.
    """
    response = {"type": "error" if answer.is_error else "answer", "message": answer.text}
    if answer.is_error:
        response["error"] = answer.text
    trace: dict[str, Any] = {"input": {"message": text}, "response": response, "decisions": []}
    if business:
        trace["understanding"] = {"guardrails": {"passed": True}, "extracted_params": dict(answer.params)}
        trace["rules_evaluations"] = [{"code": code, "triggered": True} for code in answer.rules]
        trace["decisions"] += [{"type": "activate_tool", "tool": name} for name in answer.workflows]
        rules = [{"type": "constraint", "action": "TEXT", "code": code} for code in answer.rules]
        trace["decisions"] += [{"type": "rule_triggered", "rule": rule} for rule in rules]
    if context:
        trace["context"] = {"active_tools": [], "entities": []}
        trace["decisions"] += _calls(answer)
    return trace


def _calls(answer: Answer) -> list[dict[str, Any]]:
    failed = answer.status >= 400  # the lowest status of HTTP that is an error
    ending = {"error_message": "the service failed"} if failed else {"response": {"found": True}}
    calls = []
    for code in answer.integrations:
        url = f"https://integrations.invalid/{code}"
        request = {"name": code, "url": url, "method": "GET", "category": "read"}
        called = {"code": code, "type": "REST", "requests": [request], "status_code": answer.status, **ending}
        calls.append({"type": "call_integration", "integration": called})
    return calls


class DemoServer:
    """The agents behind an address of this machine. A context manager.

    Port 0 is a free one; one that is taken is refused.
    """

    def __init__(self, agents: DemoAgents, port: int = 0) -> None:
        handler = type("Handler", (_Handler,), {"agents": agents})
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError as error:
            raise UsageError(
                f"port {port} of this machine cannot be used: {error.strerror}",
                remedy="Choose another with --port, or 0 for a free one.",
                field="port",
            ) from None
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Answer requests until the process is interrupted."""
        self._server.serve_forever(poll_interval=0.1)

    def __enter__(self) -> DemoServer:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave in one packet: two would wait 40 ms for each other.
    wbufsize = 1 << 16
    agents: DemoAgents

    def do_GET(self) -> None:
        status, value = self._answer()
        body = json.dumps(value, ensure_ascii=False).encode()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *arguments: object) -> None:
        """Write no line for each request."""

    def _answer(self) -> Result:
        length = self.headers.get("Content-Length") or "0"
        if not length.isdigit() or int(length) > _LARGEST_BODY:
            self.close_connection = True
            return 413, {"message": "The body is too large."}
        try:
            body = json.loads(self.rfile.read(int(length)) or b"{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return 422, {"errors": [{"loc": ["body"], "msg": "It is no JSON object.", "type": "type_error"}]}
        return respond(self.agents, self.command, self.path, body, self.headers.get("x-network-api-key"))
