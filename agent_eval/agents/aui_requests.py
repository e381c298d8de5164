"""The requests of one turn to the AUI API, and what its answers and refusals mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent_eval.agents.aui_events import items_of, object_of
from agent_eval.agents.base import Surroundings, Task
from agent_eval.agents.http import HttpRequest, Service, status_in_words, unavailable
from agent_eval.agents.recorder import Recorder
from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable
from agent_eval.http.client import Answer
from agent_eval.http.retry import is_rate_limit
from agent_eval.models.retries import Reply
from agent_eval.storage.json import Limits, parse

KEY_VARIABLE = "AUI_API_KEY"
"""Environment variable that has the network's key."""

_REFUSALS = {
    401: f"Set {KEY_VARIABLE} to the key of the network, and check that it is still valid.",
    403: "Check what the key may do, and that the agent belongs to its network.",
    404: "Check the address of the API and the agent's id.",
}
"""Statuses that no further request can change, with their remedies."""
_BUSY = frozenset({408, 429})
_RATE_LIMITED = frozenset({429, 529})
_SERVER_ERROR = 500


Renew = Callable[[Service], Service]
"""Returns the service with another token."""


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
        self, service: Service, request: HttpRequest, *, is_first: bool = False, renew: Renew | None = None
    ) -> Mapping[str, Any]:
        """Send a request and return the object in its answer.

        Args:
            is_first: Whether it is the first of a conversation, so that a refusal is one of all.
            renew: Returns the service with another token, to be asked once more after 401.

        Raises:
            RequestFailed: There is no usable answer.
            NotEvaluable: The service would refuse every conversation.
        """
        reply = self._repeated(service, request)
        if renew is not None and _status(reply) == 401:
            reply = self._repeated(renew(service), request)
        answer = reply.value
        if answer is not None:
            _refuse_all(answer, is_first)
            reply = read_object(answer)
        if reply.value is None or reply.failure is not None:
            raise RequestFailed(reply)
        assert isinstance(reply.value, Mapping)
        return reply.value

    def read(self, service: Service, request: HttpRequest) -> Any:
        """Read what is good to have, such as a trace; None where that fails."""
        reply = self._repeated(service, request)
        if reply.value is None or reply.value.status >= 400:
            return None
        try:
            return _parsed(reply.value.body)
        except InvalidInput:
            return None

    def _repeated(self, service: Service, request: HttpRequest) -> Reply[Answer]:
        recorder, limits, clocks = self._recorder, self._limits, self._surroundings.clocks

        def send() -> Reply[Answer]:
            remaining = None if limits.seconds is None else max(limits.seconds - recorder.seconds, 0.001)
            began = clocks.monotonic()
            reply = service.send(request, seconds=remaining, max_bytes=limits.output_bytes)
            self.last_seconds = clocks.monotonic() - began
            recorder.seconds += self.last_seconds
            answer = reply.value
            if answer is not None and (answer.status in _BUSY or answer.status >= _SERVER_ERROR):
                return unavailable(answer, limited=answer.status in _RATE_LIMITED)
            if answer is not None and is_rate_limit(answer.status, answer.headers, answer.body):
                return unavailable(answer, limited=True)
            return reply

        reply, retries = self._surroundings.retry(send)
        recorder.retries += retries
        if reply.failure is FailureKind.TIMEOUT:
            return Reply(failure=reply.failure, problem=f"did not end within {limits.seconds:g} s")
        return reply


def _status(reply: Reply[Answer]) -> int | None:
    return reply.value.status if reply.value is not None else None


def _refuse_all(answer: Answer, is_first: bool) -> None:
    """Raise where the service would refuse every conversation."""
    status = answer.status
    if status in _REFUSALS and (is_first or status != 404):
        raise NotEvaluable(f"the agent {_in_words(answer)}", remedy=_REFUSALS[status], status=status)
    if is_first and status == 422:
        raise NotEvaluable(f"the agent {_in_words(answer)}", remedy="Check the agent's id.", status=status)


def read_object(answer: Answer) -> Reply[Any]:
    """Read the JSON object in an answer of the API; any other answer is a failure."""
    if answer.status >= 400:
        return Reply(failure=FailureKind.AGENT_ERROR, problem=_in_words(answer), received=answer.body)
    if "html" in answer.headers.get("content-type", "") or answer.body.lstrip()[:1] == b"<":
        problem = "answered with a web page instead of JSON, as a proxy or another address would"
        return Reply(failure=FailureKind.INFRASTRUCTURE, problem=problem, received=answer.body)
    try:
        value = _parsed(answer.body)
    except InvalidInput as error:
        problem = f"gave no JSON: {error.message}"
        return Reply(failure=FailureKind.PARSE_ERROR, problem=problem, received=answer.body)
    if not isinstance(value, dict):
        problem = "answered with something else than an object"
        return Reply(failure=FailureKind.TYPE_ERROR, problem=problem, received=answer.body)
    return Reply(value)


def _parsed(body: bytes) -> Any:
    return parse(body, source="the agent's answer", limits=Limits(wide_integers=True))


def _in_words(answer: Answer) -> str:
    """Say what the API answered, with the words of its own form of errors."""
    try:
        body = object_of(_parsed(answer.body))
    except InvalidInput:
        return status_in_words(answer)
    error = object_of(body.get("error"))
    listed = [*items_of(body.get("errors")), *items_of(body.get("detail")), *items_of(error.get("details"))]
    details = [_detail(object_of(item)) for item in listed]
    words = "; ".join(filter(None, [str(error.get("message") or ""), *details]))
    printable = "".join(char if char.isprintable() else " " for char in words)[:300]
    return f"answered with HTTP {answer.status}: {printable}" if printable else status_in_words(answer)


def _detail(item: Mapping[str, Any]) -> str:
    place = item.get("loc", item.get("field"))
    place = ".".join(map(str, place)) if isinstance(place, list) else place
    words = item.get("msg", item.get("message"))
    return f"{place}: {words}" if place and words else str(words or "")
