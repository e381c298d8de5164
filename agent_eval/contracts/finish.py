"""Why a model stopped, by the words of its provider: at its end, cut off, refused, or paused to go on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from agent_eval.errors import FailureKind


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


FINISH_NAMES = (
    *("gen_ai.response.finish_reason", "gen_ai.response.finish_reasons"),
    *("finish_reason", "stop_reason"),
)
"""Attributes of a recorded event that hold the provider's word."""

_WORDS = {
    Finish.ENDED: (
        *("", "stop", "stop_sequence", "end_turn", "tool_calls", "tool_use", "function_call"),
        *("eos", "eos_token", "end", "complete", "completed"),
    ),
    Finish.CUT: (
        *("length", "max_tokens", "max_output_tokens", "max_completion_tokens", "token_limit"),
        *("model_length", "model_context_window_exceeded"),
    ),
    Finish.REFUSED: (
        *("content_filter", "content_filtered", "refusal", "safety", "recitation", "blocklist"),
        *("prohibited_content", "spii", "guardrail_intervened", "sensitive"),
    ),
    Finish.PAUSED: ("pause_turn",),
}
_FINISHES = {word: finish for finish, words in _WORDS.items() for word in words}


def finish_of(reason: object) -> Finish:
    """Read why a model stopped.

    Args:
        reason: The provider's word, in any spelling; None where it gives none.

    Example:
        >>> finish_of("MAX_TOKENS"), finish_of("content-filter"), finish_of(["stop"])
        (<Finish.CUT: 'cut'>, <Finish.REFUSED: 'refused'>, <Finish.UNKNOWN: 'unknown'>)
    """
    if reason is None:
        return Finish.ENDED
    if not isinstance(reason, str):
        return Finish.UNKNOWN
    return _FINISHES.get(reason.strip().casefold().replace("-", "_"), Finish.UNKNOWN)


def recorded_finish(attributes: Mapping[str, Any]) -> tuple[Finish, str] | None:
    """Return how an answer stopped short by the attributes of its event, with the provider's word.

    An event of several answers, as OpenTelemetry has them in a list, is cut or refused if one of them is.
    """
    for name in FINISH_NAMES:
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
