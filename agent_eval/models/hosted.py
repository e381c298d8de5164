"""The base of models behind a provider's SDK: which shape of reply a server takes, and which parameters.

A server that refuses a JSON Schema is asked for any JSON object, and then in words only; one that refuses a
parameter is asked without it. Both are remembered for each address and model, for all runs of this process,
and recorded in each reply. Any other refusal is a failure.
"""

from __future__ import annotations

import json
import re
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar, Self

from typing_extensions import override

from agent_eval.contracts import TokenUsage
from agent_eval.errors import FailureKind, NotEvaluable, UsageError
from agent_eval.models.base import RUNGS, Model, ModelFailure, ModelOptions, ModelReply, ModelRequest, Rung
from agent_eval.models.prices import cost_of
from agent_eval.models.reply import Reply, account_name
from agent_eval.models.sdk import check_address, origin_of, receive

NO_KEY = "none"
"""Key for endpoints that need none: the SDKs insist on one."""

NOT_FOUND = 404

MAX_BYTES = 4 << 20
"""Maximum size of an answer; a reply has a few thousand tokens."""

_MOST_CHANGES = 8
"""Maximum number of changes to one request before the refusal counts."""

_SCHEMA_WORDS = re.compile(
    r"response_format|json[_ ]?schema|json[_ ]?object|structured output|output_config|output_format"
    r"|guided_json|grammar",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context[_ ]length|context window|maximum context|prompt is too long|too many (?:input )?tokens"
    r"|input is too long|exceeds? the (?:maximum|limit)|request_too_large",
    re.IGNORECASE,
)
"""How servers say that the request has more text than the model reads."""


@dataclass(slots=True)
class Habits:
    """What a server takes for a model, as far as its refusals have shown.

    Attributes:
        rung: The best form of a reply's shape that it takes.
        dropped: Parameters that it refuses.
        renamed: Parameters under another name.
    """

    rung: Rung = "json_schema"
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()


_habits: dict[tuple[str, str, str], Habits] = {}
_habits_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as its provider's module reads it: text, end, model and usage."""

    text: str
    stop_reason: str | None
    model: str | None
    usage: TokenUsage | None


