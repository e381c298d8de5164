"""Models behind a provider's SDK: what judges and simulated users ask, and the agents under test are.

A server that refuses a JSON Schema is asked for any JSON object, and then in words only; one that refuses a
parameter is asked without it, and one that takes no system message finds it before the first one of the user.
All are remembered for each address and model, for all runs of this process, and recorded in each reply. Any
other refusal is a failure. Agents are asked as they are: nothing is learnt.

Answers are read as bytes, so that a slow or endless answer is cut off and a malformed one is reported as
such; the SDKs check their time limits only between two reads.
"""

from __future__ import annotations

import json
import re
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from typing_extensions import override

from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable, UsageError
from agent_eval.http.errors import one_line, said_in
from agent_eval.http.retry import stated_wait
from agent_eval.models import base
from agent_eval.models.base import RUNGS, Model, ModelFailure, ModelOptions, ModelReply, ModelRequest, Rung
from agent_eval.models.retries import Reply, account_name, time_left
from agent_eval.models.usage import NO_FACTS, NO_PRICES, AnswerFacts, Prices, cost_of
from agent_eval.processes.thread_pool import ThreadPool
from agent_eval.storage.json import Limits, parse

NO_KEY = "none"
"""Key for endpoints that need none: the SDKs insist on one."""

MAX_BYTES = 4 << 20
"""Maximum size of an answer; a reply has a few thousand tokens."""

_MOST_CHANGES = 8
"""Maximum number of changes to one request before the refusal counts."""

_SCHEMA_WORDS = re.compile(
    r"response_format|json[_ ]?schema|json[_ ]?object|structured output|output_config|output_format"
    r"|guided_json|grammar|json_validate_failed",
    re.IGNORECASE,
)
_NO_SYSTEM = re.compile(
    r"(?:system|developer) (?:role|message|prompt|instruction)s?\b.{0,40}\bnot\b|roles must alternate",
    re.IGNORECASE,
)
"""How servers say that a model takes no system message, some of them as an error of their own (500)."""
_TOO_LONG = re.compile(
    r"context[_ ]length|context window|maximum context|prompt is too long|too many (?:input )?tokens"
    r"|input is too long|exceeds? the (?:maximum|limit)|request_too_large",
    re.IGNORECASE,
)
"""How servers say that the request has more text than the model reads."""

_NOT_OURS = frozenset(
    {FailureKind.INFRASTRUCTURE, FailureKind.TIMEOUT, FailureKind.PARSE_ERROR, FailureKind.TYPE_ERROR}
)
"""Failures that are no fault of a judge's request, which can be sent again: a proxy's page, for one."""

_UNLIMITED = 24 * 3600.0
_REFUSALS = {
    401: "Set the key for it, and check that it is still valid.",
    403: "Check what the key may do.",
    404: "Check the address and the model's name.",
}
"""Statuses that no further request can change, with their remedies."""
_BUSY = frozenset({408, 409, 429, 529})
_EXHAUSTED = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
"""Codes of a refusal that waiting does not change: the account has no credit left."""
_BLOCKS = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
"""Codes of a refusal by a filter, in front of the model."""
_RATE_LIMITED = frozenset({429, 529})
"""Anthropic answers with 529 if it is overloaded: another reason to send fewer requests at a time."""
_GRACE_SECONDS = 0.5
"""Extra time for an SDK that enforces the time limit itself."""
_threads = ThreadPool(1024)

_SCHEMA_IN_WORDS = (
    "\n\nReply with one JSON object and nothing else: no text before or after it, no code fence. It has"
    " exactly the properties of this JSON Schema, in its order:"
)
"""What the system prompt says of the reply's shape, where the schema is not sent."""

