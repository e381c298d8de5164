"""LlamaIndex: agents and workflows of agents. What they write to streams is recorded, also inside a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, ToolCallResult
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of
from agent_eval.agents.frameworks.trajectory import CHAT_USAGE, Call, at, plain, tokens
from agent_eval.agents.recorder import as_text
from agent_eval.contracts.event import AGENT, HANDOFF

_MOST_TOKENS = 100_000


class LlamaIndexConversation(Conversation):
    """A memory of its own."""

    @override
    def begin(self) -> None:
        self._memory = ChatMemoryBuffer.from_defaults(token_limit=_MOST_TOKENS)

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        return {"answers": "answers of tools, for which its agents have no place"}

    @override
    async def say(self, message: Any) -> Any:
        handler = self.agent.run(user_msg=as_text(message), memory=self._memory)
        try:
            result = await handler
        except asyncio.CancelledError:
            await handler.cancel_run()
            raise
        if result.structured_response is not None:
            return result.structured_response
        if getattr(self.agent, "output_cls", None) is not None:
            raise ValueError(f"its answer is no {self.agent.output_cls.__name__}: {result.response.content}")
        return result.response.content

    def record(self, event: Any) -> None:
        """Record an event of this turn."""
        if isinstance(event, AgentOutput):
            raw = plain(event.raw)
            refusal = at(raw, "choices.0.message.refusal") or at(raw, "choices.0.delta.refusal")
            self.trajectory.answered(
                event.response.content or refusal,
                *(Call(each.tool_name, each.tool_kwargs, each.tool_id) for each in event.tool_calls),
                agent_name=event.current_agent_name,
                model=at(raw, "model"),
                stop_reason="refusal" if refusal else at(raw, "choices.0.finish_reason"),
                usage=tokens(at(raw, "usage"), CHAT_USAGE),
            )
        elif isinstance(event, ToolCallResult):
            answer = event.tool_output
            error = (answer.exception or answer.content) if answer.is_error else None
            self.trajectory.result(event.tool_id, answer.raw_output, error)
            if event.tool_name == "handoff" and not answer.is_error:
                self.trajectory.add(AGENT, HANDOFF, output=event.tool_kwargs.get("to_agent"))


@in_place_of(Context, "write_event_to_stream")
def _write(real: Any, conversation: Any, context: Any, event: Any) -> None:
    conversation.record(event)
    real(context, event)
