"""The `http` agent, which is posted the JSON that a command reads; and requests to agents and tool servers.

Requests are sent once each, with failures as values. Callers decide on retries.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from agent_eval.agents.answer import UnusableAnswer, read_answer, record_answer
from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Opening, Surroundings, Task
from agent_eval.agents.recorder import Recorder
from agent_eval.errors import FailureKind, UsageError
from agent_eval.http.client import Answer, Session
from agent_eval.http.errors import AnswerTooLarge, HttpError, RefusedRedirect, UncertainOutcome
from agent_eval.http.retry import Patience, asked_wait, is_rate_limit
from agent_eval.models.retries import Reply, T, account_name, time_left, timed_out

_ERRORS = tuple(range(400, 600))
_CONNECT_SECONDS = 10.0
_UNLIMITED = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request to a service, at a `path` below its address, with a JSON value as `body`, None for none."""

    method: str
    path: str = ""
    body: Any = None
    params: Mapping[str, str | int] = field(default_factory=dict)


class Service:
    """An address that receives JSON. Safe to use from many threads, which share its connections.

    Args:
        url: `http` is allowed, for agents on a private network.
        secret_headers: Sent to this origin only, and never shown.
        is_gateway: Whether what answers there is another's than the agent's: a gateway or a load balancer,
            which says by its status that it cannot reach the agent. Otherwise that is the agent's own answer.

    Raises:
        UsageError: `url` is malformed.
    """

    def __init__(
        self, url: str, *, secret_headers: Mapping[str, str] | None = None, is_gateway: bool = True
    ) -> None:
        self.url, self.is_gateway = url, is_gateway
        patience = Patience(
            attempts=1, connect_timeout=_CONNECT_SECONDS, read_timeout=_UNLIMITED, transfer_timeout=_UNLIMITED
        )
        try:
            self._session = Session(url, secret_headers=secret_headers, patience=patience, plain_http=True)
        except HttpError as error:
            raise UsageError(
                f"{url!r} cannot be used as an address: {error.message}",
                remedy="Write it as https://host/path or http://host:port/path, without a user name.",
            ) from None

    def close(self) -> None:
        """Close the connections to the service."""
        self._session.close()

    def send(self, request: HttpRequest, *, seconds: float | None, max_bytes: int) -> Reply[Answer]:
        """Send a request and return the answer, whatever its status.

        The failure is `TIMEOUT` if the answer takes longer than `seconds`, `OUTPUT_LIMIT` if it has more than
        `max_bytes`, `AGENT_ERROR` for a redirect, and `INFRASTRUCTURE` for a refused or broken connection;
        `delivered` says whether it broke after the request may have arrived.
        """
        began, limit = time.monotonic(), time_left(seconds)
        try:
            return Reply(
                self._session.request(
                    request.method,
                    request.path or self.url,
                    params=request.params,
                    json=request.body,
                    accept=_ERRORS,
                    max_bytes=max_bytes,
                    seconds=limit,
                )
            )
        except AnswerTooLarge:
            problem = f"answered with more than {max_bytes} bytes"
            return Reply(failure=FailureKind.OUTPUT_LIMIT, problem=problem)
        except RefusedRedirect as error:
            problem = f"answered with a redirect: {error.message}"
            return Reply(failure=FailureKind.AGENT_ERROR, problem=problem)
        except HttpError as error:
            if limit is not None and time.monotonic() - began >= limit:
                return Reply(failure=FailureKind.TIMEOUT, problem=timed_out(seconds))
            return Reply(
                failure=FailureKind.INFRASTRUCTURE,
                problem=f"could not be reached: {error.message}",
                delivered=isinstance(error, UncertainOutcome),
            )

    def post(self, body: Any, *, seconds: float | None, max_bytes: int) -> Reply[bytes]:
        """Send JSON to the address itself and return the bytes of the answer.

        The failures are those of `send`; and `INFRASTRUCTURE` for too many requests, or a gateway that cannot
        reach the service, and `AGENT_ERROR` for any other error status. Where there is no gateway, an error
        status and a connection that breaks after the request was sent are `AGENT_ERROR`.
        """
        reply = self.send(HttpRequest("POST", body=body), seconds=seconds, max_bytes=max_bytes)
        answer = reply.value
        if answer is None:
            if reply.is_infrastructure and reply.delivered and not self.is_gateway:
                return Reply(failure=FailureKind.AGENT_ERROR, problem=reply.problem)
            return reply.without_value()
        if answer.status < 400:
            return Reply(answer.body)
        limited = is_rate_limit(answer.status, answer.headers, answer.body)
        if self.is_gateway and (limited or answer.status in (502, 503, 504)):
            return unavailable(answer, limited=limited)
        return Reply(failure=FailureKind.AGENT_ERROR, problem=status_in_words(answer))


def unavailable(answer: Answer, *, limited: bool) -> Reply[Any]:
    """Make the reply for an answer that says that the service cannot answer now."""
    return Reply(
        failure=FailureKind.INFRASTRUCTURE,
        problem=status_in_words(answer),
        asked_wait=asked_wait(answer.status, answer.headers, now=time.time()),
        rate_limited=limited,
        delivered=not limited,
    )


def once(reply: Reply[T]) -> Reply[T]:
    """Let a message to a conversation be sent again only if it certainly did not arrive."""
    return replace(reply, is_final=True) if reply.is_infrastructure and reply.delivered else reply


def status_in_words(answer: Answer) -> str:
    """Say which error status an answer has, with the beginning of what it says."""
    return f"answered with HTTP {answer.status}: {answer.excerpt}"


class HttpAgent(Agent):
    """Posts every attempt to an address as JSON (`Task.payload`); `answer.read_answer` reads the answer.

    Args:
        headers: Of each request, such as credentials; never shown or recorded.
        is_gateway: Whether a gateway answers there that is not the agent's own (`agent.gateway`).
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, is_gateway: bool = False
    ) -> None:
        self._service = Service(url, secret_headers=headers, is_gateway=is_gateway)
        self.account = account_name(url, *(f"{name}: {value}" for name, value in (headers or {}).items()))

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> HttpAgent:
        return cls(rest, headers=options.headers, is_gateway=options.gateway)

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any], options: AgentOptions) -> Opening:
        gateway = options.gateway or described.get("gateway") is True
        return str(described["url"]), replace(options, gateway=gateway)

    @override
    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"agent": "http", "url": self._service.url.partition("?")[0]}
        return {**described, "gateway": True} if self._service.is_gateway else described

    @override
    def close(self) -> None:
        self._service.close()

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        payload, limits = task.payload(), task.limits

        def send() -> Reply[bytes]:
            reply = self._service.post(payload, seconds=limits.seconds, max_bytes=limits.output_bytes)
            return once(reply) if task.session is not None else reply

        reply, _ = recorder.ask(send)
        if reply.value is None:
            failed = recorder.result(None, reply.failure, reply.problem)
            return replace(failed, is_uncertain=reply.is_final)
        try:
            answer = read_answer(reply.value, what="its answer")
        except UnusableAnswer as unusable:
            recorder.artifacts["answer.txt"] = reply.value
            return recorder.result(None, unusable.failure, unusable.problem)
        return record_answer(recorder, answer, recorder.seconds)
