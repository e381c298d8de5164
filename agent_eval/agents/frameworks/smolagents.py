"""smolagents: agents that call tools. Each trial gets a copy, with a memory of its own, and runs in a thread.

Models and tools record, of every agent that runs in a turn: an agent's memory has no result of a step whose
other call failed.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import Callable
from typing import Any

from smolagents import MultiStepAgent, Tool, ToolCallingAgent
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of, in_progress
from agent_eval.agents.frameworks.trajectory import Call, at, tokens
from agent_eval.agents.recorder import as_text

_ANSWER_TOOL = "final_answer"

_USAGE = "input_tokens output_tokens"


class SmolagentsConversation(Conversation):
    """A copy of the agent."""

    leaves_threads = True

    @override
    def begin(self) -> None:
        self.agent, self._is_first = _copy_of(self.agent), True

    @override
    async def say(self, message: Any) -> Any:
        reset, self._is_first = self._is_first, False
        try:
            result = await asyncio.to_thread(
                self.agent.run, as_text(message), reset=reset, return_full_result=True
            )
        except asyncio.CancelledError:
            self.agent.interrupt()
            raise
        if result.state != "success":
            raise RuntimeError(f"it made an answer up after {self.agent.max_steps} steps: {result.output}")
        return result.output

    def call(self, name: str, arguments: Any, run: Callable[[], Any]) -> Any:
        """Record a call, which a model may have written as text, and its result; or let the case answer."""
        call_id = self.trajectory.running(name, arguments)
        if name == _ANSWER_TOOL:
            if call_id is not None:
                self.trajectory.is_the_answer(call_id)
            return run()
        if call_id is None:
            call_id = uuid.uuid4().hex
            self.trajectory.call(Call(name, arguments, call_id))
        if self.tools is not None:
            return self.answer_here(name, arguments, call_id)
        try:
            output = run()
        except Exception as error:
            self.trajectory.result(call_id, error=error)
            raise
        self.trajectory.result(call_id, output)
        return output


def _copy_of(agent: Any) -> Any:
    fresh = copy.copy(agent)
    fresh.memory, fresh.state = copy.deepcopy(agent.memory), dict(agent.state)
    fresh.monitor, fresh.stream_outputs = type(agent.monitor)(agent.model, agent.logger), False
    fresh.step_callbacks = copy.copy(agent.step_callbacks)
    fresh.managed_agents = {name: _copy_of(each) for name, each in agent.managed_agents.items()}
    return fresh


@in_place_of(ToolCallingAgent, "execute_tool_call")
def _execute(real: Any, conversation: Any, agent: Any, tool_name: str, arguments: Any) -> Any:
    """Record the refusal of an unknown tool, or of arguments that do not fit."""
    try:
        return real(agent, tool_name, arguments)
    except Exception as error:
        if (call_id := conversation.trajectory.running(tool_name, arguments)) is not None:
            conversation.trajectory.result(call_id, error=error)
        raise


@in_place_of(Tool, "__call__")
def _call(real: Any, conversation: Any, tool: Any, /, *arguments: Any, **options: Any) -> Any:
    named = {name: value for name, value in options.items() if name != "sanitize_inputs_outputs"}
    inputs = {**dict(zip(tool.inputs, arguments, strict=False)), **named}
    return conversation.call(tool.name, inputs, lambda: real(tool, *arguments, **options))


@in_place_of(MultiStepAgent, "__call__")
def _delegate(real: Any, conversation: Any, agent: Any, /, task: str, **named: Any) -> Any:
    return conversation.call(agent.name, {"task": task, **named}, lambda: real(agent, task, **named))


@in_place_of(MultiStepAgent, "run")
def _run(real: Any, _: Conversation, agent: Any, /, *arguments: Any, **options: Any) -> Any:
    """Give the agent's model a method that records."""
    model = agent.model
    if "generate" not in vars(model):
        generate = model.generate

        def recorded(*messages: Any, **named: Any) -> Any:
            message = generate(*messages, **named)
            if (conversation := in_progress()) is not None:
                calls = message.tool_calls or []
                conversation.trajectory.answered(
                    message.content if isinstance(message.content, str) else None,
                    *(Call(each.function.name, each.function.arguments, each.id) for each in calls),
                    model=at(message.raw, "model") or at(model, "model_id"),
                    stop_reason=at(message.raw, "choices.0.finish_reason"),
                    usage=tokens(message.token_usage, _USAGE),
                )
            return message

        model.generate = recorded
    return real(agent, *arguments, **options)
