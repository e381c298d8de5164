"""An event: one step of a trace, with its type, its actor and its content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

from pydantic import (
    AliasChoices,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
)
from typing_extensions import override

from agent_eval.contracts.base import Contract, SparseContract, valid_or_unknown
from agent_eval.errors import FailureKind

AGENT, USER, TOOL, SYSTEM, ENVIRONMENT = "agent", "user", "tool", "system", "environment"

AGENT_ACTORS = frozenset({AGENT, "assistant"})
"""Actors that are the agent under test; both words are in use."""

_ROLES = {
    **dict.fromkeys((AGENT, "assistant", "ai", "bot", "model"), AGENT),
    **dict.fromkeys((USER, "human", "customer"), USER),
    **dict.fromkeys((TOOL, "tools", "function", "api", "mcp", "database", "retriever", "search"), TOOL),
    **dict.fromkeys((SYSTEM, "developer"), SYSTEM),
    **dict.fromkeys((ENVIRONMENT, "env", "simulator", "judge", "evaluator"), ENVIRONMENT),
}
"""Words for actors, in any case, by what they mean."""

MESSAGE = "message"
TOOL_CALL = "tool_call"
TOOL_RESULT = "tool_result"
REASONING = "reasoning"
MODEL_CALL = "model_call"
HANDOFF = "handoff"
GUARDRAIL = "guardrail"
STATE = "state"
ERROR = "error"
UNREAD = "unread"

UNREAD_WHAT = "agent_eval.unread"
"""Attribute of an `unread` event: `tool call`, `tool result` or `answer`."""

EVENT_TYPES: Mapping[str, str] = {
    MESSAGE: "What an actor says: its text in `output`, a user's in `input`. Only messages are output.",
    TOOL_CALL: "A call of `tool` with the arguments in `input`; `call_id` ties its result to it.",
    TOOL_RESULT: "The answer of `tool` in `output`, or its failure in `error`.",
    REASONING: "What the model thought, in `output`. Never the answer.",
    MODEL_CALL: "A request to a model: `model`, `usage`, `cost_usd`, `stop_reason`. Never the answer.",
    HANDOFF: "`agent_name` hands over to the agent that `output` names.",
    GUARDRAIL: "A check of an input or output; its result is in `output`, and `block_reason` if it blocked.",
    STATE: "What the agent keeps in mind from here on, in `output`: parameters, memory, a plan.",
    ERROR: "Something broke, outside of a tool: `error` says what.",
    UNREAD: "Something of the recording that the trace lacks: `output` says what, and no judge of it passes.",
}
"""Types with a fixed meaning, in words. An agent's event of another type counts as a message."""

_KEPT_FROM_OUTPUT = EVENT_TYPES.keys() - {MESSAGE}

ADDED = (
    *("agent_name", "turn", "model", "usage", "cost_usd", "stop_reason", "block_reason"),
    *("content_recorded", "parts", "ran_on"),
)
"""Fields of an event since 1.2."""

_ROLE_BY_TYPE = {
    **dict.fromkeys((MESSAGE, TOOL_CALL, REASONING, MODEL_CALL, HANDOFF), AGENT),
    TOOL_RESULT: TOOL,
}
"""What an actor with a name of its own is, by the type of its event."""

# A bool is an int to Python; a trace that says `"idx": true` is broken, not event number one.
_Number = StrictInt | StrictFloat


class TokenUsage(SparseContract, frozen=True):
    """Tokens that a model used. What is not known is left out, never 0."""

    input_tokens: _Number | None = Field(
        default=None, ge=0, validation_alias=AliasChoices("input_tokens", "prompt_tokens")
    )
    """Everything that the model read, cached or not."""
    output_tokens: _Number | None = Field(
        default=None, ge=0, validation_alias=AliasChoices("output_tokens", "completion_tokens")
    )
    """Everything that the model wrote, reasoning included."""
    cached_tokens: _Number | None = Field(default=None, ge=0)
    """The part of the input that came from the provider's cache."""
    cache_write_tokens: _Number | None = Field(default=None, ge=0)
    """The part of the input that was written to the provider's cache."""
    reasoning_tokens: _Number | None = Field(default=None, ge=0)
    """The part of the output that is reasoning."""


