"""AutoGen: agents and teams, which keep their conversation, so that one after the other takes place.

Streams record, also those of agents that tools run. A log of the framework has what a model answered.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from autogen_agentchat import messages
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.teams import BaseGroupChat
from autogen_core import EVENT_LOGGER_NAME, CancellationToken
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of, in_progress
from agent_eval.agents.frameworks.trajectory import CHAT_USAGE, Call, at, plain, tokens
from agent_eval.agents.recorder import as_text
from agent_eval.contracts.event import AGENT, HANDOFF, MESSAGE, REASONING

_CODE = "code_execution"


class AutoGenConversation(Conversation):
    """The agent or team itself, which forgets what was said before."""

    one_at_a_time = True

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        return {"answers": "answers of tools, for which its agents have no place"}

    @override
    def begin(self) -> None:
        self._is_first, self._recorded = True, set[str]()
        self.facts: dict[str, Any] = {}

    @override
    async def say(self, message: Any) -> Any:
        if self._is_first and isinstance(self.agent, BaseChatAgent):
            await self.agent.on_reset(CancellationToken())
        elif self._is_first:
            with suppress(RuntimeError):  # a team that never ran
                await self.agent.reset()
        self._is_first = False
        result = await self.agent.run(task=as_text(message))
        last = result.messages[-1]
        return None if last.source == "user" else plain(last.content)

    def record(self, message: Any) -> None:
        """Record a message of a stream, which may come by the stream around it as well."""
        if getattr(message, "id", None) in self._recorded or getattr(message, "source", "user") == "user":
            return
        self._recorded.add(message.id)
        trajectory, name = self.trajectory, message.source
        if isinstance(message, messages.ToolCallExecutionEvent):
            for each in message.content:
                trajectory.result(each.call_id, each.content, each.content if each.is_error else None)
        elif isinstance(message, messages.CodeGenerationEvent):
            trajectory.call(Call(_CODE, plain(message.code_blocks), message.id), agent_name=name)
        elif isinstance(message, messages.CodeExecutionEvent):
            trajectory.result(trajectory.running(_CODE, None) or _CODE, message.result.output)
        elif isinstance(message, messages.ThoughtEvent):
            trajectory.add(AGENT, REASONING, output=message.content, agent_name=name)
        elif isinstance(message, messages.HandoffMessage):
            trajectory.add(AGENT, HANDOFF, agent_name=name, output=message.target)
        elif isinstance(message, messages.ToolCallRequestEvent):
            calls = [Call(each.name, each.arguments, each.id) for each in message.content]
            trajectory.answered(*calls, agent_name=name, **self._facts_of(message))
        elif isinstance(message, messages.TextMessage):
            trajectory.answered(message.content, agent_name=name, **self._facts_of(message))
        elif isinstance(message, messages.BaseChatMessage):
            output = plain(getattr(message, "content", None))
            trajectory.add(AGENT, MESSAGE, output=output, agent_name=name, **self._facts_of(message))

    def _facts_of(self, message: Any) -> dict[str, Any]:
        facts, self.facts = self.facts, {}
        return {**facts, "usage": facts.get("usage") or tokens(message.models_usage, CHAT_USAGE)}


class _Models(logging.Handler):
    """Keeps what a model told of its answer for the message that the framework makes of it."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        response = at(record.msg, "kwargs.response")
        conversation = in_progress() if response else None
        if isinstance(conversation, AutoGenConversation):
            refusal = at(response, "choices.0.message.refusal")
            reason = at(response, "choices.0.finish_reason") or at(response, "stop_reason")
            conversation.facts = {
                "model": at(response, "model"),
                "stop_reason": "refusal" if refusal else reason,
                "usage": tokens(at(response, "usage"), CHAT_USAGE),
            }


@in_place_of(BaseChatAgent, "run_stream")
@in_place_of(BaseGroupChat, "run_stream")
async def _stream(real: Any, conversation: Any, *whose: Any, **options: Any) -> AsyncIterator[Any]:
    async for message in real(*whose, **options):
        conversation.record(message)
        yield message


@in_place_of(BaseChatAgent, "run")
async def _run(_: Any, _turn: Conversation, agent: Any, /, **options: Any) -> Any:
    return [message async for message in agent.run_stream(**options)][-1]


logging.getLogger(EVENT_LOGGER_NAME).setLevel(logging.INFO)
logging.getLogger(EVENT_LOGGER_NAME).addHandler(_Models())