Message = dict[str, Any]
"""A message in the provider's own form."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call of a model. `arguments` is the model's own text if `is_readable` is false."""

    call_id: str
    tool: str
    arguments: Any
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of a model.

    Attributes:
        text: The model's text; None if it only called tools.
        message: The answer in the provider's form, to be repeated in the conversation.
        finish: Why the model stopped, in the provider's word; None if it does not say.
    """

    text: str | None
    calls: Sequence[ModelCall]
    message: Message
    finish: str | None = None
    facts: AnswerFacts = NO_FACTS


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a model, but for its limits and the shape of its reply.

    Attributes:
        tools: The tools the model may call, as `{"name", "description", "parameters"}`, the last a schema.
        parameters: Further fields of the request, such as `temperature`.
    """

    model: str
    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Habits:
    """What a server takes for a model, as far as its refusals have shown.

    Attributes:
        rung: The best form of a reply's shape that it takes.
        dropped: Parameters that it refuses.
        renamed: Parameters under another name.
        system: Whether it takes a system message.
    """

    rung: Rung = "json_schema"
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    system: bool = True


_habits: dict[tuple[str, str, str], Habits] = {}
_habits_lock = threading.Lock()


class HostedModel(Model):
    """A model behind a provider's SDK. A subclass connects, and translates requests and answers.

    `api_key` is the key of each request, never recorded; endpoints without keys need none. `seconds` limits
    one attempt of a judge or simulated user.
    """

    account: str
    prices: Prices = NO_PRICES
    agent_defaults: ClassVar[Mapping[str, Any]] = {}
    """Parameters of an agent that names none of its own."""
    other_names: ClassVar[Mapping[str, str]] = {}
    """Parameters that some servers know by another name."""
    needed: ClassVar[frozenset[str]] = frozenset()
    """Parameters that are never dropped."""

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
        self._seconds = seconds
        self._sdk, self._client = self._connect(base_url, api_key or NO_KEY)
        weakref.finalize(self, self._client.close)  # SDKs close only clients that they made themselves
        self._address = str(self._client.base_url)
        self.host = origin_of(self._address)
        self.account = account_name(self.host, api_key or "")

    @classmethod
    @override
    def from_options(cls, options: ModelOptions) -> Self:
        if not options.api_key and not options.base_url:
            raise UsageError(
                f"there is no key for the {cls.kind} model",
                remedy="Set LLM_API_KEY, or name an endpoint that needs no key, as PROVIDER:MODEL@ENDPOINT.",
            )
        model = cls(
            options.model, base_url=options.base_url, api_key=options.api_key, seconds=options.seconds
        )
        model.prices = options.prices
        return model

    @abstractmethod
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        """Import the SDK and return it with a client that repeats no request itself."""

    @abstractmethod
    def body(self, question: Question) -> dict[str, Any]:
        """Translate a question, without its parameters, into the provider's request."""

    @abstractmethod
    def message(self, message: base.Message, *, is_shared: bool) -> Message:
        """Translate a message; `is_shared` says that further requests begin with its first part."""

    @abstractmethod
    def shape(self, body: dict[str, Any], request: ModelRequest, rung: Rung | None) -> None:
        """Add to a body what the request of a judge or simulated user says of its reply."""

    @abstractmethod
    def open_answer(self, body: Mapping[str, Any]) -> Callable[[float], AbstractContextManager[Any]]:
        """Return the function that sends a body with a time limit in seconds."""

    @abstractmethod
    def read(self, body: Mapping[str, Any]) -> Turn:
        """Read an answer.

        Raises:
            KeyError, IndexError, TypeError, AttributeError, ValueError: It is none.
        """

    @abstractmethod
    def results(self, answers: Sequence[tuple[str, str, bool]]) -> list[Message]:
        """Format answers of tools as messages: the id of each call, the text, and whether it is an error."""

    @override
    def describe(self) -> dict[str, Any]:
        return {"provider": self.kind, "host": self.host, "model": self.model}

    @override
    def close(self) -> None:
        self._client.close()

    def ask(self, question: Question, *, seconds: float | None, max_bytes: int) -> Reply[Turn]:
        """Send a question once, as it is; `seconds` is None for no limit.

        Raises:
            NotEvaluable: The service would refuse every request: invalid key, unknown model.
        """
        return self._send({**self.body(question), **question.parameters}, seconds, max_bytes)

    def _send(self, body: Mapping[str, Any], seconds: float | None, max_bytes: int) -> Reply[Turn]:
        seconds = time_left(seconds)
        limit = _UNLIMITED if seconds is None else seconds
        deadline, open_answer = time.monotonic() + limit, self.open_answer(body)

        def send() -> bytes:
            received = bytearray()
            with open_answer(limit) as response:
                for piece in response.iter_bytes():
                    received += piece
                    if len(received) > max_bytes:
                        raise _AnswerTooLong
                    if time.monotonic() > deadline:
                        raise TimeoutError
            return bytes(received)

        try:
            # SDKs check time limits only between two reads, also while they read headers.
            data = send() if seconds is None else _threads.submit(send).result(seconds + _GRACE_SECONDS)
        except _AnswerTooLong:
            words = f"answered with more than {max_bytes} bytes"
            return Reply(failure=FailureKind.OUTPUT_LIMIT, problem=words)
        except self._sdk.APIStatusError as error:
            return _refusal(error)
        # Every other error is one of the connection: the SDK's own, or its HTTP library's.
        except Exception as error:
            if time.monotonic() >= deadline or "Timeout" in type(error).__name__:
                return Reply(failure=FailureKind.TIMEOUT, problem="did not answer in time")
            words = f"could not be reached: {type(error).__name__}"
            return Reply(failure=FailureKind.INFRASTRUCTURE, problem=words)
        return self._read_bytes(data)

    def _read_bytes(self, data: bytes) -> Reply[Turn]:
        try:
            answer = parse(data, source="the model's answer", limits=Limits(wide_integers=True))
        except InvalidInput as error:
            words = f"gave no JSON: {error.message}"
            return Reply(failure=FailureKind.PARSE_ERROR, problem=words, received=data)
        if not isinstance(answer, dict):
            words = "answered with something else than an object"
            return Reply(failure=FailureKind.TYPE_ERROR, problem=words, received=data)
        try:
            return Reply(self.read(answer))
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            # What its provider says in it, else what is missing.
            words = one_line(said_in(answer), 300) or f"{type(error).__name__} at {error}"
            received = json.dumps(answer, ensure_ascii=False, default=str).encode("utf-8", "replace")
            problem = f"gave no answer that can be read: {words}"[:300]
            return Reply(failure=FailureKind.TYPE_ERROR, problem=problem, received=received)

    @override
    def complete(self, request: ModelRequest) -> ModelReply:
        request = replace(request, model=request.model or self.model)
        began = time.monotonic()
        for _ in range(_MOST_CHANGES):
            with _habits_lock:
                key = (self.kind, self._address, str(request.model))
                habits = replace(_habits.setdefault(key, Habits()))
            rung = None if request.reply_schema is None else habits.rung
            body = self._body_within(request, rung, habits)
            try:
                reply = self._send(body, request.seconds or self._seconds, MAX_BYTES)
            except NotEvaluable as error:
                raise ModelFailure(
                    FailureKind.INFRASTRUCTURE,
                    error.message.removeprefix("the model "),
                    remedy=error.remedy,
                    is_final=True,
                    is_unknown_model=error.details.get("status") == 404,
                ) from None
            if reply.value is not None:
                turn = reply.value
                model = turn.facts.model or request.model
                return ModelReply(
                    turn.text or "",
                    stop_reason=turn.finish,
                    model=model,
                    usage=turn.facts.usage,
                    cost_usd=cost_of(model, turn.facts, self.prices),
                    rung=rung,
                    dropped=tuple(name for name in habits.dropped if name in request.parameters),
                    seconds=time.monotonic() - began,
                )
            if not self._learn(reply, request, body, habits):
                break
        if reply.failure in _NOT_OURS:
            raise ModelFailure(
                FailureKind.TIMEOUT if reply.failure is FailureKind.TIMEOUT else FailureKind.INFRASTRUCTURE,
                reply.problem,
                asked_wait=reply.asked_wait,
                rate_limited=reply.rate_limited,
            )
        too_long = reply.failure is FailureKind.AGENT_ERROR and _TOO_LONG.search(reply.problem) is not None
        raise ModelFailure(reply.failure or FailureKind.JUDGE_ERROR, reply.problem, is_too_long=too_long)

    def _body_within(self, request: ModelRequest, rung: Rung | None, habits: Habits) -> dict[str, Any]:
        messages = [
            self.message(message, is_shared=request.shared_prefix and not place)
            for place, message in enumerate(request.messages)
        ]
        system = request.system
        if request.reply_schema is not None and rung != "json_schema":
            schema = json.dumps(request.reply_schema, ensure_ascii=False, sort_keys=True)
            system += f"{_SCHEMA_IN_WORDS}\n{schema}"
        if not habits.system:
            system, first = "", replace(request.messages[0], parts=(system, *request.messages[0].parts))
            messages[0] = self.message(first, is_shared=False)
        body = self.body(Question(str(request.model), messages, system))
        self.shape(body, request, rung)
        body.update(request.parameters)
        for name, other in habits.renamed:
            if name in body:
                body[other] = body.pop(name)
        return {name: value for name, value in body.items() if name not in habits.dropped}

    def _learn(self, reply: Reply[Any], request: ModelRequest, body: Mapping[str, Any], used: Habits) -> bool:
        """Note what the refusal of a body is about; return whether another request may succeed."""
        takes_no_system = _NO_SYSTEM.search(reply.problem) is not None
        if not takes_no_system and (
            reply.failure is not FailureKind.AGENT_ERROR or _TOO_LONG.search(reply.problem)
        ):
            return False
        words = f"{reply.problem} {_refused_names(reply.received)}"
        with _habits_lock:
            habits = _habits[(self.kind, self._address, str(request.model))]
            if takes_no_system and used.system:
                habits.system = False
                return True
            for name, other in self.other_names.items():
                if name in body and _names(words, name):
                    habits.renamed = tuple({*habits.renamed, (name, other)})
                    return True
            for name in body:
                if name not in self.needed and _names(words, name):
                    habits.dropped += (name,)
                    return True
            if request.reply_schema is not None and used.rung != RUNGS[-1] and _SCHEMA_WORDS.search(words):
                habits.rung = RUNGS[RUNGS.index(used.rung) + 1]
                return True
        return False


