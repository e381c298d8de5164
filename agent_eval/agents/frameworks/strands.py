"""Strands: a copy of the agent for each trial. Hooks record, which each agent gets when it runs in a turn."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from strands import Agent
from strands.agent.state import AgentState
from strands.handlers.callback_handler import PrintingCallbackHandler, null_callback_handler
from strands.hooks import AfterModelCallEvent, AfterToolCallEvent, BeforeToolCallEvent
from strands.tools import PythonAgentTool
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of, in_progress
from agent_eval.agents.frameworks.trajectory import Call, Thought, at, plain, read_json, tokens
from agent_eval.agents.recorder import as_text
from agent_eval.errors import UsageError

_OF_A_RUN = ("tool_registry", "event_loop_metrics", "_cancel_signal", "_concurrency")
_OF_A_MODEL = ("_interrupt_state", "_model_state")
"""Attributes of an agent that runs at the same time cannot share."""

_USAGE = "inputTokens outputTokens cacheReadInputTokens"


class StrandsConversation(Conversation):
    """A copy of the agent."""

    @override
    def begin(self) -> None:
        self.agent = _copy_of(self.agent)

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        if getattr(agent, "_session_manager", None) is not None:
            raise UsageError(
                "the agent has a session manager, by which cases would go on with each other's conversation",
                remedy="Name an agent without one, or a function that makes such an agent.",
            )
        return {}

    @override
    async def say(self, message: Any) -> Any:
        result = await self.agent.invoke_async(message if isinstance(message, list) else as_text(message))
        self.must_not_wait(result.interrupts)
        return result.structured_output


def _copy_of(agent: Any) -> Any:
    tools = list(agent.tool_registry.registry.values())
    blank = Agent(model=agent.model, tools=[_fresh(tool) for tool in tools], callback_handler=None)
    fresh = copy.copy(agent)
    for name in (*_OF_A_RUN, *_OF_A_MODEL):
        setattr(fresh, name, getattr(blank, name))
    fresh.messages, fresh.state = copy.deepcopy(agent.messages), AgentState(agent.state.get())
    if isinstance(agent.callback_handler, PrintingCallbackHandler):
        fresh.callback_handler = null_callback_handler
    return fresh


def _fresh(tool: Any) -> Any:
    """An agent that is a tool keeps a conversation, too, and refuses to be called by two at once."""
    if not isinstance(inner := getattr(tool, "agent", None), Agent):
        return tool
    spec = tool.tool_spec
    return _copy_of(inner).as_tool(name=spec["name"], description=spec["description"])


def _answered(event: AfterModelCallEvent) -> None:
    if (conversation := in_progress()) is None or event.stop_response is None:
        return
    message, parts = event.stop_response.message, list[Any]()
    for block in message["content"]:
        if use := at(block, "toolUse"):
            parts.append(Call(use["name"], use["input"], use["toolUseId"]))
        else:
            parts += [Thought(at(block, "reasoningContent.reasoningText.text")), at(block, "text")]
    conversation.trajectory.answered(
        *parts,
        agent_name=event.agent.name,
        model=event.agent.model.get_config().get("model_id"),
        stop_reason=event.stop_response.stop_reason,
        usage=tokens(at(message, "metadata.usage"), _USAGE),
    )


async def _begins(event: BeforeToolCallEvent) -> None:
    """Put the case's answer in place of a tool, also where an agent that is a tool would run."""
    conversation, use = in_progress(), event.tool_use
    if conversation is None or conversation.tools is None or _gives_the_answer(event):
        return
    answer = await conversation.answer_of_the_case(use["name"], use["input"], use["toolUseId"])
    content = [{"text": as_text(plain(answer))}]
    result = {"toolUseId": use["toolUseId"], "status": "success", "content": content}
    spec = {"name": use["name"], "description": "", "inputSchema": {"json": {"type": "object"}}}
    event.selected_tool = PythonAgentTool(use["name"], spec, lambda *_, **__: result)


def _ended(event: AfterToolCallEvent) -> None:
    conversation, call_id = in_progress(), event.tool_use["toolUseId"]
    if conversation is None:
        return
    if _gives_the_answer(event):
        conversation.trajectory.is_the_answer(call_id)
    elif conversation.trajectory.lacks_result(call_id):
        content = [each.get("json", each.get("text", each)) for each in event.result["content"]]
        output = read_json(content[0]) if len(content) == 1 else content
        error = event.exception or (output if event.result["status"] == "error" else None)
        conversation.trajectory.result(call_id, output, error)


def _gives_the_answer(event: Any) -> bool:
    return type(event.selected_tool).__name__ == "StructuredOutputTool"


_WATCHED: WeakSet[Any] = WeakSet()


@in_place_of(Agent, "stream_async")
def _stream(real: Any, _: Conversation, agent: Any, /, *arguments: Any, **options: Any) -> Any:
    if agent.hooks not in _WATCHED:
        _WATCHED.add(agent.hooks)
        agent.hooks.add_callback(AfterModelCallEvent, _answered)
        agent.hooks.add_callback(BeforeToolCallEvent, _begins)
        agent.hooks.add_callback(AfterToolCallEvent, _ended)
    return real(agent, *arguments, **options)
