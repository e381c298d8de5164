"""Serve the demonstration's agents on this machine, by both generations of the AUI API.

Nothing here is a real service: any key is accepted, and answers come from the domains of `demo.domain`.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from agent_eval.demo.defects import DEFECTS, Context, forbidden_to
from agent_eval.demo.domain import Answer, Session, domains_by_agent
from agent_eval.errors import UsageError

_INTEGRATION_ADDRESS = "https://integrations.invalid"
_LARGEST_BODY = 1 << 20

Result = tuple[int, Any]


@dataclass
class _Talk:
    """A conversation: a task of the first generation, or a thread of the later one."""

    agent_id: str
    session: Session
    turns: list[tuple[str, Answer]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class DemoAgents:
    """The agents of all bundled suites, with their conversations. Safe to use from many threads.

    `defects` are names from `DEFECTS`.
    """

    def __init__(self, defects: Sequence[str] = ()) -> None:
        for name in defects:
            if name not in DEFECTS:
                known = ", ".join(DEFECTS)
                raise UsageError(f"there is no defect {name!r}", remedy=f"Name one of: {known}.")
        self._defects = [DEFECTS[name] for name in defects]
        self._talks: dict[str, _Talk] = {}
        self._numbers = itertools.count(1)

    def begin(self, agent_id: str) -> str:
        """Begin a conversation; return its id."""
        talk_id = f"conversation-{next(self._numbers)}"
        self._talks[talk_id] = _Talk(agent_id, Session(domains_by_agent()[agent_id]))
        return talk_id

    def talk(self, talk_id: str) -> _Talk | None:
        """Return a conversation; None if there is none with this id."""
        return self._talks.get(talk_id)

    def say(self, talk_id: str, text: str, variables: Mapping[str, Any]) -> Answer:
        """Answer a message of the user, with all defects."""
        talk = self._talks[talk_id]
        with talk.lock:
            answer = talk.session.answer(text, variables)
            is_lost = answer.text == talk.session.domain.unknown
            context = Context(is_lost, forbidden_to(talk.agent_id))
            for defect in self._defects:
                answer = defect.apply(answer, context)
            talk.turns.append((text, answer))
        return answer


@dataclass(frozen=True)
class ApiRequest:
    """One request to the API.

    Attributes:
        path: The path without its query.
        headers: Field names in lower case.
        body: The JSON object of the body; empty without one.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]


def respond(agents: DemoAgents, request: ApiRequest) -> Result:
    """Answer a request: status, and JSON value of the body."""
    for method, pattern, answer in _ROUTES:
        match = re.fullmatch(pattern, request.path)
        if match is None or method != request.method:
            continue
        refusal = _refusal(request)
        if refusal is not None:
            return refusal
        return answer(agents, request, *map(unquote, match.groups()))
    return 404, {"message": f"There is nothing at {request.method} {request.path}."}


def _refusal(request: ApiRequest) -> Result | None:
    """Refuse a request without key or token. Which one it is does not matter here."""
    if request.path.startswith("/api/v1/") and not request.headers.get("x-network-api-key"):
        return 401, {"message": "The header x-network-api-key is missing."}
    if request.path.startswith("/messaging/") and not _agent_of_token(request):
        return _v3_error(401, "unauthorized", "The bearer token is missing, or of no agent.")
    return None


def _create_task(agents: DemoAgents, request: ApiRequest) -> Result:
    body = request.body
    agent = body.get("agent")
    agent_id = agent.get("agent_id") if isinstance(agent, Mapping) else None
    if not isinstance(body.get("user_id"), str):
        return _v1_error("user_id", "Field required")
    if agent_id not in domains_by_agent():
        return 404, {"message": f"There is no agent {agent_id!r}; there are {', '.join(domains_by_agent())}."}
    task_id = agents.begin(agent_id)
    welcome = domains_by_agent()[agent_id].welcome
    return 200, {"id": task_id, "user_id": body["user_id"], "title": agent_id, "welcome_message": welcome}


def _send_message(agents: DemoAgents, request: ApiRequest) -> Result:
    body, query = request.body, request.query
    talk_id, text = body.get("task_id"), body.get("text")
    if not isinstance(text, str) or not text:
        return _v1_error("text", "Field required")
    talk = agents.talk(str(talk_id))
    if talk is None:
        return 404, {"message": f"There is no task {talk_id!r}."}
    answer = agents.say(str(talk_id), text, _variables(body))
    every = _is_on(query, "include_trace_info")
    business, context = (every or _is_on(query, f"include_{part}_trace") for part in ("business", "context"))
    trace = _v1_trace(text, answer, business=business, context=context) if business or context else None
    return 200, _v1_message(len(talk.turns), answer, trace)


