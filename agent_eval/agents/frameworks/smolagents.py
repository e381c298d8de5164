"""smolagents: agents that call tools. Each trial gets a copy, with a memory of its own, and runs in a thread.

Models and tools record, of every agent that runs in a turn: an agent's memory has no result of a step whose
other call failed.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from typing import Any

from smolagents import MultiStepAgent, Tool, ToolCallingAgent
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import CaseTools, Conversation, as_text, in_progress
from agent_eval.agents.frameworks.trajectory import Call, read_json, tokens

_ANSWER_TOOL = "final_answer"


class SmolagentsConversation(Conversation):
    """A copy of the agent."""

    leaves_threads = True

    def __init__(self, agent: Any, tools: CaseTools | None) -> None:
        super().__init__(_copy_of(agent), tools)
        self._is_first = True

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


def _copy_of(agent: Any) -> Any:
    fresh = copy.copy(agent)
    fresh.memory, fresh.state = copy.deepcopy(agent.memory), dict(agent.state)
    fresh.monitor, fresh.stream_outputs = type(agent.monitor)(agent.model, agent.logger), False
    fresh.step_callbacks = copy.copy(agent.step_callbacks)
    fresh.managed_agents = {name: _copy_of(each) for name, each in agent.managed_agents.items()}
    return fresh


def _record(message: Any, model: Any) -> None:
    conversation, usage = in_progress(), message.token_usage
    if conversation is None:
        return
    choice = next(iter(getattr(message.raw, "choices", None) or []), None)
    calls = [
        Call(each.function.name, read_json(each.function.arguments), each.id)
        for each in message.tool_calls or []
    ]
    conversation.trajectory.answered(
        message.content if isinstance(message.content, str) else None,
        calls,
        model=getattr(message.raw, "model", None) or getattr(model, "model_id", None),
        stop_reason=getattr(choice, "finish_reason", None),
        usage=usage and tokens(usage.input_tokens, usage.output_tokens),
    )


def _called(name: str, arguments: Any, run: Any) -> Any:
    """Record a call, which a model may have written as text, and its result; or let the case answer."""
    conversation = in_progress()
    if conversation is None:
        return run()
    trajectory = conversation.trajectory
    call_id = trajectory.running(name, arguments)
    if name == _ANSWER_TOOL:
        if call_id is not None:
            trajectory.is_the_answer(call_id)
        return run()
    if call_id is None:
        call_id = uuid.uuid4().hex
        trajectory.call(Call(name, arguments, call_id))
    if conversation.tools is not None:
        answer = conversation.tools.answer(name, arguments)
        trajectory.result(call_id, answer.output, answer.error, answer.source)
        return answer.for_the_model
    try:
        output = run()
    except Exception as error:
        trajectory.result(call_id, error=error)
        raise
    trajectory.result(call_id, output)
    return output


_real_call, _real_delegation, _real_run = Tool.__call__, MultiStepAgent.__call__, MultiStepAgent.run
_real_execution = ToolCallingAgent.execute_tool_call


def _execute(agent: Any, tool_name: str, arguments: Any) -> Any:
    """`ToolCallingAgent.execute_tool_call`, which refuses unknown tools and arguments that do not fit."""
    try:
        return _real_execution(agent, tool_name, arguments)
    except Exception as error:
        conversation = in_progress()
        if conversation is not None:
            call_id = conversation.trajectory.running(tool_name, arguments)
            if call_id is not None:
                conversation.trajectory.result(call_id, error=error)
        raise


def _call_tool(tool: Any, *arguments: Any, sanitize_inputs_outputs: bool = False, **named: Any) -> Any:
    def run() -> Any:
        return _real_call(tool, *arguments, sanitize_inputs_outputs=sanitize_inputs_outputs, **named)

    return _called(tool.name, {**dict(zip(tool.inputs, arguments, strict=False)), **named}, run)


def _delegate(agent: Any, task: str, **named: Any) -> Any:
    return _called(agent.name, {"task": task, **named}, lambda: _real_delegation(agent, task, **named))


def _run(agent: Any, *arguments: Any, **options: Any) -> Any:
    """`MultiStepAgent.run`, by which every way to run an agent goes, with a model that records."""
    model = agent.model
    if "generate" not in vars(model):
        real = model.generate

        def generate(*messages: Any, **named: Any) -> Any:
            message = real(*messages, **named)
            _record(message, model)
            return message

        model.generate = generate
    return _real_run(agent, *arguments, **options)


Tool.__call__, MultiStepAgent.__call__, MultiStepAgent.run = _call_tool, _delegate, _run
ToolCallingAgent.execute_tool_call = _execute
CONVERSATION = SmolagentsConversation
