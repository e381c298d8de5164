"""Agents that are hosted models: what every provider's SDK has in common.

Answers are read as bytes, so that a slow or endless one is cut off and a broken one is reported as such; the
SDKs check their time limits only between two reads.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from typing_extensions import override

from agent_eval.agents.base import (
    Agent,
    AgentOptions,
    AttemptResult,
    Sent,
    Surroundings,
    Task,
    account_name,
)
from agent_eval.agents.chat import ChatModel, converse
from agent_eval.agents.helper_thread import GRACE_SECONDS, HelperThread
from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable, UsageError
from agent_eval.http.retry import asked_wait
from agent_eval.storage.json import parse

_NO_KEY = "none"
_UNLIMITED = 24 * 3600.0
_REFUSED = {
    401: "Set the key for it, and check that it is still valid.",
    403: "Check what the key may do.",
    404: "Check the address and the model's name.",
}
_BUSY = frozenset({408, 429, 529})
_RATE_LIMITED = frozenset({429, 529})
"""Anthropic says 529 when it is overloaded: that too is a reason to ask for less at once."""


_deadlines = HelperThread()


class _TooLong(Exception):
    """More bytes than allowed."""


class HostedModel(Agent, ChatModel):
    """A model behind a provider's SDK, asked with the case's tools until it has answered.

    A subclass names its provider and builds the client; its `ask` and `results` translate to and from the
    provider's messages.

    Args:
        model: The model's name; None takes each case's `metadata.model`.
        base_url: The endpoint, such as `http://localhost:11434/v1`; the provider's own by default.
        api_key: Sent with each request, and written nowhere. Endpoints without keys need none.
        system: The system prompt, before the case's input.
        parameters: Further fields of each request, such as `temperature`.

    Raises:
        UsageError: `base_url` is not a usable address.

    Example:
        >>> from agent_eval.agents.openai import OpenAiCompatibleAgent
        >>> agent = OpenAiCompatibleAgent("llama3", base_url="http://localhost:11434/v1")
        >>> agent.describe()["model"]
        'llama3'
    """

    kind: ClassVar[str]
    """The provider, as in `openai:MODEL`."""
    key_variable: ClassVar[str]
    """The environment variable that holds the API key."""
    account: str

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        system: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        check_address(base_url)
        self._model, self._base_url, self._system = model, base_url, system
        self._parameters = dict(parameters or {})
        self._sdk, self._client = self._connect(base_url, api_key or _NO_KEY)
        self.account = account_name(str(self._client.base_url), api_key or "")

    @abstractmethod
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        """Import the SDK and return it with a client that repeats no request itself."""

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> Self:
        return cls(
            rest or None,
            base_url=options.base_url,
            api_key=options.environ.get(cls.key_variable),
            system=options.system,
            parameters=options.parameters,
        )

    @classmethod
    @override
    def from_description(
        cls, described: Mapping[str, Any], options: AgentOptions
    ) -> tuple[str, AgentOptions]:
        return f"{cls.kind}:{described['model'] or ''}", replace(
            options,
            base_url=options.base_url or described["base_url"],
            system=options.system or described["system"],
            parameters={**dict(described["parameters"]), **options.parameters},
        )

    @override
    def describe(self) -> dict[str, Any]:
        return {
            "agent": self.kind,
            "base_url": self._base_url,
            "model": self._model,
            "parameters": self._parameters,
            "system": self._system,
        }

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        return converse(self, self._model, task, surroundings)

    @override
    def close(self) -> None:
        self._client.close()


def check_address(url: str | None) -> None:
    """Refuse what is no address of a model; SDKs find that out when they send the first request.

    Raises:
        UsageError: It is none.
    """
    if url is None:
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            f"{url!r} cannot be used as the address of a model",
            remedy="Write it as https://host/v1 or http://host:port/v1.",
        )


def receive(
    sdk: ModuleType,
    open_answer: Callable[[float], AbstractContextManager[Any]],
    *,
    seconds: float | None,
    max_bytes: int,
) -> Sent[dict[str, Any]]:
    """Send a request and read its JSON object.

    Args:
        sdk: The package, for its errors.
        open_answer: Sends the request with a time limit in seconds; gives what `with_streaming_response`
            gives.
        seconds: For all of it.
        max_bytes: What the answer may be long.

    Raises:
        NotEvaluable: The service refuses whatever would be asked: no valid key, no such model.
    """
    limit = _UNLIMITED if seconds is None else seconds
    deadline = time.monotonic() + limit

    def send() -> bytes:
        with open_answer(limit) as response:
            return _read(response, deadline, max_bytes)

    try:
        # SDKs know time limits between two reads only, also while they read headers.
        data = _deadlines.call(send, None if seconds is None else seconds + GRACE_SECONDS)
    except _TooLong:
        return Sent(failure=FailureKind.OUTPUT_LIMIT, problem=f"answered with more than {max_bytes} bytes")
    except sdk.APIStatusError as error:
        return _refused(error)
    # The rest is about the connection: an SDK's error, or that of whichever HTTP library it reads with.
    except Exception as error:
        if time.monotonic() >= deadline or "Timeout" in type(error).__name__:
            return Sent(failure=FailureKind.TIMEOUT, problem="did not answer in time")
        problem = f"could not be reached: {type(error).__name__}"
        return Sent(failure=FailureKind.INFRASTRUCTURE, problem=problem)
    return _parsed(data)


def _read(response: Any, deadline: float, max_bytes: int) -> bytes:
    data = bytearray()
    for piece in response.iter_bytes():
        data += piece
        if len(data) > max_bytes:
            raise _TooLong
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(data)


def _parsed(data: bytes) -> Sent[dict[str, Any]]:
    try:
        value = parse(data, source="the model's answer")
    except InvalidInput as error:
        return Sent(failure=FailureKind.PARSE_ERROR, problem=f"gave no JSON: {error.message}")
    if not isinstance(value, dict):
        return Sent(failure=FailureKind.TYPE_ERROR, problem="answered with something else than an object")
    return Sent(value)


def _refused(error: Any) -> Sent[dict[str, Any]]:
    status = int(error.status_code)
    words = f"answered with HTTP {status}: {_message(error)}"
    if status in _REFUSED:
        raise NotEvaluable(f"the model {words}", remedy=_REFUSED[status], status=status)
    if status in _BUSY or status >= 500:
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        wait = _milliseconds(headers)
        if wait is None:
            wait = asked_wait(status, headers, now=time.time())
        return Sent(
            failure=FailureKind.INFRASTRUCTURE,
            problem=words,
            asked_wait=wait,
            rate_limited=status in _RATE_LIMITED,
        )
    return Sent(failure=FailureKind.AGENT_ERROR, problem=words)


def _milliseconds(headers: Mapping[str, str]) -> float | None:
    """Some services ask to wait in `retry-after-ms`."""
    stated = headers.get("retry-after-ms", "")
    return int(stated) / 1000 if stated.isascii() and stated.isdigit() and len(stated) < 12 else None


def _message(error: Any) -> str:
    """What the service says of it, in one bounded line."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error", body)
    said = inner.get("message") if isinstance(inner, dict) else None
    text = said if isinstance(said, str) else "no explanation"
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:300]
