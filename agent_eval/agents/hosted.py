"""Agents that are hosted models: ask one, answer its tool calls, and ask again until it answers without."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar, Self

from typing_extensions import override

from agent_eval.agents.base import (
    Agent,
    AgentOptions,
    AttemptResult,
    Surroundings,
    Task,
    ToolAnswer,
    ToolFault,
)
from agent_eval.agents.recorder import FINAL_OUTPUT, LimitReached, Recorder
from agent_eval.agents.tools import declared_tools
from agent_eval.contracts.event import STOPPED_SHORT, Finish, finish_of
from agent_eval.errors import FailureKind, UsageError
from agent_eval.models.reply import Reply, account_name
from agent_eval.models.sdk import check_address
from agent_eval.models.usage import NO_FACTS, AnswerFacts

MOST_PAUSES = 20
"""Maximum number of pauses in a row; a model that only pauses would never end."""

NOT_JSON = "the arguments are not JSON"

Message = dict[str, Any]
_NO_KEY = "none"


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
        finish: Why the model stopped, in the provider's word.
    """

    text: str | None
    calls: Sequence[ModelCall]
    message: Message
    facts: AnswerFacts = NO_FACTS
    finish: str = ""

    @property
    def stopped_short(self) -> tuple[FailureKind, str] | None:
        """Why the answer is none that can be judged: a kind of failure, and words; None if it is one."""
        finish = finish_of(self.finish)
        if finish is Finish.UNKNOWN:
            return FailureKind.AGENT_ERROR, f"stopped for an unknown reason: {self.finish[:100]}"
        if finish not in STOPPED_SHORT:
            return None
        failure, words = STOPPED_SHORT[finish]
        return failure, f"{words.removeprefix('the ')} (it stopped for: {self.finish[:100]})"

    @property
    def is_paused(self) -> bool:
        """Whether the provider expects the conversation again, to go on with this answer."""
        return not self.calls and finish_of(self.finish) is Finish.PAUSED


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a model.

    Attributes:
        tools: The tools the model may call, from `declared_tools`.
        seconds: The attempt's remaining time; None means no limit.
        system: System prompt of the case, in place of the agent's own.
    """

    model: str
    messages: list[Message]
    tools: list[dict[str, Any]]
    seconds: float | None
    max_bytes: int
    system: str | None = None


class HostedModel(Agent):
    """A model behind a provider's SDK, asked with the case's tools until it has answered.

    A subclass names its provider and builds the client; its `ask` and `results` translate to and from the
    provider's messages.

    Args:
        model: The model's name; None uses each case's `metadata.model`.
        base_url: The endpoint, such as `http://localhost:11434/v1`; the provider's own by default.
        api_key: Key of each request, never recorded. Endpoints without keys need none.
        parameters: Further fields of each request, such as `temperature`.
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

    @abstractmethod
    def ask(self, question: Question) -> Reply[Turn]:
        """Send one request, without retries."""

    @abstractmethod
    def results(self, answers: Sequence[tuple[ModelCall, ToolAnswer]]) -> list[Message]:
        """Format the answers of tools as messages to the model."""

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


def converse(model: HostedModel, name: str | None, task: Task, surroundings: Surroundings) -> AttemptResult:
    """Ask a model until it answers without calling tools, or the attempt reaches a limit.

    `name` is the model's; None uses the case's `metadata.model`.
    """
    name = name or _model_in_metadata(task)
    recorder = Recorder(task, surroundings)
    recorder.record_input()
    messages = opening_messages(task)
    tools = declared_tools(task.case)
    paused: list[str] = []
    try:
        while True:
            recorder.begin_step()
            reply, seconds = _ask(model, name, task, surroundings, recorder, (messages, tools))
            if reply.value is None:
                if reply.received:
                    recorder.artifacts["answer.txt"] = reply.received
                return recorder.result(None, reply.failure, reply.problem, block_reason=reply.block_reason)
            turn = _continued(reply.value, paused)
            call_ids = _record(recorder, turn, seconds)
            recorder.count_step(turn.facts.tokens)
            if turn.stopped_short is not None:
                return recorder.result(turn.text, *turn.stopped_short)
            if turn.is_paused:
                paused.append(turn.text or "")
                if len(paused) > MOST_PAUSES:
                    raise LimitReached(FailureKind.BUDGET_EXCEEDED, f"paused more than {MOST_PAUSES} times")
                messages.append(turn.message)
                continue
            if not turn.calls:
                if turn.text is None:
                    reason = f" (it stopped for: {turn.finish})" if turn.finish else ""
                    problem = f"answered with neither text nor tool calls{reason}"
                    result = recorder.result(None, FailureKind.MISSING_OUTPUT, problem)
                else:
                    result = recorder.result(turn.text)
                return replace(result, conversation=[*messages, turn.message])
            paused.clear()
            answers = _call_tools(recorder, turn, call_ids)
            if any(answer.source == FINAL_OUTPUT for _, answer in answers):
                return recorder.result()
            messages += [turn.message, *model.results(answers)]
    except (LimitReached, ToolFault) as ended:
        return recorder.result(None, ended.failure, ended.problem)