class ContentPart(SparseContract, frozen=True):
    """One part of a message: a text, or an image, audio or other file by digest, type and size."""

    type: Literal["text", "image", "audio", "file"]
    text: StrictStr | None = None
    """The text of a `text` part."""
    media_type: StrictStr | None = None
    """What the bytes are, such as `image/png`."""
    sha256: StrictStr | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """Digest of the bytes."""
    size: StrictInt | None = Field(default=None, ge=0)
    """Number of bytes."""
    name: StrictStr | None = None
    """Name of the file, as the sender called it."""
    url: StrictStr | None = None
    """Where the bytes are, if they were sent as an address."""
    data: StrictStr | None = None
    """The bytes in base64. Recorders write them only when they are asked to."""


class Event(Contract):
    """One step of a trace.

    Units: `ts` is ISO 8601, null when unknown; `latency_ms` is milliseconds, `cost_usd` US dollars. `type` is
    an open vocabulary; `message`, `tool_call`, `tool_result`, `reasoning`, `model_call`, `handoff`,
    `guardrail`, `state` and `error` mean the same everywhere. A tool call carries its arguments in `input`,
    its result carries them in `output`; `call_id` ties the two together.
    """

    idx: StrictInt
    ts: StrictStr | None = None
    actor: StrictStr
    """Who acts: `agent`, `user`, `tool`, `system` or `environment`. Another word is the name of an agent."""
    type: StrictStr
    input: Any = None
    output: Any = None
    tool: StrictStr | None = None
    call_id: StrictStr | None = None
    error: Any = None
    latency_ms: _Number | None = None
    trace_id: StrictStr | None = None
    span_id: StrictStr | None = None
    parent_span_id: StrictStr | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    attempt: StrictInt | None = None
    agent_name: StrictStr | None = None
    """Which agent acts, where there are several."""
    turn: StrictInt | None = Field(default=None, ge=0)
    """Number of the user's turn, from 1; 0 before the first. Without it the user's messages are counted."""
    model: StrictStr | None = None
    """The model that answered."""
    usage: TokenUsage | None = None
    """Tokens of the model's answer that this event is of. Each answer is recorded on one event only."""
    cost_usd: _Number | None = None
    """What that answer cost."""
    stop_reason: StrictStr | None = None
    """Why the model stopped, in its provider's word: `stop`, `tool_calls`, `length`, `refusal`, ..."""
    block_reason: StrictStr | None = None
    """What kept the answer back: `content_filter`, `moderation`, the name of a guardrail."""
    content_recorded: StrictBool | None = None
    """false: there was content, and the recording leaves it out. Null says that what there was is here."""
    parts: list[ContentPart] | None = None
    """What a text alone cannot hold. Text parts count where `output` (a user's `input`) is null."""
    ran_on: StrictStr | None = None
    """Where a tool ran: `client`, `server` (at the model's provider), or `mcp:NAME` for an MCP server."""

    _may_be_the_authors_own = field_validator(*ADDED, mode="wrap")(valid_or_unknown)

    @override
    def to_json(self) -> dict[str, Any]:
        """Return plain data that JSON can hold, without fields of 1.2 that have nothing to say."""
        fields = super().to_json()
        return {name: value for name, value in fields.items() if value is not None or name not in ADDED}

    @property
    def is_agent(self) -> bool:
        """Whether the agent under test produced this event."""
        return self.actor in AGENT_ACTORS or self.role == AGENT

    @property
    def role(self) -> str:
        """What the actor is: `agent`, `user`, `tool`, `system` or `environment`.

        An actor with another name, such as `weather_agent`, is an agent if it does what agents do: it says
        something, or calls a tool.
        """
        return _role_of(self.actor) or _ROLE_BY_TYPE.get(self.type, ENVIRONMENT)

    @property
    def agent(self) -> str | None:
        """Name of the agent that acts; None for other actors, and for an agent without a name."""
        if self.agent_name is not None or not self.is_agent:
            return self.agent_name
        return None if self.actor.casefold() in _ROLES else self.actor

    @property
    def content(self) -> Any:
        """The event's output; the input of a message without one, because user messages have theirs there.

        Without either it is what its parts hold: their text, or all of them where one is no text.
        """
        value = self.input if self.output is None and self.type == MESSAGE else self.output
        if value is not None or self.parts is None:
            return value
        if all(part.type == "text" for part in self.parts):
            return "".join(part.text or "" for part in self.parts) if self.parts else None
        return [part.to_json() for part in self.parts]

    @property
    def is_act(self) -> bool:
        """Whether the agent did something here: it called a tool, or wrote something that can be seen."""
        if self.type == TOOL_CALL:
            return True
        if self.type == HANDOFF:
            return self.is_agent
        return self.is_message and (not is_blank(self.content) or self.content_recorded is False)

    @property
    def is_message(self) -> bool:
        """Whether the agent says something here, or would have: only such events are output."""
        return self.type not in _KEPT_FROM_OUTPUT and self.is_agent

    @property
    def is_answer(self) -> bool:
        """Whether this is a message of the agent with its content, or with the reason why it has none."""
        if self.type in _KEPT_FROM_OUTPUT:
            return False
        has_answer = self.content is not None or self.content_recorded is False or self.stop is not None
        return has_answer and self.is_agent

    @property
    def stop(self) -> tuple[Finish, str] | None:
        """How the model's answer was cut off, refused or blocked, with the reason; None if it was not."""
        if self.block_reason is not None:
            return Finish.BLOCKED, self.block_reason
        finish = finish_of(self.stop_reason)
        if finish in STOPPED_SHORT:
            return finish, str(self.stop_reason)
        return recorded_finish(self.attributes) if self.attributes else None


