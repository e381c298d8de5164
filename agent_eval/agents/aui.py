"""The `aui` and `aui-v3` agents: an agent of AUI, behind one of the two generations of its API.

v1: a task is created, and each message is posted to it; the answer has its trace. v3: a token is fetched,
each message is posted to a thread, and the trace is read from the thread. Addresses come from the operator
and never from a suite, because the key is sent there.

An answer becomes events: what the agent did, by its trace, of which every field is optional, and what it
said. The last event is the message. Its attribute `aui` holds `executed_workflows` and `trace_info` as they
came; the `strict` judge reads them there. The events before it say the same in the form that every judge
reads.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self
from urllib.parse import quote

from typing_extensions import override

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Opening, Surroundings, Task
from agent_eval.agents.http import HttpRequest, Service, once, status_in_words, unavailable
from agent_eval.agents.recorder import LimitReached, Recorder, as_text, milliseconds
from agent_eval.contracts import Case
from agent_eval.contracts.conversation import AUI, FORWARDING, executed_workflows
from agent_eval.contracts.event import ERROR, GUARDRAIL, HANDOFF, MESSAGE, STATE, TOOL_RESULT
from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable, UsageError
from agent_eval.http.client import Answer
from agent_eval.http.errors import one_line, said_in
from agent_eval.http.retry import is_rate_limit
from agent_eval.models.retries import Reply, account_name, timed_out
from agent_eval.models.usage import AnswerFacts, figure_of, usage_of
from agent_eval.storage.json import Limits, parse

KEY_VARIABLE = "AUI_API_KEY"
"""Environment variable that has the network's key."""
USER_VARIABLE = "AUI_USER_ID"
"""Environment variable that pins the id of the user, which is random otherwise."""

_REFUSALS = {
    401: f"Set {KEY_VARIABLE} to the key of the network, and check that it is still valid.",
    403: "Check what the key may do, and that the agent belongs to its network.",
    404: "Check the address of the API and the agent's id.",
    422: "Check the agent's id.",
}
"""Statuses that no further request can change, with their remedies."""
_ONLY_AT_FIRST = frozenset({404, 422})
"""Of these, the statuses that speak of every conversation only in answer to its first request."""
_BUSY = frozenset({408, 429})
_RATE_LIMITED = frozenset({429, 529})
_SERVER_ERROR = 500
_FIRST_ERROR = 400
"""Lowest status of HTTP that is an error."""

_V1 = "/api/v1/external"
_OF_THE_AGENT = ("version_id", "version_tag", "bundle_mode")
_MESSAGE_FLAGS = {
    "is_external_api": "true",
    # The first until 1.2.36 of the SDK, the others since.
    "include_trace_info": "true",
    "include_business_trace": "true",
    "include_context_trace": "true",
}
_TRACE_FLAGS = {"include_business_logic": "true", "include_context_logic": "true"}

_V3 = "/messaging/v1"
_TOKEN_SECONDS = 300.0
"""How long a token is used whose end is not stated."""

_ON_THE_SERVER = "server"
_UNITS_IN_MS = {"microsecond": 0.001, "millisecond": 1.0, "second": 1000.0, "minute": 60_000.0}
_OF_A_RULE = ("code", "type", "action", "reason")
_KEPT = ("cards", "followup_suggestions", "url")
"""Fields of a message that are recorded beside its trace, where they are not empty."""


class RequestFailed(Exception):
    """A request has no usable answer, which ends the turn."""

    def __init__(self, reply: Reply[Any]) -> None:
        super().__init__(reply.problem)
        self.reply = reply