def _read_trace(agents: DemoAgents, request: ApiRequest, task_id: str, message_id: str) -> Result:
    talk = agents.talk(task_id)
    number = message_id.removeprefix("message-")
    if talk is None or not number.isdigit() or not 1 <= int(number) <= len(talk.turns):
        return 404, {"message": "There is no such message."}
    business, context = (_is_on(request.query, f"include_{part}_logic") for part in ("business", "context"))
    return 200, _v1_trace(*talk.turns[int(number) - 1], business=business, context=context)


def _list_messages(agents: DemoAgents, _request: ApiRequest, task_id: str) -> Result:
    talk = agents.talk(task_id)
    if talk is None:
        return 404, {"message": f"There is no task {task_id!r}."}
    return 200, [_v1_message(number, answer, None) for number, (_, answer) in enumerate(talk.turns, start=1)]


def _grant_token(_agents: DemoAgents, request: ApiRequest) -> Result:
    """Exchange a key for a token. The key names the agent: it is its id, with anything before it."""
    key = request.body.get("publishable_key")
    agent_id = next((each for each in domains_by_agent() if str(key).endswith(each)), None)
    if request.body.get("grant_type") != "publishable_key" or agent_id is None:
        known = ", ".join(f"pk_network_{each}" for each in domains_by_agent())
        return _v3_error(401, "invalid_key", f"The key is of no agent; the keys are {known}.")
    return 200, {"access_token": f"token-of-{agent_id}", "expires_in": 3600, "agent_id": agent_id}


def _agent_of_token(request: ApiRequest) -> str | None:
    agent_id = request.headers.get("authorization", "").removeprefix("Bearer token-of-")
    return agent_id if agent_id in domains_by_agent() else None


def _send_to_thread(agents: DemoAgents, request: ApiRequest) -> Result:
    body = request.body
    for name in ("text", "user_id"):
        if not isinstance(body.get(name), str) or not body[name]:
            return _v3_error(422, "invalid_request", "The request is invalid.", name)
    agent_id = _agent_of_token(request)
    assert agent_id is not None
    thread_id = body.get("thread_id") or agents.begin(agent_id)
    if not isinstance(thread_id, str) or agents.talk(thread_id) is None:
        return _v3_error(404, "not_found", "There is no such thread.")
    answer = agents.say(thread_id, body["text"], _variables(body))
    message = {"id": f"message-{thread_id}", "text": answer.text, "input_tokens": 120, "output_tokens": 20}
    return 200, {"thread_id": thread_id, "message": message}


def _read_thread(agents: DemoAgents, _request: ApiRequest, thread_id: str) -> Result:
    talk = agents.talk(thread_id)
    if talk is None:
        return _v3_error(404, "not_found", "There is no such thread.")
    return 200, [_v3_trace(text, answer) for text, answer in talk.turns]


_V1 = "/api/v1/external"
_PART = "([^/]+)"
_ROUTES: Sequence[tuple[str, str, Callable[..., Result]]] = (
    ("POST", f"{_V1}/tasks", _create_task),
    ("POST", f"{_V1}/message", _send_message),
    ("GET", f"{_V1}/tasks/{_PART}/messages", _list_messages),
    ("GET", f"{_V1}/tasks/{_PART}/messages/{_PART}/trace-info", _read_trace),
    ("POST", "/management/v1/auth/token", _grant_token),
    ("POST", "/messaging/v1/messages", _send_to_thread),
    ("GET", f"/messaging/v1/threads/{_PART}/trace", _read_thread),
)


def _variables(body: Mapping[str, Any]) -> Mapping[str, Any]:
    variables = body.get("agent_variables")
    return variables if isinstance(variables, Mapping) else {}


