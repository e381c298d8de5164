"""The `aui` and `aui-v3` agents: an agent of AUI, behind one of the two generations of its API.

v1: a task is created, and each message is posted to it; the answer has its trace. v3: a token is fetched,
each message is posted to a thread, and the trace is read from the thread. Addresses come from the operator
and never from a suite, because the key is sent there.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self
from urllib.parse import quote

from typing_extensions import override

from agent_eval.agents.aui_events import AuiAnswer, items_of, object_of, record_aui_answer
from agent_eval.agents.aui_requests import KEY_VARIABLE, Renew, RequestFailed, Requests
from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Surroundings, Task
from agent_eval.agents.http import HttpRequest, Service
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.contracts import Case
from agent_eval.errors import FailureKind, UsageError
from agent_eval.models.retries import Reply, account_name
from agent_eval.models.usage import figure_of

USER_VARIABLE = "AUI_USER_ID"
"""Environment variable that pins the id of the user, which is random otherwise."""


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
    def from_description(
        cls, described: Mapping[str, Any], options: AgentOptions
    ) -> tuple[str, AgentOptions]:
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
    def refuse(self, case: Case) -> str:
        conversation = case.conversation
        if conversation is not None and conversation.system_prompt is not None:
            return "a system prompt, for which the AUI API has no field"
        if conversation is not None and case.metadata.get("model") is not None:
            return "a model, for which the AUI API has no field"
        return ""

    @override
    def close(self) -> None:
        self._service.close()

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        recorder = Recorder(task, surroundings)
        requests = Requests(recorder, task, surroundings)
        before = task.session.conversation if task.session is not None else ()
        place: dict[str, str] = dict(before[-1]) if before else {}
        try:
            if not place:
                place = self._begin(requests, recorder)
            recorder.record_input()
            answer, seconds = self._send(requests, place, task)
            record_aui_answer(recorder, answer, seconds)
            result = _result(recorder, answer)
        except RequestFailed as failed:
            result = _failed(recorder, failed.reply)
        except LimitReached as reached:
            result = recorder.result(None, reached.failure, reached.problem)
        return replace(result, conversation=(place,))

    def _user(self) -> str:
        return str(self._parameters.get("user_id") or uuid.uuid4())

    def _begin(self, requests: Requests, recorder: Recorder) -> dict[str, str]:
        """Create a task; return what the turns of the conversation share."""
        agent = {name: self._parameters[name] for name in _OF_THE_AGENT if name in self._parameters}
        if self._agent_id is not None:
            agent["agent_id"] = self._agent_id
        user = self._user()
        origin = self._parameters.get("task_origin_type", "third-party")
        body = {"user_id": user, "task_origin_type": origin, **({"agent": agent} if agent else {})}
        try:
            created = requests.send(self._service, HttpRequest("POST", f"{_V1}/tasks", body), is_first=True)
        except RequestFailed:
            recorder.record_input()
            raise
        task_id = _text(created, "id") or _text(created, "task_id")
        if task_id is None:
            recorder.record_input()
            raise _without("the id of the new task")
        if welcome := _text(created, "welcome_message"):
            recorder.record_message(welcome)
        return {"task_id": task_id, "user_id": user}

    def _send(self, requests: Requests, place: dict[str, str], task: Task) -> tuple[AuiAnswer, float]:
        """Send the turn's message; return the answer, and the seconds that it took."""
        body = {"task_id": place["task_id"], "text": text_of(task.case.input), **variables_of(task.case)}
        request = HttpRequest("POST", f"{_V1}/message", body, _MESSAGE_FLAGS)
        message = requests.send(self._service, request)
        seconds = requests.last_seconds
        info = message.get("trace_info")
        if info is None and (message_id := _text(message, "id")) is not None:
            path = f"{_V1}/tasks/{quote(place['task_id'], safe='')}/messages/{quote(message_id, safe='')}"
            info = requests.read(self._service, HttpRequest("GET", f"{path}/trace-info", None, _TRACE_FLAGS))
        return AuiAnswer(message, info, self.api), seconds


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
    def _begin(self, requests: Requests, recorder: Recorder) -> dict[str, str]:
        return {"user_id": self._user()}

    @override
    def _send(self, requests: Requests, place: dict[str, str], task: Task) -> tuple[AuiAnswer, float]:
        text = text_of(task.case.input)
        known = {name: place[name] for name in ("user_id", "thread_id") if name in place}
        request = HttpRequest("POST", f"{_V3}/messages", {"text": text, **known, **variables_of(task.case)})
        service = self._with_token(requests)
        answer = requests.send(service, request, renew=self._renew(requests))
        seconds = requests.last_seconds
        thread_id = _text(answer, "thread_id") or place.get("thread_id")
        if thread_id is None:
            raise _without("the thread's id")
        place["thread_id"] = thread_id
        path = f"{_V3}/threads/{quote(thread_id, safe='')}/trace"
        traces = requests.read(self._with_token(requests), HttpRequest("GET", path))
        turn = task.session.turn if task.session is not None else 1
        return AuiAnswer(object_of(answer.get("message")), _trace_of(traces, text, turn), self.api), seconds

    def _with_token(self, requests: Requests) -> Service:
        """Return the service with a token in its headers; fetch one where there is none, or it expires."""
        with self._token_lock:
            if self._messaging is None or time.monotonic() >= self._token_until:
                self._messaging = self._authorised(requests)
            return self._messaging

    def _authorised(self, requests: Requests) -> Service:
        body = {"grant_type": "publishable_key", "publishable_key": self._key}
        granted = requests.send(
            self._service, HttpRequest("POST", "/management/v1/auth/token", body), is_first=True
        )
        token, lasts = _text(granted, "access_token"), figure_of(granted.get("expires_in"))
        if token is None:
            raise _without("an access_token")
        seconds = _TOKEN_SECONDS if lasts is None else lasts
        self._token_until = time.monotonic() + seconds * 0.9
        return Service(self._url, secret_headers={"Authorization": f"Bearer {token}"})

    def _renew(self, requests: Requests) -> Renew:
        def renewed(old: Service) -> Service:
            """Fetch another token, unless another thread has done so already."""
            with self._token_lock:
                if self._messaging is old or self._messaging is None:
                    self._messaging = self._authorised(requests)
                return self._messaging

        return renewed


