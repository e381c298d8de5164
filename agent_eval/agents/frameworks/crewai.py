"""CrewAI: a crew, or an agent alone; a copy of it for each trial.

The events of the process record, also of agents that tools or others run: their handlers run one after the
other, each in the context of what it tells of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from crewai.crew import Crew
from crewai.events import (
    LLMCallCompletedEvent,
    LLMGuardrailCompletedEvent,
    ToolUsageErrorEvent,
    ToolUsageFinishedEvent,
    ToolUsageStartedEvent,
    crewai_event_bus,
)
from crewai.tools.base_tool import Tool
from crewai.utilities.string_utils import sanitize_tool_name
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_progress
from agent_eval.agents.frameworks.trajectory import Call, at, plain, read_json, tokens
from agent_eval.agents.recorder import as_text
from agent_eval.contracts.event import AGENT, GUARDRAIL
from agent_eval.errors import UsageError

_USAGE = "prompt_tokens completion_tokens cached_prompt_tokens reasoning_tokens"


class CrewAIConversation(Conversation):
    """A copy of the crew or agent. An agent alone is sent the messages before; a crew has no conversation."""

    @override
    def begin(self) -> None:
        self.agent = self.agent.copy()
        self._places = sorted(self.agent.fetch_inputs()) if isinstance(self.agent, Crew) else []
        self._messages: list[Any] = []
        if self.tools is not None:
            for member in [*self.agent.agents, *self.agent.tasks] if self._places else [self.agent]:
                member.tools = [self._answered_by_the_case(tool) for tool in member.tools or []]

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        is_crew = isinstance(agent, Crew)
        if is_crew and not agent.fetch_inputs():
            raise UsageError(
                "the crew has no place for a case's input",
                remedy="Write {input} into the description of its first task; there goes what the user says.",
            )
        agents, unable = agent.agents if is_crew else [agent], {}
        if any(getattr(each, "mcps", None) or getattr(each, "apps", None) for each in agents):
            unable["answers"] = "answers of tools, which cannot take the place of MCP servers and apps"
        if is_crew:
            unable["turns"] = "turns, and a crew has no conversation; an agent alone has"
        return unable

    @override
    async def say(self, message: Any) -> Any:
        try:
            if self._places:
                if not isinstance(message, dict):
                    if len(self._places) > 1:
                        raise TypeError(f"the crew needs an object as input, with {', '.join(self._places)}")
                    message = {self._places[0]: as_text(message)}
                result = await self.agent.akickoff(inputs=message)
            else:
                self._messages += self.messages(message)
                result = await self.agent.kickoff_async(self._messages)
                self._messages.append({"role": "assistant", "content": result.raw})
        finally:
            await asyncio.to_thread(crewai_event_bus.flush)
        return result.pydantic or getattr(result, "json_dict", None) or result.raw

    def _answered_by_the_case(self, tool: Any) -> Tool[Any, Any]:
        name = sanitize_tool_name(tool.name)

        def answer(**arguments: Any) -> Any:
            crewai_event_bus.flush()  # the call is recorded now
            return self.answer_here(name, arguments, self.trajectory.running(name, arguments) or name)

        return Tool(name=tool.name, description=tool.description, args_schema=tool.args_schema, func=answer)

    def record(self, event: Any) -> None:
        """Record an event of this turn."""
        if isinstance(event, LLMCallCompletedEvent):
            calls = [plain(each) for each in event.response] if isinstance(event.response, list) else []
            text = None if calls or event.response is None else as_text(plain(event.response))
            functions = [(each["id"], each.get("function") or each) for each in calls]
            self.trajectory.answered(
                text,
                *(Call(each["name"], each.get("arguments"), call_id) for call_id, each in functions),
                agent_name=event.agent_role,
                model=event.model,
                stop_reason=event.finish_reason,
                usage=tokens(event.usage, _USAGE),
            )
        elif isinstance(event, LLMGuardrailCompletedEvent):
            if not event.success:
                reason = event.guardrail_name or "guardrail"
                self.trajectory.add(AGENT, GUARDRAIL, output=event.error, block_reason=reason)
        else:
            arguments = read_json(event.tool_args)
            call_id = self.trajectory.running(event.tool_name, arguments)
            if isinstance(event, ToolUsageStartedEvent):
                if call_id is None:  # of a model that writes its calls as text
                    call = Call(event.tool_name, arguments, event.event_id)
                    self.trajectory.call(call, agent_name=event.agent_role)
            elif isinstance(event, ToolUsageErrorEvent):
                self.trajectory.result(call_id or event.event_id, error=event.error)
            elif self.tools is None:  # which has recorded its answer
                output, failure = read_json(event.output), at(event, "failure.message")
                self.trajectory.result(call_id or event.event_id, output, failure)


async def _record(_: Any, event: Any) -> None:
    """Record an event in the turn that it is of. It waits for nothing, so that events stay in their order."""
    conversation = in_progress()
    if isinstance(conversation, CrewAIConversation):
        conversation.record(event)


for kind in (LLMCallCompletedEvent, LLMGuardrailCompletedEvent, ToolUsageStartedEvent):
    crewai_event_bus.on(kind)(_record)
for kind in (ToolUsageFinishedEvent, ToolUsageErrorEvent):
    crewai_event_bus.on(kind)(_record)