def _continued(turn: Turn, paused: Sequence[str]) -> Turn:
    """Put the text of the pauses before that of the turn that ends them: together they are the answer."""
    if not paused or turn.calls or turn.is_paused:
        return turn
    return replace(turn, text="".join([*paused, turn.text or ""]) or None)


def _model_in_metadata(task: Task) -> str:
    model = task.case.metadata.get("model")
    if not isinstance(model, str) or not model:
        raise UsageError(
            f"no model is named for case {task.case.case_id!r}",
            remedy="Name it on the command line, or in the case's metadata.model.",
            case_id=task.case.case_id,
            field="metadata.model",
        )
    return model


def _ask(
    model: HostedModel,
    name: str,
    task: Task,
    surroundings: Surroundings,
    recorder: Recorder,
    conversation: tuple[list[Message], list[dict[str, Any]]],
) -> tuple[Reply[Turn], float]:
    """Return one answer, with the seconds that its last request took; waiting for retries does not count."""
    limits, clocks = task.limits, surroundings.clocks
    remaining = None if limits.seconds is None else max(0.001, limits.seconds - recorder.seconds)
    about = task.case.conversation
    question = Question(
        name,
        *conversation,
        seconds=remaining,
        max_bytes=limits.output_bytes,
        system=about.system_prompt if about is not None else None,
    )
    seconds = 0.0

    def send() -> Reply[Turn]:
        nonlocal seconds
        began = clocks.monotonic()
        reply = model.ask(question)
        seconds = clocks.monotonic() - began
        return reply

    reply, retries = surroundings.retry(send)
    recorder.retries += retries
    recorder.seconds += seconds
    if reply.failure is FailureKind.TIMEOUT:
        return Reply(failure=reply.failure, problem=f"did not end within {limits.seconds:g} s"), seconds
    return reply, seconds


def _record(recorder: Recorder, turn: Turn, seconds: float | None) -> list[str]:
    """Record a turn's events; return the ids of its calls in the evidence.

    Only the first event has time and tokens, so that they count once.
    """
    facts, latency = turn.facts, seconds
    if turn.text is not None or not turn.calls:
        recorder.record_message(turn.text, seconds=latency, facts=facts)
        facts, latency = NO_FACTS, None
    ids = []
    for call in turn.calls:
        wanted = call.call_id
        ids.append(recorder.record_call(call.tool, call.arguments, wanted, seconds=latency, facts=facts))
        facts, latency = NO_FACTS, None
    return ids


def _call_tools(
    recorder: Recorder, turn: Turn, call_ids: Sequence[str]
) -> list[tuple[ModelCall, ToolAnswer]]:
    answers = []
    for call, call_id in zip(turn.calls, call_ids, strict=True):
        if call.is_readable:
            answers.append((call, recorder.call_tool(call.tool, call.arguments, call_id)))
        else:
            answers.append((call, recorder.record_refusal(call.tool, call_id, NOT_JSON)))
    return answers


def opening_messages(task: Task) -> list[Message]:
    """Build the conversation before the model's first answer.

    An input that is a list of messages, or an object with such `messages`, is used as it is; other JSON
    becomes text. A repair appends each earlier answer with the judges' reasons for refusing it. In a further
    turn of a conversation, the input follows everything that was said before, calls of tools included.
    """
    messages = _messages_of(task.case.input)
    if task.session is not None and task.session.conversation:
        return [*task.session.conversation, *messages]
    for attempt in task.previous_attempts:
        messages += _feedback(attempt)
    return messages


def _messages_of(content: Any) -> list[Message]:
    if isinstance(content, dict) and "messages" in content:
        content = content["messages"]
    if isinstance(content, list) and content:
        of_messages = [isinstance(item, dict) and isinstance(item.get("role"), str) for item in content]
        if all(of_messages) and all("content" in item for item in content):
            return [dict(item) for item in content]
    return [{"role": "user", "content": content if isinstance(content, str) else _json_text(content)}]


def _feedback(attempt: Mapping[str, Any]) -> list[Message]:
    response = attempt.get("response")
    output = response.get("assistant_output") if isinstance(response, Mapping) else None
    verdicts = attempt.get("verdicts")
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
    answer = output if isinstance(output, str) else json.dumps(output)
    return [
        {"role": "assistant", "content": answer if output else "(no answer)"},
        {"role": "user", "content": text},
    ]


def tool_text(answer: ToolAnswer) -> str:
    """Format a tool's answer as the text that a model reads."""
    value = {"error": answer.error} if answer.error is not None else answer.output
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    # Sorted, so that the model reads the same text from a suite and from the pack made of it.
    return json.dumps(value, sort_keys=True)