class Requests:
    """The requests of one turn: within its time, repeated where that may help, and counted."""

    def __init__(self, recorder: Recorder, task: Task, surroundings: Surroundings) -> None:
        self._recorder, self._limits, self._surroundings = recorder, task.limits, surroundings
        self.message_seconds = 0.0

    def send(
        self,
        service: Service,
        request: HttpRequest,
        *,
        is_first: bool = False,
        is_message: bool = False,
        renew: Callable[[Service], Service] | None = None,
    ) -> Mapping[str, Any]:
        """Send a request and return the object in its answer.

        Args:
            is_first: Whether it is the first of a conversation, so that a refusal is one of all.
            is_message: Whether it changes the conversation, so that it must not arrive twice.
            renew: Returns the service with another token, to be asked once more after 401.

        Raises:
            RequestFailed: There is no usable answer.
            NotEvaluable: The service would refuse every conversation.
        """
        reply = self._repeated(service, request, is_message=is_message)
        if renew is not None and reply.value is not None and reply.value.status == 401:
            reply = self._repeated(renew(service), request, is_message=is_message)
        answer = reply.value
        if answer is None:
            raise RequestFailed(reply)
        status = answer.status
        if status in _REFUSALS and (is_first or status not in _ONLY_AT_FIRST):
            raise NotEvaluable(f"the agent {_in_words(answer)}", remedy=_REFUSALS[status], status=status)
        if status >= _FIRST_ERROR:
            raise _failed(FailureKind.AGENT_ERROR, _in_words(answer), answer.body)
        if "html" in answer.headers.get("content-type", "") or answer.body.lstrip()[:1] == b"<":
            problem = "answered with a web page instead of JSON, as a proxy or another address would"
            raise _failed(FailureKind.INFRASTRUCTURE, problem, answer.body)
        try:
            value = _parsed(answer.body)
        except InvalidInput as error:
            raise _failed(FailureKind.PARSE_ERROR, f"gave no JSON: {error.message}", answer.body) from None
        if not isinstance(value, dict):
            raise _failed(FailureKind.TYPE_ERROR, "answered with something else than an object", answer.body)
        return value

    def read(self, service: Service, request: HttpRequest) -> Any:
        """Read what is good to have, such as a trace; None where that fails."""
        reply = self._repeated(service, request)
        if reply.value is None or reply.value.status >= _FIRST_ERROR:
            return None
        try:
            return _parsed(reply.value.body)
        except InvalidInput:
            return None

    def _repeated(self, service: Service, request: HttpRequest, *, is_message: bool = False) -> Reply[Answer]:
        recorder, limits, clocks = self._recorder, self._limits, self._surroundings.clocks

        def send() -> Reply[Answer]:
            remaining = None if limits.seconds is None else max(limits.seconds - recorder.seconds, 0.001)
            began = clocks.monotonic()
            reply = service.send(request, seconds=remaining, max_bytes=limits.output_bytes)
            seconds = clocks.monotonic() - began
            recorder.seconds += seconds
            if is_message:
                self.message_seconds = seconds
            answer = reply.value
            if answer is not None and (answer.status in _BUSY or answer.status >= _SERVER_ERROR):
                reply = unavailable(answer, limited=answer.status in _RATE_LIMITED)
            elif answer is not None and is_rate_limit(answer.status, answer.headers, answer.body):
                reply = unavailable(answer, limited=True)
            return once(reply) if is_message else reply

        reply, retries = self._surroundings.retry(send)
        recorder.retries += retries
        if reply.failure is FailureKind.TIMEOUT:
            return Reply(failure=reply.failure, problem=timed_out(limits.seconds))
        return reply


def _failed(failure: FailureKind, problem: str, received: bytes = b"") -> RequestFailed:
    return RequestFailed(Reply(failure=failure, problem=problem, received=received))


def _parsed(body: bytes) -> Any:
    return parse(body, source="the agent's answer", limits=Limits(wide_integers=True))


def _in_words(answer: Answer) -> str:
    """Say what the API answered, with the words of its own form of errors."""
    try:
        words = one_line(said_in(_parsed(answer.body)), 300)
    except InvalidInput:
        words = ""
    return f"answered with HTTP {answer.status}: {words}" if words else status_in_words(answer)


