"""The interface of models that judge or simulate: what a model is asked, and what it replies.

A model raises `ModelFailure` where it gave no reply at all. An empty, cut or refused reply is a reply, whose
`finish` says so: the caller decides what that means for it.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from agent_eval.contracts import TokenUsage
from agent_eval.contracts.event import Finish, finish_of
from agent_eval.errors import FailureKind, UsageError
from agent_eval.models.usage import Prices

Purpose = Literal["judge", "simulate"]
"""What a request is for. Cassettes and reports keep the calls of each purpose apart."""

Rung = Literal["json_schema", "json_object", "plain"]
"""How a reply of the wanted shape was asked for: by schema, as any JSON object, or in words only."""

RUNGS: tuple[Rung, ...] = ("json_schema", "json_object", "plain")
"""Best first: a server that refuses one is asked with the next."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, by its role as the model sees it.

    Providers can cache the first part of the first message (`ModelRequest.shared_prefix`).
    """

    role: Literal["user", "assistant"]
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n\n".join(self.parts)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        reply_schema: JSON Schema of the object that the reply should be; None for text.
        model: The model's name; None for the one that the options name.
        parameters: Sampling parameters that the user asked for, such as `temperature`.
        key_fields: Named facts that tell this request from others, for the key of the cassette: the digest
            of the prompt, the criterion, the vote. A miss names the one that differs.
        place: Where the request comes from (`test`, `loop`, `turn`, `criterion`, `vote`, `attempt`), for
            scripts and messages. It is never sent, and is no part of a key.
        shared_prefix: Whether further requests begin with the same system prompt and first part.
        seconds: Time limit of one attempt; None for the limit of the options.
    """

    purpose: Purpose
    system: str
    messages: tuple[Message, ...]
    reply_schema: Mapping[str, Any] | None = None
    schema_name: str = "reply"
    max_tokens: int = 4096
    model: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    key_fields: Mapping[str, str | int] = field(default_factory=dict)
    place: Mapping[str, str | int] = field(default_factory=dict)
    shared_prefix: bool = False
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The reply of a model.

    Attributes:
        stop_reason: Why the model stopped, in its provider's word; None if unknown.
        cost_usd: The cost in US dollars, reported or by published prices; None if unknown.
        rung: How the shape of the reply was asked for; None for text.
        dropped: Parameters that the server refused, and that were not sent therefore.
        retries: How often the request was sent again.
        seconds: How long the request took, without waits between retries.
        source: `model`, or where the reply was kept: `cassette`, or `baseline` for its sealed evidence.
    """

    text: str
    stop_reason: str | None = None
    model: str | None = None
    usage: TokenUsage | None = None
    cost_usd: float | None = None
    rung: Rung | None = None
    dropped: tuple[str, ...] = ()
    retries: int = 0
    seconds: float = 0.0
    source: Literal["model", "cassette", "baseline"] = "model"

    @property
    def finish(self) -> Finish:
        """How the reply ended; only `ENDED` is a whole one."""
        return finish_of(self.stop_reason)


_THOUGHT = re.compile(r"\A.*?</think(?:ing)?>|\A\s*<think(?:ing)?>.*\Z", re.DOTALL | re.IGNORECASE)
"""What a model thinks before it replies; all of the reply where the thinking does not end."""
_MOST_BRACES = 100
"""Places at which an object is looked for in a reply."""


def without_thoughts(reply: str) -> str:
    """Return what a model says after its thoughts, which some servers leave in the reply.

    Example:
        >>> without_thoughts("<think>They greet me.</think>Hello!")
        'Hello!'
    """
    return _THOUGHT.sub("", reply, count=1).strip()


def object_text(reply: str) -> str:
    """Return the text of the one JSON object in a reply, with a code fence or words around it.

    Where there is none, or there are several, it is the reply without thoughts.
    """
    if _object_ends(reply.strip(), 0) == len(reply.strip()):
        return reply.strip()
    text, place = without_thoughts(reply), -1
    objects: list[str] = []
    for _ in range(_MOST_BRACES):
        if (place := text.find("{", place + 1)) < 0:
            return objects[0] if len(objects) == 1 else text
        if end := _object_ends(text, place):
            objects.append(text[place:end])
            place = end - 1
    return text


def _object_ends(text: str, place: int) -> int:
    """Return the end of the JSON object that begins at a place; 0 where none does."""
    try:
        return json.JSONDecoder().raw_decode(text, place)[1] if text.startswith("{", place) else 0
    except (ValueError, RecursionError):
        return 0


@dataclass(eq=False)
class ModelFailure(Exception):
    """A model gave no reply.

    Attributes:
        problem: What happened, in words that follow "the model".
        remedy: What to do next; empty if unknown.
        is_too_long: Whether the request has more text than the model reads.
        is_final: Whether every further request would fail alike: an invalid key, an unknown model.
        is_unknown_model: Whether the provider says that there is no such model.
    """

    failure: FailureKind
    problem: str
    _: KW_ONLY
    remedy: str = ""
    asked_wait: float | None = None
    rate_limited: bool = False
    is_too_long: bool = False
    is_final: bool = False
    is_unknown_model: bool = False
    retries: int = 0

    def __str__(self) -> str:
        return self.problem


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model is asked, and how. They come from the command line and the environment, never from a suite.

    `environ` is for variables that a provider's own program needs. `seconds` limits one attempt at a request.
    `prices` are the user's own.
    """

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    script: Path | None = None
    seconds: float = 120.0
    prices: Prices = field(default_factory=dict)


class Model(ABC):
    """A model that judges or simulates. One object serves many threads.

    Attributes:
        model: The model that is asked where a request names none.
        account: Names the account whose limits its requests count against, without its key; None for none.
    """

    kind: ClassVar[str]
    default_model: ClassVar[str] = ""
    model: str
    account: str | None = None

    @classmethod
    def from_options(cls, options: ModelOptions) -> Model:  # noqa: ARG003 - for those in the catalog
        """Build the model that the command line names."""
        raise UsageError(f"{cls.__name__} has no name", remedy="Build it in Python.")

    @abstractmethod
    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask the model; without a reply it raises `ModelFailure`."""

    def key_of(self, request: ModelRequest) -> str:  # noqa: ARG002 - for models that keep replies
        """Return the key under which a reply to a request would be kept; empty where none is kept."""
        return ""

    def keep(self, request: ModelRequest, reply: ModelReply) -> None:  # noqa: B027 - most models keep nothing
        """Keep a reply that the caller could use, so that the same request is answered by it later.

        Call it with the request that was asked first, also where the usable reply is that to a repair.
        """

    def alone(self, request: ModelRequest) -> AbstractContextManager[None]:  # noqa: ARG002 - as `key_of`
        """Let one thread at a time ask the same, so that the others find its reply kept."""
        return nullcontext()

    def describe(self) -> dict[str, Any]:
        """Return what the evidence records of the model, without secrets."""
        return {"provider": self.kind, "model": self.model}

    def close(self) -> None:  # noqa: B027 - some models have nothing to close
        """Close connections, once every request is done."""
