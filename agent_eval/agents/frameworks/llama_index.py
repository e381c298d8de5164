"""LlamaIndex: agents and workflows of agents. What they write to streams is recorded, also inside a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, ToolCallResult
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import CaseTools, Conversation, as_text, in_progress
from agent_eval.agents.frameworks.trajectory import Call, Trajectory, plain, tokens
from agent_eval.contracts.event import AGENT, HANDOFF

_MOST_TOKENS = 100_000


class LlamaIndexConversation(Conversation):
    """A memory of its own."""

    def __init__(self, agent: Any, tools: CaseTools | None) -> None:
        super().__init__(agent, tools)
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


def _record(trajectory: Trajectory, event: Any) -> None:
    if isinstance(event, AgentOutput):
        raw = plain(event.raw)
        raw = raw if isinstance(raw, dict) else {}
        usage, choice = raw.get("usage") or {}, (raw.get("choices") or [{}])[0]
        refusal = (choice.get("message") or choice.get("delta") or {}).get("refusal")
        trajectory.answered(
            event.response.content or refusal,
            [Call(each.tool_name, each.tool_kwargs, each.tool_id) for each in event.tool_calls],
            agent_name=event.current_agent_name,
            model=raw.get("model"),
            stop_reason="refusal" if refusal else choice.get("finish_reason"),
            usage=usage
            and tokens(
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
                (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
            ),
        )
    elif isinstance(event, ToolCallResult):
        answer = event.tool_output
        error = (answer.exception or answer.content) if answer.is_error else None
        trajectory.result(event.tool_id, answer.raw_output, error)
        if event.tool_name == "handoff" and not answer.is_error:
            trajectory.add(AGENT, HANDOFF, output=event.tool_kwargs.get("to_agent"))


_real_write = Context.write_event_to_stream


def _write(context: Any, event: Any) -> None:
    """`Context.write_event_to_stream`, by which every agent tells what it does."""
    if isinstance(event, AgentOutput | ToolCallResult) and (conversation := in_progress()) is not None:
        _record(conversation.trajectory, event)
    _real_write(context, event)


Context.write_event_to_stream = _write
CONVERSATION = LlamaIndexConversation
