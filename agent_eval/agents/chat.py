"""The conversation with a model: ask, answer its tool calls, and ask again until it has answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_eval.agents.base import AttemptResult, Sent, Surroundings, Task, ToolAnswer, ToolFault
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.agents.tools import declared_tools
from agent_eval.errors import FailureKind, UsageError

NOT_JSON = "the arguments are not JSON"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call of a model. `arguments` is the text it wrote when `is_readable` is false."""

    call_id: str
    tool: str
    arguments: Any
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of a model.

    Attributes:
        text: What it said; None when it only called tools.
        calls: The tools it wants called.
        message: The answer as the provider wants it back in the conversation.
        attributes: Model, tokens and the like, by the names of OpenTelemetry.
        finish: Why it stopped, in the provider's word.
    """

    text: str | None
    calls: Sequence[ModelCall]
    message: Message
    attributes: Mapping[str, Any] = field(default_factory=dict)
    finish: str = ""

    @property
    def tokens(self) -> int | None:
        """Input and output tokens; None when the provider does not say."""
        names = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
        counts = [self.attributes[name] for name in names if name in self.attributes]
        return sum(counts) if counts else None


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked in one request.

    Attributes:
        model: Its name.
        messages: The conversation so far.
        tools: From `declared_tools`.
        seconds: What is left of the attempt's time; None is without limit.
        max_bytes: What the answer may be long.
    """

    model: str
    messages: list[Message]
    tools: list[dict[str, Any]]
    seconds: float | None
    max_bytes: int


class ChatModel(Protocol):
    """One provider's way of being asked."""

    def ask(self, question: Question) -> Sent[Turn]:
        """Send one request, once."""
        ...

    def results(self, answers: Sequence[tuple[ModelCall, ToolAnswer]]) -> list[Message]:
        """What tools gave, as messages."""
        ...


def converse(model: ChatModel, name: str | None, task: Task, surroundings: Surroundings) -> AttemptResult:
    """Ask a model until it answers without calling tools, or a limit is reached.

    Args:
        model: How to ask it.
        name: Which one; None takes the case's `metadata.model`.
        task: The attempt.
        surroundings: Clocks, tools and retries.

    Raises:
        UsageError: Nobody says which model.
        InvalidInput: The case's tools or messages cannot be offered to a model.
    """
    name = name or _model_of(task)
    recorder = Recorder(task, surroundings)
    recorder.asked()
    messages = opening(task)
    tools = declared_tools(task.case)
    try:
        while True:
            recorder.begin_step()
            sent, seconds = _ask(model, name, task, surroundings, recorder, (messages, tools))
            if sent.value is None:
                return recorder.result(None, sent.failure, sent.problem)
            turn = sent.value
            _record(recorder, turn, seconds)
            recorder.count_step(turn.tokens)
            if not turn.calls:
                return _ended(recorder, turn)
            messages += [turn.message, *model.results(_call_tools(recorder, turn))]
    except (LimitReached, ToolFault) as problem:
        return recorder.result(None, problem.failure, problem.problem)


def _model_of(task: Task) -> str:
    named = task.case.metadata.get("model")
    if not isinstance(named, str) or not named:
        raise UsageError(
            f"nothing says which model to ask for case {task.case.case_id!r}",
            remedy="Name it on the command line, or in the case's metadata.model.",
            case_id=task.case.case_id,
            field="metadata.model",
        )
    return named


def _ask(
    model: ChatModel,
    name: str,
    task: Task,
    surroundings: Surroundings,
    recorder: Recorder,
    conversation: tuple[list[Message], list[dict[str, Any]]],
) -> tuple[Sent[Turn], float]:
    """One answer, with the seconds that it took; only the last request counts, waiting does not."""
    limits, clocks = task.limits, surroundings.clocks
    left = None if limits.seconds is None else max(0.001, limits.seconds - recorder.seconds)
    question = Question(name, *conversation, seconds=left, max_bytes=limits.output_bytes)
    took = 0.0

    def send() -> Sent[Turn]:
        nonlocal took
        began = clocks.monotonic()
        sent = model.ask(question)
        took = clocks.monotonic() - began
        return sent

    sent, retries = surroundings.retry(send)
    recorder.retries += retries
    recorder.seconds += took
    if sent.failure is FailureKind.TIMEOUT:
        return Sent(failure=sent.failure, problem=f"did not end within {limits.seconds:g} s"), took
    return sent, took


def _record(recorder: Recorder, turn: Turn, seconds: float) -> None:
    """A turn's events. Time and tokens stand with the first of them, so that they are counted once."""
    attributes: Mapping[str, Any] | None = turn.attributes
    latency: float | None = seconds
    if turn.text is not None or not turn.calls:
        recorder.said(turn.text, seconds=latency, attributes=attributes)
        attributes = latency = None
    for call in turn.calls:
        recorder.called(call.tool, call.arguments, call.call_id, seconds=latency, attributes=attributes)
        attributes = latency = None


def _call_tools(recorder: Recorder, turn: Turn) -> list[tuple[ModelCall, ToolAnswer]]:
    answers = []
    for call in turn.calls:
        if call.is_readable:
            answers.append((call, recorder.answered(call.tool, call.arguments, call.call_id)))
        else:
            answers.append((call, recorder.refused(call.tool, call.call_id, NOT_JSON)))
    return answers


def _ended(recorder: Recorder, turn: Turn) -> AttemptResult:
    if turn.text is None:
        why = f" (it stopped for: {turn.finish})" if turn.finish else ""
        return recorder.result(
            None, FailureKind.MISSING_OUTPUT, f"answered with neither text nor tool calls{why}"
        )
    return recorder.result(turn.text)


def opening(task: Task) -> list[Message]:
    """The conversation before the model's first answer.

    An input that is a list of messages, or an object with such `messages`, is taken as it is; other JSON is
    given as text. A repair adds each earlier answer and what judges said of it.
    """
    given = task.case.input
    if isinstance(given, dict) and "messages" in given:
        given = given["messages"]
    if isinstance(given, list) and given and all(_is_message(item) for item in given):
        messages = [dict(item) for item in given]
    else:
        messages = [{"role": "user", "content": given if isinstance(given, str) else _text(given)}]
    for earlier in task.previous_attempts:
        messages += _feedback(earlier)
    return messages


def _is_message(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("role"), str) and "content" in item


def _feedback(earlier: Mapping[str, Any]) -> list[Message]:
    response = earlier.get("response")
    said = response.get("assistant_output") if isinstance(response, Mapping) else None
    verdicts = earlier.get("verdicts")
    reasons = [
        str(verdict.get("reason"))
        for verdict in (verdicts if isinstance(verdicts, list) else [])
        if isinstance(verdict, Mapping) and not verdict.get("passed") and verdict.get("outcome") != "skipped"
    ]
    if isinstance(response, Mapping) and response.get("error"):
        reasons.append(str(response["error"]))
    text = "That answer was not accepted. Try again from the beginning."
    if reasons:
        text += " Reasons:\n" + "\n".join(f"- {reason}" for reason in reasons)
    answer = said if isinstance(said, str) else json.dumps(said)
    return [
        {"role": "assistant", "content": answer if said else "(no answer)"},
        {"role": "user", "content": text},
    ]


def tool_text(answer: ToolAnswer) -> str:
    """A tool's answer as a model reads it."""
    value = {"error": answer.error} if answer.error is not None else answer.output
    return value if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    """JSON as a model reads it: the same text for a suite and for the pack that was made of it."""
    return json.dumps(value, sort_keys=True)
