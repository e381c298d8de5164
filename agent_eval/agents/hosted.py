"""Agents that are hosted models: ask one, answer its tool calls, and ask again until it answers without."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Opening, Surroundings, Task, ToolFault
from agent_eval.agents.recorder import FINAL_OUTPUT, LimitReached, Recorder, as_text, cut_short
from agent_eval.agents.tools import declared_tools
from agent_eval.contracts.event import Finish, finish_of
from agent_eval.errors import FailureKind, UsageError
from agent_eval.models.catalog import MODELS
from agent_eval.models.hosted import HostedModel, Message, Question, Turn
from agent_eval.models.retries import Reply, timed_out
from agent_eval.models.usage import NO_FACTS

NOT_JSON = "the arguments are not JSON"


class HostedAgent(Agent):
    """A hosted model, asked with the case's tools until it has answered. `agent_of` makes one a provider.

    Args:
        model: The model's name; None uses each case's `metadata.model`.
        base_url: The endpoint, such as `http://localhost:11434/v1`; the provider's own by default.
        api_key: Key of each request, never recorded. Endpoints without keys need none.
        parameters: Further fields of each request, such as `temperature`.
    """

    provider: ClassVar[str]
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
        server = MODELS[self.provider].load()
        assert issubclass(server, HostedModel)
        self._server = server(model, base_url=base_url, api_key=api_key)
        self.account = self._server.account
        self._model, self._base_url, self._system = model, base_url, system
        self._parameters = {**server.agent_defaults, **(parameters or {})}

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> Agent:
        return cls(
            rest or None,
            base_url=options.base_url,
            api_key=options.environ.get(MODELS[cls.provider].key_variable or ""),
            system=options.system,
            parameters=options.parameters,
        )

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any], options: AgentOptions) -> Opening:
        return f"{cls.provider}:{described['model'] or ''}", replace(
            options,
            base_url=options.base_url or described["base_url"],
            system=options.system or described["system"],
            parameters={**dict(described["parameters"]), **options.parameters},
        )

    @override
    def describe(self) -> dict[str, Any]:
        return {
            "agent": self.provider,
            "base_url": self._base_url,
            "model": self._model,
            "parameters": self._parameters,
            "system": self._system,
        }

    @override
    def close(self) -> None:
        self._server.close()

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        """Ask the model until it answers without calling tools, or the attempt reaches a limit."""
        about = task.case.conversation
        question = Question(
            self._model or _model_in_metadata(task),
            opening_messages(task),
            (about.system_prompt if about is not None else None) or self._system or "",
            declared_tools(task.case),
            self._parameters,
        )
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        try:
            while True:
                recorder.begin_step()
                reply, seconds = self._ask(question, task, recorder)
                if reply.value is None:
                    if reply.received:
                        recorder.artifacts["answer.txt"] = reply.received
                    return recorder.result(
                        None, reply.failure, reply.problem, block_reason=reply.block_reason
                    )
                turn = reply.value
                call_ids = _record(recorder, turn, seconds)
                recorder.count_step(turn.facts.tokens)
                if (problem := _no_answer(turn)) is not None:
                    return recorder.result(turn.text, *problem)
                messages = [*question.messages, turn.message]
                if not turn.calls:
                    return replace(recorder.result(turn.text), conversation=messages)
                results, is_over = [], False
                for call, call_id in zip(turn.calls, call_ids, strict=True):
                    refusal = None if call.is_readable else NOT_JSON
                    answer = recorder.call_tool(call.tool, call.arguments, call_id, refusal=refusal)
                    is_over |= answer.source == FINAL_OUTPUT
                    is_error = answer.error is not None
                    value = {"error": answer.error} if is_error else answer.output
                    results.append((call.call_id, as_text(value), is_error))
                if is_over:
                    return recorder.result()
                question = replace(question, messages=[*messages, *self._server.results(results)])
        except (LimitReached, ToolFault) as ended:
            return recorder.result(None, ended.failure, ended.problem)

    def _ask(self, question: Question, task: Task, recorder: Recorder) -> tuple[Reply[Turn], float]:
        limits = task.limits
        remaining = None if limits.seconds is None else max(0.001, limits.seconds - recorder.seconds)
        reply, seconds = recorder.ask(
            lambda: self._server.ask(question, seconds=remaining, max_bytes=limits.output_bytes)
        )
        if reply.failure is FailureKind.TIMEOUT:
            reply = Reply(failure=reply.failure, problem=timed_out(limits.seconds))
        return reply, seconds


def agent_of(provider: str) -> type[HostedAgent]:
    """Return the class of the agents that are models of a provider."""
    return type(f"{provider.title()}Agent", (HostedAgent,), {"provider": provider})


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


def _no_answer(turn: Turn) -> tuple[FailureKind, str] | None:
    """Say why a turn is none that can be judged: a kind of failure, and words; None if it is one."""
    if finish_of(turn.finish) is Finish.PAUSED:  # for tools of the provider, which has none here
        return FailureKind.AGENT_ERROR, f"stopped for an unknown reason: {turn.finish}"
    if (problem := cut_short(turn.finish)) is not None or turn.text is not None or turn.calls:
        return problem
    reason = f" (it stopped for: {turn.finish})" if turn.finish else ""
    return FailureKind.MISSING_OUTPUT, f"answered with neither text nor tool calls{reason}"


def _record(recorder: Recorder, turn: Turn, seconds: float | None) -> list[str]:
    """Record a turn's events; return the ids of its calls in the evidence.

    Only the first event has time and tokens, so that they count once.
    """
    facts = turn.facts
    if turn.text is not None or not turn.calls:
        recorder.record_message(turn.text, seconds=seconds, facts=facts)
        facts, seconds = NO_FACTS, None
    ids = []
    for call in turn.calls:
        wanted = call.call_id
        ids.append(recorder.record_call(call.tool, call.arguments, wanted, seconds=seconds, facts=facts))
        facts, seconds = NO_FACTS, None
    return ids


def opening_messages(task: Task) -> list[Message]:
    """Build the conversation before the model's first answer.

    An input that is a list of messages, or an object with such `messages`, is used as it is; other JSON
    becomes text. A repair appends each earlier answer with the judges' reasons for refusing it. In a further
    turn of a conversation, the input follows everything that was said before, calls of tools included.
    """
    content = task.case.input
    listed = content["messages"] if isinstance(content, dict) and "messages" in content else content
    messages: list[Message] = [{"role": "user", "content": as_text(listed)}]
    if isinstance(listed, list) and all(
        isinstance(item, dict) and isinstance(item.get("role"), str) and "content" in item for item in listed
    ):
        messages = [dict(item) for item in listed] or messages
    if task.session is not None and task.session.conversation:
        return [*task.session.conversation, *messages]
    for attempt in task.previous_attempts:
        messages += feedback_on(attempt)
    return messages


def feedback_on(attempt: Mapping[str, Any]) -> list[Message]:
    """Return an earlier answer, and the judges' reasons for refusing it, as messages before a repair."""
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
