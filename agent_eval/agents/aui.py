"""The `aui` agent: an agent of AUI, behind its API.

A task is created, and each message is posted to it; the answer has its trace. The address comes from the
operator and never from a suite, because the key is sent there.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from typing_extensions import override

from agent_eval.agents.aui_events import AuiAnswer, record_aui_answer
from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Surroundings, Task
from agent_eval.agents.http import HttpRequest, Service, once, status_in_words, unavailable
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.contracts import Case
from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable, UsageError
from agent_eval.http.client import Answer
from agent_eval.http.errors import one_line, said_in
from agent_eval.http.retry import is_rate_limit
from agent_eval.models.retries import Reply, account_name, timed_out
from agent_eval.storage.json import Limits, parse

KEY_VARIABLE = "AUI_API_KEY"
"""Environment variable that has the network's key."""
DEFAULT_URL = "https://api.aui.io/ia-controller"

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

_V1 = "/api/v1/external"
_MESSAGE_FLAGS = {
    "is_external_api": "true",
    # The first until 1.2.36 of the SDK, the others since.
    "include_trace_info": "true",
    "include_business_trace": "true",
    "include_context_trace": "true",
}


class RequestFailed(Exception):
    """A request has no usable answer, which ends the turn."""

    def __init__(self, reply: Reply[Any]) -> None:
        super().__init__(reply.problem)
        self.reply = reply


class Requests:
    """The requests of one turn: within its time, repeated where that may help, and counted."""

    def __init__(self, recorder: Recorder, task: Task, surroundings: Surroundings) -> None:
        self._recorder, self._limits, self._surroundings = recorder, task.limits, surroundings
        self.last_seconds = 0.0

    def send(
        self,
        service: Service,
        request: HttpRequest,
        *,
        is_first: bool = False,
        is_message: bool = False,
    ) -> Mapping[str, Any]:
        """Send a request and return the object in its answer.

        Args:
            is_first: Whether it is the first of a conversation, so that a refusal is one of all.
            is_message: Whether it changes the conversation, so that it must not arrive twice.

        Raises:
            RequestFailed: There is no usable answer.
            NotEvaluable: The service would refuse every conversation.
        """
        reply = self._repeated(service, request, is_message=is_message)
        answer = reply.value
        if answer is None:
            raise RequestFailed(reply)
        status = answer.status
        if status in _REFUSALS and (is_first or status not in _ONLY_AT_FIRST):
            raise NotEvaluable(f"the agent {_in_words(answer)}", remedy=_REFUSALS[status], status=status)
        return _read_object(answer)

    def _repeated(self, service: Service, request: HttpRequest, *, is_message: bool) -> Reply[Answer]:
        recorder, limits, clocks = self._recorder, self._limits, self._surroundings.clocks

        def send() -> Reply[Answer]:
            remaining = None if limits.seconds is None else max(limits.seconds - recorder.seconds, 0.001)
            began = clocks.monotonic()
            reply = service.send(request, seconds=remaining, max_bytes=limits.output_bytes)
            self.last_seconds = clocks.monotonic() - began
            recorder.seconds += self.last_seconds
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


def _read_object(answer: Answer) -> Mapping[str, Any]:
    """Read the JSON object in an answer of the API; any other answer fails the turn."""
    if answer.status >= 400:
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
    """An agent behind the AUI API.

    The message of each turn is sent with the `user_info` of the case's `conversation` as `agent_variables`.

    Args:
        agent_id: The agent; None for the network's own.
        base_url: Address of the API; None for AUI's own.
        api_key: Key of each request, never recorded.
    """

    account: str

    def __init__(
        self,
        agent_id: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self._agent_id, self._url, self._key = agent_id, base_url or DEFAULT_URL, api_key or ""
        secret = {"x-network-api-key": self._key} if self._key else None
        self._service = Service(self._url, secret_headers=secret)
        self.account = account_name(self._url, self._key)

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> Self:
        if options.system is not None:
            raise UsageError(
                "the AUI API has no field for a system prompt",
                remedy="Change the prompt where the agent is configured, or evaluate another kind of agent.",
                field="system-prompt",
            )
        return cls(rest or None, base_url=options.base_url, api_key=options.environ.get(KEY_VARIABLE))

    @classmethod
    @override
    def from_description(
        cls, described: Mapping[str, Any], options: AgentOptions
    ) -> tuple[str, AgentOptions]:
        return f"aui:{described['agent_id'] or ''}", replace(
            options, base_url=options.base_url or described["base_url"]
        )

    @override
    def describe(self) -> dict[str, Any]:
        return {
            "agent": "aui",
            "base_url": self._url.partition("?")[0],
            "agent_id": self._agent_id,
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
            answer, seconds = self._send(requests, place, task)
            record_aui_answer(recorder, answer, seconds)
            if answer.text is None:
                problem = "answered with neither text nor cards"
                result = recorder.result(None, FailureKind.MISSING_OUTPUT, problem)
            else:
                result = recorder.result(answer.text)
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

    def _begin(self, requests: Requests, place: dict[str, str]) -> str | None:
        """Create a task, put what the turns share into `place`, and return what the agent says first."""
        body: dict[str, Any] = {"user_id": str(uuid.uuid4()), "task_origin_type": "third-party"}
        if self._agent_id is not None:
            body["agent"] = {"agent_id": self._agent_id}
        created = requests.send(self._service, HttpRequest("POST", f"{_V1}/tasks", body), is_first=True)
        task_id = _text(created, "id") or _text(created, "task_id")
        if task_id is None:
            raise _failed(FailureKind.TYPE_ERROR, "answered without the id of the new task")
        place["task_id"] = task_id
        return _text(created, "welcome_message")

    def _send(self, requests: Requests, place: dict[str, str], task: Task) -> tuple[AuiAnswer, float]:
        """Send the turn's message; return the answer, and the seconds that it took."""
        about = task.case.conversation
        body: dict[str, Any] = {"task_id": place["task_id"], "text": text_of(task.case.input)}
        if about is not None:
            body["agent_variables"] = about.user_info
        request = HttpRequest("POST", f"{_V1}/message", body, _MESSAGE_FLAGS)
        message = requests.send(self._service, request, is_message=True)
        return AuiAnswer(message, message.get("trace_info")), requests.last_seconds


def text_of(content: Any) -> str:
    """Return an input as the text of a message: JSON where it is no text."""
    return content if isinstance(content, str) else json.dumps(content, sort_keys=True)


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) and value else None