class AuiAgent(Agent):
    """An agent behind the AUI API of the first generation.

    The message of each turn is sent with the `user_info` of the case's `conversation` as `agent_variables`.

    Args:
        agent_id: The agent; None for the network's own.
        base_url: Address of the API; None for AUI's own.
        api_key: Key of each request, never recorded.
        parameters: Those in `known_parameters`: `user_id` pins the user, who is random otherwise.
    """

    kind: ClassVar[str] = "aui"
    api: ClassVar[str] = "v1"
    default_url: ClassVar[str] = "https://api.aui.io/ia-controller"
    known_parameters: ClassVar[frozenset[str]] = frozenset(
        {"user_id", "task_origin_type", "version_id", "version_tag", "bundle_mode"}
    )
    account: str

    def __init__(
        self,
        agent_id: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self._agent_id, self._url, self._key = agent_id, base_url or self.default_url, api_key or ""
        self._parameters = dict(parameters or {})
        if unknown := sorted(self._parameters.keys() - self.known_parameters):
            raise UsageError(
                f"the agent {self.kind} has no parameter {unknown[0]!r}",
                remedy=f"Use one of: {', '.join(sorted(self.known_parameters))}.",
            )
        self._service = self._connect()
        self.account = account_name(self._url, self._key)

    def _connect(self) -> Service:
        return Service(self._url, secret_headers={"x-network-api-key": self._key} if self._key else None)

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> Self:
        if options.system is not None:
            raise UsageError(
                "the AUI API has no field for a system prompt",
                remedy="Change the prompt where the agent is configured, or evaluate another kind of agent.",
                field="system-prompt",
            )
        pinned = options.environ.get(USER_VARIABLE)
        return cls(
            rest or None,
            base_url=options.base_url,
            api_key=options.environ.get(KEY_VARIABLE),
            parameters={**({"user_id": pinned} if pinned else {}), **options.parameters},
        )

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any], options: AgentOptions) -> Opening:
        return f"{cls.kind}:{described['agent_id'] or ''}", replace(
            options,
            base_url=options.base_url or described["base_url"],
            parameters={**dict(described["parameters"]), **options.parameters},
        )

    @override
    def describe(self) -> dict[str, Any]:
        return {
            "agent": self.kind,
            "base_url": self._url.partition("?")[0],
            "agent_id": self._agent_id,
            "parameters": self._parameters,
        }

    @override
    def refuse(self, case: Case) -> str | None:
        conversation = case.conversation
        if conversation is not None and conversation.system_prompt is not None:
            return "a system prompt, for which the AUI API has no field"
        if conversation is not None and case.metadata.get("model") is not None:
            return "a model, for which the AUI API has no field"
        return None

    @override
    def close(self) -> None:
        self._service.close()

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        recorder = Recorder(task, surroundings)
        requests = Requests(recorder, task, surroundings)
        before = task.session.conversation if task.session is not None else ()
        place: dict[str, str] = dict(before[-1]) if before else {}
        is_input_recorded = False
        try:
            welcome = None if place else self._begin(requests, place)
            if welcome is not None:
                recorder.record_message(welcome)
            recorder.record_input()
            is_input_recorded = True
            message, info = self._send(requests, place, task)
            text = record_aui_answer(recorder, message, info, requests.message_seconds, api=self.api)
            if text is None:
                problem = "answered with neither text nor cards"
                result = recorder.result(None, FailureKind.MISSING_OUTPUT, problem)
            else:
                result = recorder.result(text)
        except RequestFailed as failed:
            if not is_input_recorded:
                recorder.record_input()
            if failed.reply.received:
                recorder.artifacts["answer.txt"] = failed.reply.received
            result = recorder.result(None, failed.reply.failure, failed.reply.problem)
            result = replace(result, is_uncertain=failed.reply.is_final)
        except LimitReached as reached:
            result = recorder.result(None, reached.failure, reached.problem)
        return replace(result, conversation=(place,))

    def _user(self) -> str:
        return str(self._parameters.get("user_id") or uuid.uuid4())

    def _begin(self, requests: Requests, place: dict[str, str]) -> str | None:
        """Create a task, put what the turns share into `place`, and return what the agent says first."""
        agent = {name: self._parameters[name] for name in _OF_THE_AGENT if name in self._parameters}
        if self._agent_id is not None:
            agent["agent_id"] = self._agent_id
        user = self._user()
        origin = self._parameters.get("task_origin_type", "third-party")
        body = {"user_id": user, "task_origin_type": origin, **({"agent": agent} if agent else {})}
        created = requests.send(self._service, HttpRequest("POST", f"{_V1}/tasks", body), is_first=True)
        task_id = _text(created, "id") or _text(created, "task_id")
        if task_id is None:
            raise _failed(FailureKind.TYPE_ERROR, "answered without the id of the new task")
        place.update(task_id=task_id, user_id=user)
        return _text(created, "welcome_message")

    def _send(self, requests: Requests, place: dict[str, str], task: Task) -> tuple[Mapping[str, Any], Any]:
        """Send the turn's message; return the agent's, and its trace, None where the API gives none."""
        body = {"task_id": place["task_id"], "text": as_text(task.case.input), **_variables_of(task.case)}
        request = HttpRequest("POST", f"{_V1}/message", body, _MESSAGE_FLAGS)
        message = requests.send(self._service, request, is_message=True)
        info = message.get("trace_info")
        if info is None and (message_id := _text(message, "id")) is not None:
            path = f"{_V1}/tasks/{quote(place['task_id'], safe='')}/messages/{quote(message_id, safe='')}"
            info = requests.read(self._service, HttpRequest("GET", f"{path}/trace-info", None, _TRACE_FLAGS))
        return message, info