def _names(words: str, name: str) -> bool:
    return re.search(rf"(?<![\w.])(?:body\.)?{re.escape(name)}(?![\w])", words) is not None


class _AnswerTooLong(Exception):
    """More bytes than allowed."""


def check_address(url: str | None) -> None:
    """Refuse a malformed address of a model, which SDKs notice only in the first request."""
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


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, without a name or password in it.

    Example:
        >>> origin_of("https://ann:secret@Models.example:8443/v1")
        'https://models.example:8443'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def _refusal(error: Any) -> Reply[Any]:
    status, details = int(error.status_code), _details(error.body)
    codes = {value for value in (details.get("code"), details.get("type")) if isinstance(value, str)}
    nothing = "a redirect, which is not followed" if 300 <= status < 400 else "no explanation"
    explanation = one_line(said_in(error.body), 300) or nothing
    words = f"answered with HTTP {status}: {explanation}"
    if status in _REFUSALS:
        raise NotEvaluable(f"the model {words}", remedy=_REFUSALS[status], status=status)
    if status in _BUSY and codes & _EXHAUSTED:
        raise NotEvaluable(f"the model {words}", remedy="Check the plan and the bill.", status=status)
    if status in _BUSY or status >= 500:
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        return Reply(
            failure=FailureKind.INFRASTRUCTURE,
            problem=words,
            asked_wait=stated_wait(headers, now=time.time()),
            rate_limited=status in _RATE_LIMITED,
        )
    received = json.dumps(error.body, default=str).encode("utf-8", "replace") if error.body else b""
    block = next(iter(sorted(codes & _BLOCKS)), None)
    return Reply(failure=FailureKind.AGENT_ERROR, problem=words, received=received, block_reason=block)


def _refused_names(received: bytes) -> str:
    """Return the parameter and the code that the body of a refusal names."""
    try:
        details = _details(json.loads(received))
    except ValueError:
        return ""
    return " ".join(value for value in (details.get("param"), details.get("code")) if isinstance(value, str))


def _details(body: Any) -> Mapping[str, Any]:
    details = body.get("error", body) if isinstance(body, dict) else {}
    return details if isinstance(details, dict) else {}