def _is_on(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() == "true"


def _v1_error(name: str, words: str) -> Result:
    return 422, {"errors": [{"loc": ["body", name], "msg": words, "type": "missing"}]}


def _v3_error(status: int, code: str, words: str, name: str | None = None) -> Result:
    details = [] if name is None else [{"field": name, "message": "is required"}]
    return status, {"error": {"code": code, "message": words, "details": details}}


def _v1_message(number: int, answer: Answer, trace: Mapping[str, Any] | None) -> dict[str, Any]:
    """Write a message of the first generation.

    `number` is that of the message in its task; `trace` is None where the request did not ask for it.
    """
    return {
        "id": f"message-{number}",
        "created_at": "2026-01-01T00:00:00Z",
        "text": answer.text,
        "sender": {"id": "agent", "type": "agent"},
        "receiver": {"id": "user", "type": "user"},
        "cards": [],
        "followup_suggestions": [],
        "executed_workflows": list(answer.workflows),
        **({} if trace is None else {"trace_info": trace}),
    }


def _v1_trace(text: str, answer: Answer, *, business: bool = True, context: bool = True) -> dict[str, Any]:
    """Write a trace of the first generation.

    `business` is what the agent understood and decided, `context` the context and the calls of integrations.
    """
    decisions = [*(_business_decisions(answer) if business else ()), *(_calls(answer) if context else ())]
    return {
        "input": {"message": text},
        **({"context": {"active_tools": [], "entities": []}} if context else {}),
        **({"understanding": _understanding(answer)} if business else {}),
        **({"decisions": decisions} if business or context else {}),
        "response": _response(answer),
        **({"rules_evaluations": _evaluations(answer)} if business else {}),
        "latency": {"elapsed": 12, "unit": "millisecond"},
    }


def _v3_trace(text: str, answer: Answer) -> dict[str, Any]:
    """Write a trace of the later generation: no parameters, no integrations, no workflows."""
    return {
        "input": {"message": text},
        "understanding": {"intents": [], "guardrails": {"passed": True}},
        "decisions": _business_decisions(answer),
        "computed_parameters": [],
        "response": _response(answer),
        "rules_evaluations": _evaluations(answer),
    }


def _understanding(answer: Answer) -> dict[str, Any]:
    return {"guardrails": {"passed": True}, "intents": [], "extracted_params": dict(answer.params)}


def _business_decisions(answer: Answer) -> list[dict[str, Any]]:
    trigger = {"type": "intent_classification"}
    tools = [{"type": "activate_tool", "tool": name, "trigger": trigger} for name in answer.workflows]
    rules = [
        {"type": "rule_triggered", "rule": {"type": "constraint", "action": "TEXT", "code": code}}
        for code in answer.rules
    ]
    return [*tools, *rules]


def _calls(answer: Answer) -> list[dict[str, Any]]:
    called = [_integration(code, answer) for code in answer.integrations]
    return [{"type": "call_integration", "integration": integration} for integration in called]


def _integration(code: str, answer: Answer) -> dict[str, Any]:
    request = {"name": code, "url": f"{_INTEGRATION_ADDRESS}/{code}", "method": "GET", "category": "read"}
    failed = answer.status >= 400  # the lowest status of HTTP that is an error
    ending = {"error_message": "the service failed"} if failed else {"response": {"found": True}}
    return {"code": code, "type": "REST", "requests": [request], "status_code": answer.status, **ending}


def _response(answer: Answer) -> dict[str, Any]:
    if answer.is_error:
        return {"type": "error", "message": answer.text, "error": answer.text}
    return {"type": "answer", "message": answer.text}


def _evaluations(answer: Answer) -> list[dict[str, Any]]:
    return [{"code": code, "triggered": True} for code in answer.rules]


class DemoServer:
    """The agents behind an address of this machine. A context manager.

    Port 0 is a free one; one that is taken is refused.
    """

    def __init__(self, agents: DemoAgents, port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body leave in one packet: two would wait 40 ms for each other.
            wbufsize = 1 << 16

            def do_GET(self) -> None:
                _handle(self, agents)

            def do_POST(self) -> None:
                _handle(self, agents)

            def log_message(self, *arguments: object) -> None:
                """Write no line for each request."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
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


def _handle(handler: BaseHTTPRequestHandler, agents: DemoAgents) -> None:
    status, value = _answer(handler, agents)
    body = json.dumps(value, ensure_ascii=False).encode()
    with suppress(BrokenPipeError, ConnectionResetError):
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def _answer(handler: BaseHTTPRequestHandler, agents: DemoAgents) -> Result:
    length = handler.headers.get("Content-Length") or "0"
    if not length.isdigit() or int(length) > _LARGEST_BODY:
        handler.close_connection = True
        return 413, {"message": "The body is too large."}
    data = handler.rfile.read(int(length))
    try:
        body = json.loads(data) if data else {}
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return 422, {"errors": [{"loc": ["body"], "msg": "It is no JSON object.", "type": "type_error"}]}
    parts = urlsplit(handler.path)
    headers = {name.lower(): value for name, value in handler.headers.items()}
    request = ApiRequest(handler.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
    return respond(agents, request)