class AuiV3Agent(AuiAgent):
    """An agent behind the AUI API of the later generation, which records no workflows and no parameters."""

    kind = "aui-v3"
    api = "v3"
    default_url = "https://api-v3.aui.io/apollo-api"
    known_parameters = frozenset({"user_id"})

    @override
    def _connect(self) -> Service:
        self._token_lock = threading.Lock()
        self._token_until = 0.0
        self._messaging: Service | None = None
        return Service(self._url)

    @override
    def close(self) -> None:
        super().close()
        if self._messaging is not None:
            self._messaging.close()

    @override
    def _begin(self, requests: Requests, place: dict[str, str]) -> str | None:
        place["user_id"] = self._user()
        return None

    @override
    def _send(self, requests: Requests, place: dict[str, str], task: Task) -> tuple[Mapping[str, Any], Any]:
        text = as_text(task.case.input)
        known = {name: place[name] for name in ("user_id", "thread_id") if name in place}
        request = HttpRequest("POST", f"{_V3}/messages", {"text": text, **known, **_variables_of(task.case)})
        answer = requests.send(
            self._with_token(requests),
            request,
            is_message=True,
            renew=lambda old: self._with_token(requests, refused=old),
        )
        thread_id = _text(answer, "thread_id") or place.get("thread_id")
        if thread_id is None:
            raise _failed(FailureKind.TYPE_ERROR, "answered without the thread's id")
        place["thread_id"] = thread_id
        path = f"{_V3}/threads/{quote(thread_id, safe='')}/trace"
        traces = requests.read(self._with_token(requests), HttpRequest("GET", path))
        # The trace of this turn's message; of a thread with as many traces as turns the last one.
        turn = task.session.turn if task.session is not None else 1
        listed = [trace for trace in _items(traces) if isinstance(trace, Mapping)]
        own = [trace for trace in listed if _object(trace.get("input")).get("message") == text]
        own = own or (listed if len(listed) == turn else [])
        return _object(answer.get("message")), own[-1] if own else None

    def _with_token(self, requests: Requests, *, refused: Service | None = None) -> Service:
        """Return the service with a token in its headers.

        A token is fetched where there is none, where it expires, or where it is still the refused one.
        """
        with self._token_lock:
            known = self._messaging
            if known is not None and known is not refused and time.monotonic() < self._token_until:
                return known
            body = {"grant_type": "publishable_key", "publishable_key": self._key}
            request = HttpRequest("POST", "/management/v1/auth/token", body)
            granted = requests.send(self._service, request, is_first=True)
            token, lasts = _text(granted, "access_token"), figure_of(granted.get("expires_in"))
            if token is None:
                raise _failed(FailureKind.TYPE_ERROR, "answered without an access_token")
            self._token_until = time.monotonic() + (_TOKEN_SECONDS if lasts is None else lasts) * 0.9
            self._messaging = Service(self._url, secret_headers={"Authorization": f"Bearer {token}"})
            return self._messaging


def _variables_of(case: Case) -> dict[str, Any]:
    """Return what every message tells the agent of the user."""
    return {} if case.conversation is None else {"agent_variables": case.conversation.user_info}


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) and value else None


