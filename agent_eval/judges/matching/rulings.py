"""The reply of a judge that is a model: its schema, and strict reading. Nothing is coerced or guessed."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agent_eval.contracts.event import STOPPED_SHORT, Finish
from agent_eval.contracts.trace import is_blank
from agent_eval.errors import InvalidInput
from agent_eval.judges.base import clipped
from agent_eval.models.base import ModelReply
from agent_eval.storage.json import Limits, parse

_FENCED = re.compile(r"\A```[a-zA-Z]*[ \t]*\r?\n(.*)\r?\n```\Z", re.DOTALL)

RULING_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "evidence": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"turn": {"type": "integer"}, "quote": {"type": "string"}},
                "required": ["turn", "quote"],
                "additionalProperties": False,
            },
        },
        "verdict": {"type": "string", "enum": ["passed", "failed", "inconclusive"]},
    },
    "required": ["reasoning", "evidence", "verdict"],
    "additionalProperties": False,
}
"""Schema of a ruling, with every property required, as strict modes of providers want it."""


class Quote(BaseModel):
    """A passage on which a ruling rests."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    turn: int = Field(ge=0)
    quote: str


class Ruling(BaseModel):
    """What a judge replies on one criterion, in the order in which it is written."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    reasoning: str
    evidence: list[Quote] = Field(max_length=100)
    verdict: Literal["passed", "failed", "inconclusive"]

    @field_validator("reasoning")
    @classmethod
    def _says_something(cls, text: str) -> str:
        if is_blank(text):
            raise ValueError("it is empty")
        return text


class NoRuling(Exception):
    """A reply is no ruling.

    Attributes:
        problem: Why, in words that follow "the reply".
        can_be_repaired: Whether another request may lead to one; not for a refusal, or an empty or cut reply.
    """

    def __init__(self, problem: str, *, can_be_repaired: bool = True) -> None:
        super().__init__(problem)
        self.problem, self.can_be_repaired = problem, can_be_repaired


def read_ruling(reply: ModelReply) -> Ruling:
    """Read a reply whose whole text is one object, or one object in one code fence.

    Raises:
        NoRuling: It is anything else.

    Example:
        >>> reply = ModelReply('{"reasoning": "It refunds.", "evidence": [], "verdict": "passed"}')
        >>> read_ruling(reply).verdict
        'passed'
    """
    if reply.finish is not Finish.ENDED:
        words = STOPPED_SHORT.get(reply.finish, (None, f"it ended for {reply.stop_reason!r}"))[1]
        raise NoRuling(f"is none: {words}", can_be_repaired=False)
    text = reply.text.strip()
    if is_blank(text):
        raise NoRuling("is empty", can_be_repaired=False)
    fenced = _FENCED.match(text)
    try:
        # A code fence within the text, too, would leave something that is not JSON.
        value = parse(
            (fenced[1] if fenced else text).encode(), source="it", limits=Limits(wide_integers=True)
        )
    except (InvalidInput, UnicodeEncodeError) as error:
        words = error.message if isinstance(error, InvalidInput) else "it has half a character"
        raise NoRuling(f"is not one JSON object: {clipped(words, 160)}") from None
    if not isinstance(value, dict):
        raise NoRuling("is not a JSON object")
    return _checked(value)


def _checked(value: dict[str, Any]) -> Ruling:
    try:
        return Ruling.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise NoRuling(f"is no ruling: {place}: {clipped(first['msg'], 120)}") from None