class HostedModel(Model):
    """A model behind a provider's SDK, asked through `send` and read through `read`.

    A subclass names its provider, builds the client, and translates requests and answers.

    `api_key` is the key of each request, never recorded; endpoints without keys need none. `seconds` limits
    one attempt.
    """

    account: str

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        seconds: float = 120.0,
    ) -> None:
        check_address(base_url)
        self.model = model or self.default_model
        self._base_url, self._seconds = base_url, seconds
        self._sdk, self._client = self._connect(base_url, api_key or NO_KEY)
        self.host = origin_of(str(self._client.base_url))
        self.account = account_name(self.host, api_key or "")

    @classmethod
    @override
    def from_options(cls, options: ModelOptions) -> Self:
        if not options.api_key and not options.base_url:
            raise UsageError(
                f"there is no key for the {cls.kind} model",
                remedy="Set LLM_API_KEY, or name an endpoint that needs no key with --llm-base-url.",
            )
        return cls(options.model, base_url=options.base_url, api_key=options.api_key, seconds=options.seconds)

    @abstractmethod
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        """Import the SDK and return it with a client that repeats no request itself."""

    @abstractmethod
    def body(self, request: ModelRequest, rung: Rung | None) -> dict[str, Any]:
        """Translate a request, without sampling parameters, into the provider's."""

    @abstractmethod
    def open_answer(self, body: Mapping[str, Any]) -> Callable[[float], AbstractContextManager[Any]]:
        """Return the function that sends a body with a time limit in seconds."""

    @abstractmethod
    def read(self, body: Mapping[str, Any]) -> Answer:
        """Read an answer.

        Raises:
            KeyError, IndexError, TypeError, AttributeError, ValueError: It is none.
        """

    @override
    def describe(self) -> dict[str, Any]:
        return {"provider": self.kind, "host": self.host, "model": self.model}

    @override
    def close(self) -> None:
        self._client.close()

    def habits(self, model: str) -> Habits:
        """Return what is known of the server for a model."""
        with _habits_lock:
            return replace(_habits.setdefault((self.kind, self.host, model), Habits()))

    @override
    def complete(self, request: ModelRequest) -> ModelReply:
        model = request.model or self.model
        request = replace(request, model=model)
        began = time.monotonic()
        for _ in range(_MOST_CHANGES):
            habits = self.habits(model)
            rung = None if request.reply_schema is None else habits.rung
            body = self._body_within(request, rung, habits)
            reply = self._send(body, request)
            if reply.value is not None:
                return self._reply(reply.value, request, (rung, habits), time.monotonic() - began)
            if not self._learn(reply, model, body, rung):
                break
        raise _failure(reply)

    def _body_within(self, request: ModelRequest, rung: Rung | None, habits: Habits) -> dict[str, Any]:
        body = {**self.body(request, rung), **request.parameters}
        for name, other in habits.renamed:
            if name in body:
                body[other] = body.pop(name)
        return {name: value for name, value in body.items() if name not in habits.dropped}

    def _send(self, body: Mapping[str, Any], request: ModelRequest) -> Reply[dict[str, Any]]:
        try:
            return receive(
                self._sdk,
                self.open_answer(body),
                seconds=request.seconds or self._seconds,
                max_bytes=MAX_BYTES,
            )
        except NotEvaluable as error:
            problem = error.message.removeprefix("the model ")
            raise ModelFailure(
                FailureKind.INFRASTRUCTURE,
                problem,
                remedy=error.remedy,
                is_final=True,
                is_unknown_model=error.details.get("status") == NOT_FOUND,
            ) from None

    def _learn(self, reply: Reply[Any], model: str, body: Mapping[str, Any], rung: Rung | None) -> bool:
        """Note what a refusal is about; return whether another request may succeed."""
        if reply.failure is not FailureKind.AGENT_ERROR or _TOO_LONG.search(reply.problem):
            return False
        words = f"{reply.problem} {_parameter(reply.received)}"
        with _habits_lock:
            habits = _habits[(self.kind, self.host, model)]
            for name, other in self.other_names.items():
                if name in body and _names(words, name) and (name, other) not in habits.renamed:
                    habits.renamed += ((name, other),)
                    return True
            for name in self.optional(body):
                if _names(words, name):
                    habits.dropped += (name,)
                    return True
            if rung is not None and rung != RUNGS[-1] and _SCHEMA_WORDS.search(words):
                habits.rung = RUNGS[RUNGS.index(rung) + 1]
                return True
        return False

    other_names: ClassVar[Mapping[str, str]] = {}
    """Parameters that some servers know by another name."""
    needed: ClassVar[frozenset[str]] = frozenset()
    """Parameters that are never dropped."""

    def optional(self, body: Mapping[str, Any]) -> list[str]:
        """List the parameters of a request that may be dropped."""
        return [name for name in body if name not in self.needed]

    def _reply(
        self, body: Mapping[str, Any], request: ModelRequest, sent: tuple[Rung | None, Habits], seconds: float
    ) -> ModelReply:
        try:
            answer = self.read(body)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            # A proxy's page, or another service: nothing that the model said.
            problem = f"gave no answer that can be read: {type(error).__name__} at {error}"[:300]
            raise ModelFailure(FailureKind.INFRASTRUCTURE, problem) from None
        rung, habits = sent
        return ModelReply(
            answer.text,
            stop_reason=answer.stop_reason,
            model=answer.model or request.model,
            usage=answer.usage,
            cost_usd=cost_of(answer.model or request.model, answer.usage),
            rung=rung,
            dropped=tuple(name for name in habits.dropped if name in request.parameters),
            seconds=seconds,
        )


def schema_in_words(request: ModelRequest, rung: Rung | None) -> str:
    """Return what the system prompt says of the reply's shape: nothing where the schema itself is sent."""
    if request.reply_schema is None or rung == "json_schema":
        return ""
    schema = json.dumps(request.reply_schema, ensure_ascii=False, sort_keys=True)
    return (
        "\n\nReply with one JSON object and nothing else: no text before or after it, no code fence. It has"
        f" exactly the properties of this JSON Schema, in its order:\n{schema}"
    )


_NOT_OURS = frozenset(
    {FailureKind.INFRASTRUCTURE, FailureKind.TIMEOUT, FailureKind.PARSE_ERROR, FailureKind.TYPE_ERROR}
)


def _failure(reply: Reply[Any]) -> ModelFailure:
    """Turn a reply without value into a failure. What is no fault of the request can be sent again."""
    if reply.failure in _NOT_OURS:
        return ModelFailure(
            FailureKind.TIMEOUT if reply.failure is FailureKind.TIMEOUT else FailureKind.INFRASTRUCTURE,
            reply.problem,
            asked_wait=reply.asked_wait,
            rate_limited=reply.rate_limited,
        )
    too_long = reply.failure is FailureKind.AGENT_ERROR and _TOO_LONG.search(reply.problem) is not None
    return ModelFailure(reply.failure or FailureKind.JUDGE_ERROR, reply.problem, is_too_long=too_long)


def _names(words: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", words) is not None


def _parameter(received: bytes) -> str:
    """Return the parameter that the body of a refusal names; empty if none."""
    try:
        body = json.loads(received)
    except ValueError:
        return ""
    details = body.get("error", body) if isinstance(body, dict) else {}
    named = details.get("param") if isinstance(details, dict) else None
    return named if isinstance(named, str) else ""