@lru_cache(maxsize=1024)
def _role_of(actor: str) -> str | None:
    """Return what an actor is, by its name; None if the name says nothing of it.

    A name of several words is that of an agent if it ends so; else what one of its words says.
    """
    role = _ROLES.get(actor.casefold())
    if role is not None:
        return role
    words = [word.casefold() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", actor)]
    roles = [_ROLES[word] for word in words if word in _ROLES]
    return AGENT if roles[-1:] == [AGENT] else next(iter(roles), None)


def is_blank(value: Any) -> bool:
    """Tell whether a value is null, or a text in which nothing can be seen."""
    if isinstance(value, str):
        return not any(char.isprintable() and not char.isspace() for char in value)
    return value is None


class Finish(StrEnum):
    """How an answer of a model ended. Only `ENDED` is an answer that can be judged."""

    ENDED = "ended"
    """By itself, by a stop sequence, or to have tools called. Also where the provider does not say."""
    CUT = "cut"
    """At the limit of its tokens, so that its end is missing."""
    REFUSED = "refused"
    """By the model's refusal, or a filter of the provider."""
    BLOCKED = "blocked"
    """By a guardrail or a moderation, which kept the question or the answer back."""
    PAUSED = "paused"
    """In the middle: the provider expects the conversation to be sent again, and goes on."""
    UNKNOWN = "unknown"
    """For a reason that this program does not know."""


_FINISH_NAMES = (
    "gen_ai.response.finish_reason",
    "gen_ai.response.finish_reasons",
    "finish_reason",
    "stop_reason",
)
"""Attributes of a recorded event that hold the provider's word."""

_WORDS = {
    Finish.ENDED: "stop stop_sequence end_turn tool_calls tool_use function_call eos eos_token end complete "
    "completed",
    Finish.CUT: "length max_tokens max_output_tokens max_completion_tokens token_limit model_length "
    "model_context_window_exceeded",
    Finish.REFUSED: "content_filter content_filtered refusal safety recitation blocklist prohibited_content "
    "spii guardrail_intervened sensitive",
    Finish.PAUSED: "pause_turn",
}
_FINISHES = {"": Finish.ENDED, **{word: finish for finish, words in _WORDS.items() for word in words.split()}}


def finish_of(reason: object) -> Finish:
    """Read why a model stopped from its provider's word, in any spelling; None where there is none."""
    if reason is None:
        return Finish.ENDED
    if not isinstance(reason, str):
        return Finish.UNKNOWN
    return _FINISHES.get(reason.strip().casefold().replace("-", "_"), Finish.UNKNOWN)


def recorded_finish(attributes: Mapping[str, Any]) -> tuple[Finish, str] | None:
    """Return how an answer stopped short by the attributes of its event, with the provider's word.

    An event of several answers, as OpenTelemetry has them in a list, is cut or refused if one of them is.
    """
    for name in _FINISH_NAMES:
        value = attributes.get(name)
        for reason in value if isinstance(value, list) else (value,):
            finish = finish_of(reason)
            if finish in STOPPED_SHORT:
                return finish, str(reason)
    return None


STOPPED_SHORT = {
    Finish.CUT: (FailureKind.OUTPUT_LIMIT, "the answer was cut off"),
    Finish.REFUSED: (FailureKind.AGENT_ERROR, "the answer was refused"),
    Finish.BLOCKED: (FailureKind.AGENT_ERROR, "the answer was blocked"),
}
"""Kind of failure, and words, of answers that are never a pass."""
