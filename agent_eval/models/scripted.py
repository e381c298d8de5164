"""The `scripted` model: replies from a file, without network, the same in every run.

A script is a JSON file with rows that are tried in order; the first that fits answers:

    {"kind": "model_script", "schema_version": "1.2.0", "replies": [
      {"purpose": "simulate", "test": "refund", "turn": 2, "text": "Yes, please."},
      {"purpose": "judge", "criterion": "polite", "contains": "Sorry",
       "object": {"reasoning": "…", "evidence": [], "verdict": "passed"}},
      {"test": "busy", "answers": [{"fault": "429"}, {"text": "Here I am."}]}]}

A row fits where each of `purpose`, `test`, `loop`, `turn`, `criterion` and `vote` that it names is that of
the request, and where the messages have the text `contains` and not the text `lacks`. A row answers with a
`text`, an `object` (as JSON text) or a `fault`: `empty`, `cut`, `refusal` are replies; `429`, `down`,
`timeout` and `invalid-key` are failures. `answers` has one for each request of the same place in turn, the
last of which answers all further ones.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import override

from agent_eval.contracts import TokenUsage
from agent_eval.errors import FailureKind, InvalidInput, UsageError
from agent_eval.models.base import Model, ModelFailure, ModelOptions, ModelReply, ModelRequest, Purpose
from agent_eval.storage.json import read_json

KIND = "model_script"
NAME = "scripted"
"""Name of the model in every report, so that no scripted verdict passes for that of a model."""

Fault = Literal["empty", "cut", "refusal", "429", "down", "timeout", "invalid-key"]

_PLACES = ("test", "loop", "turn", "criterion", "vote")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ScriptedAnswer(_Strict):
    """What one request is answered with: exactly one of `text`, `object` and `fault`."""

    text: str | None = None
    object: dict[str, Any] | None = None
    fault: Fault | None = None
    stop_reason: str | None = None
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _has_one_answer(self) -> ScriptedAnswer:
        has_text = self.text is not None and self.fault != "cut"  # a cut reply has the text up to the cut
        if has_text + (self.object is not None) + (self.fault is not None) != 1:
            raise ValueError("it needs exactly one of text, object and fault")
        return self


class ScriptRow(_Strict):
    """One row of a script: which requests it fits, and what they are answered with."""

    purpose: Purpose | None = None
    test: str | None = None
    loop: int | None = None
    turn: int | None = None
    criterion: str | None = None
    vote: int | None = None
    contains: str | None = Field(default=None, min_length=1)
    lacks: str | None = Field(default=None, min_length=1)
    answers: list[ScriptedAnswer] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _one_answer_without_list(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "answers" in value:
            return value
        fields = ScriptedAnswer.model_fields
        answer = {name: field for name, field in value.items() if name in fields}
        return {**{name: field for name, field in value.items() if name not in fields}, "answers": [answer]}

    def fits(self, request: ModelRequest, visible_text: str) -> bool:
        """Tell whether the row answers a request whose messages have the text `visible_text`."""
        if self.purpose not in (None, request.purpose):
            return False
        if any(getattr(self, name) not in (None, request.place.get(name)) for name in _PLACES):
            return False
        return (self.contains is None or self.contains in visible_text) and (
            self.lacks is None or self.lacks not in visible_text
        )


class ScriptedModel(Model):
    """A model that replies from a script. Every report names it `scripted`."""

    kind = NAME
    default_model = NAME

    def __init__(self, rows: Sequence[Mapping[str, Any]], *, source: str = "the script") -> None:
        self.model = NAME
        self._rows: list[ScriptRow] = []
        for number, row in enumerate(rows):
            try:
                self._rows.append(ScriptRow.model_validate(row))
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False, include_input=False)[0]
                place = ".".join([f"replies[{number}]", *map(str, first["loc"])])
                raise InvalidInput(
                    f"{source}: {place}: {first['msg'][:200]}",
                    remedy="Write the row as the guide to LLM judges shows.",
                    field=place,
                ) from None
        self._source = source
        self._answered: Counter[tuple[Any, ...]] = Counter()
        self._lock = threading.Lock()

    @classmethod
    @override
    def from_options(cls, options: ModelOptions) -> ScriptedModel:
        """Read the script that the options name."""
        path = options.script
        if path is None:
            raise UsageError(
                "the scripted model has no script", remedy="Name its file with --set judge_model.script=FILE."
            )
        value = read_json(path)
        rows = value.get("replies") if isinstance(value, Mapping) and value.get("kind") == KIND else None
        if not isinstance(rows, list):
            raise InvalidInput(
                f'{path} is no script: it is not an object with "kind": "{KIND}" and a list of replies',
                remedy="Write it as the guide to LLM judges shows.",
                file=str(path),
                field="kind",
            )
        return cls(rows, source=str(path))

    @override
    def complete(self, request: ModelRequest) -> ModelReply:
        visible_text = "\n".join(message.text for message in request.messages)
        for number, row in enumerate(self._rows):
            if row.fits(request, visible_text):
                # Counting by place makes threads agree on which answer is whose.
                key = (number, request.purpose, *(request.place.get(name) for name in _PLACES))
                with self._lock:
                    turn = self._answered[key]
                    self._answered[key] += 1
                return _reply(row.answers[min(turn, len(row.answers) - 1)])
        place = ", ".join(f"{name} {value!r}" for name, value in request.place.items()) or "no place"
        raise ModelFailure(
            FailureKind.CONTRACT_VIOLATION,
            f"has no reply in {self._source} for {request.purpose} at {place}",
            remedy="Add a row to the script; one without conditions answers everything else.",
        )


_FAILURES: dict[str, tuple[FailureKind, str]] = {
    "429": (FailureKind.INFRASTRUCTURE, "answered with HTTP 429: too many requests"),
    "down": (FailureKind.INFRASTRUCTURE, "could not be reached: ConnectError"),
    "timeout": (FailureKind.TIMEOUT, "did not answer in time"),
    "invalid-key": (FailureKind.INFRASTRUCTURE, "answered with HTTP 401: invalid key"),
}
_STOP_REASONS = {"empty": "stop", "cut": "length", "refusal": "refusal"}


def _reply(answer: ScriptedAnswer) -> ModelReply:
    if answer.fault in _FAILURES:
        failure, problem = _FAILURES[answer.fault]
        raise ModelFailure(
            failure, problem, rate_limited=answer.fault == "429", is_final=answer.fault == "invalid-key"
        )
    text = answer.text or ("I cannot help with that." if answer.fault == "refusal" else "")
    if answer.object is not None:
        text = json.dumps(answer.object, ensure_ascii=False)
    counts = answer.model_dump(include={"input_tokens", "output_tokens"}, exclude_none=True)
    return ModelReply(
        text,
        stop_reason=answer.stop_reason or _STOP_REASONS.get(answer.fault or "", "stop"),
        model=NAME,
        usage=TokenUsage(**counts) if counts else None,
        cost_usd=answer.cost_usd or 0.0,
    )