_V3 = "/messaging/v1"
_TOKEN_SECONDS = 300.0
"""How long a token is used whose end is not stated."""


def _trace_of(traces: Any, text: str, turn: int) -> Any:
    """Find the trace of the turn's message in those of its thread; None where none is of it."""
    listed = [trace for trace in items_of(traces) if isinstance(trace, Mapping)]
    for trace in reversed(listed):
        if object_of(trace.get("input")).get("message") == text:
            return trace
    return listed[-1] if len(listed) == turn else None


def _without(missing: str) -> RequestFailed:
    return RequestFailed(Reply(failure=FailureKind.TYPE_ERROR, problem=f"answered without {missing}"))


def _result(recorder: Recorder, answer: AuiAnswer) -> AttemptResult:
    if answer.text is None:
        return recorder.result(None, FailureKind.MISSING_OUTPUT, "answered with neither text nor cards")
    return recorder.result(answer.text)


def _failed(recorder: Recorder, reply: Reply[Any]) -> AttemptResult:
    if reply.received:
        recorder.artifacts["answer.txt"] = reply.received
    return recorder.result(None, reply.failure, reply.problem)


def text_of(content: Any) -> str:
    """Return an input as the text of a message: JSON where it is no text."""
    return content if isinstance(content, str) else json.dumps(content, sort_keys=True)


def variables_of(case: Case) -> dict[str, Any]:
    """Return what every message tells the agent of the user."""
    return {} if case.conversation is None else {"agent_variables": case.conversation.user_info}


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) and value else None