def record_aui_answer(
    recorder: Recorder, message: Mapping[str, Any], trace_info: Any, seconds: float, *, api: str = "v1"
) -> Any:
    """Record what an answer says of the agent's work, then the message; return what the agent says.

    That is the message's text, or that of the trace, its error, or its cards; None for nothing. Of the
    decisions, rules that were triggered and integrations that were called are events. A workflow that ran is
    a call, or the hand-over to a human that some of them are.

    Args:
        trace_info: None where the API gave none.
        api: Its generation: `v1` or `v3`.
    """
    info = _object(trace_info)
    response, understanding = _object(info.get("response")), _object(info.get("understanding"))
    error = None
    if response.get("type") == "error":
        error = response.get("error") or response.get("message") or "the agent answered with an error"
    texts = (message.get("text"), response.get("message"))
    output: Any = next((text for text in texts if isinstance(text, str) and text.strip()), error)
    if output is None and _items(message.get("cards")):
        output = {"cards": message["cards"]}

    attribute: dict[str, Any] = {"api": api}
    for source in (info, message):
        if "executed_workflows" in source:
            attribute["executed_workflows"] = source["executed_workflows"]
    if trace_info is not None:
        attribute["trace_info"] = trace_info
    attribute |= {name: message[name] for name in _KEPT if message.get(name)}

    if isinstance(params := understanding.get("extracted_params"), Mapping):
        recorder.add("agent", STATE, output={"params": dict(params)})
    checks = _object(understanding.get("guardrails"))
    if checks.get("passed") is False:
        recorder.add("agent", GUARDRAIL, output={"triggered": True, "reason": checks.get("reason")})
    for decision in map(_object, _items(info.get("decisions"))):
        if rule := _object(decision.get("rule")):
            fields = {name: rule[name] for name in _OF_A_RULE if rule.get(name) is not None}
            recorder.add("agent", GUARDRAIL, output={**fields, "triggered": True})
        if decision.get("type") == "call_integration":
            _record_integration(recorder, _object(decision.get("integration")))
    for name in executed_workflows(attribute):
        if name.startswith(FORWARDING):
            recorder.add("agent", HANDOFF, output=f"a human ({name})")
        elif name:
            _record_call(recorder, name, {})
    if error is not None:
        recorder.add("agent", ERROR, error=error)
    facts = AnswerFacts(usage=usage_of(message)).event_fields()
    latency = milliseconds(seconds)
    recorder.add("agent", MESSAGE, output=output, latency_ms=latency, attributes={AUI: attribute}, **facts)
    return output


def _record_integration(recorder: Recorder, integration: Mapping[str, Any]) -> None:
    """Record the call of an integration, or those of the tools behind one."""
    code = integration.get("code")
    name = code if isinstance(code, str) and code else "integration"
    calls = [_object(call) for call in _items(integration.get("tool_calls"))]
    if integration.get("type") != "MCP" or not calls:
        status = integration.get("status_code")
        failed_with = f"HTTP {status}" if (figure_of(status) or 0) >= _FIRST_ERROR else None
        _record_call(
            recorder,
            name,
            integration.get("requests", integration.get("request", {})),
            output=integration.get("response"),
            error=integration.get("error_message") or failed_with,
            latency_ms=_latency_ms(integration.get("latency")),
        )
        return
    for call in calls:
        tool, response, failed = call.get("tool_name"), call.get("response"), call.get("is_error") is True
        _record_call(
            recorder,
            tool if isinstance(tool, str) and tool else name,
            call.get("request_parameters", {}),
            output=None if failed else response,
            error=(response or "the tool failed") if failed else None,
            ran_on=f"mcp:{name}",
            latency_ms=_latency_ms(call.get("latency")),
        )


def _record_call(recorder: Recorder, tool: str, arguments: Any, **result: Any) -> None:
    """Record a call that the agent made, with the fields of its result; it ran on the server if none says."""
    call_id = recorder.record_call(tool, arguments)
    is_told = result.get("output") is not None or result.get("error") is not None
    fields = {"ran_on": _ON_THE_SERVER, "content_recorded": None if is_told else False, **result}
    recorder.add("tool", TOOL_RESULT, tool=tool, call_id=call_id, **fields)


def _latency_ms(latency: Any) -> float | None:
    """Convert a latency of the API to milliseconds; None for one that cannot be read.

    Example:
        >>> _latency_ms({"elapsed": 1.5, "unit": "second"}), _latency_ms({"elapsed": "fast"})
        (1500.0, None)
    """
    elapsed = figure_of(_object(latency).get("elapsed"))
    unit = _object(latency).get("unit", "millisecond")
    scale = _UNITS_IN_MS.get(unit) if isinstance(unit, str) else None
    return None if elapsed is None or scale is None else round(elapsed * scale, 3)


def _object(value: Any) -> Mapping[str, Any]:
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    """Return a value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []
