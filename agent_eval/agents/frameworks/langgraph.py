"""LangGraph and LangChain: compiled graphs (`create_agent` makes one) and other runnables.

Callbacks record, because a graph's state shows no call of an agent that a tool or a node runs, and no call
before an exception.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation
from agent_eval.agents.frameworks.trajectory import Call, Thought, Trajectory, read_json, tokens

_USAGE = "input_tokens output_tokens input_token_details.cache_read output_token_details.reasoning"


class LangGraphConversation(Conversation):
    """One thread of a graph; a graph without a checkpointer is sent the messages before."""

    @override
    def begin(self) -> None:
        self._config = {"configurable": {"thread_id": uuid.uuid4().hex}}
        self._before: list[Any] = []

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        answers = "answers of tools, which can take the place of a graph's tools only where it is built"
        turns = "turns, and a runnable that is no graph has no conversation"
        return {"answers": answers} if hasattr(agent, "channels") else {"answers": answers, "turns": turns}

    @override
    async def say(self, message: Any) -> Any:
        config = {**self._config, "callbacks": [_Watch(self.trajectory)]}
        channels = getattr(self.agent, "channels", None)
        if channels is None or isinstance(message, dict):  # what the graph itself takes
            state = await self.agent.ainvoke(message, config=config)
        elif "messages" not in channels:
            raise TypeError("the graph's state has no messages: give the case an object as input")
        else:
            messages = [*self._before, *self.messages(message)]
            state = await self.agent.ainvoke({"messages": messages}, config=config)
        if not isinstance(state, dict) or "messages" not in state:
            return getattr(state, "content", state)
        if not self.agent.checkpointer:
            self._before = state["messages"]
        structured = state.get("structured_response")
        for message in state["messages"]:
            if message.type == "tool" and self.trajectory.lacks_result(message.tool_call_id):
                if message.status == "error":
                    self.trajectory.result(message.tool_call_id, error=message.content)
                elif structured is not None:
                    self.trajectory.is_the_answer(message.tool_call_id)
                else:
                    self.trajectory.result(message.tool_call_id, read_json(message.content))
        self.must_not_wait(state.get("__interrupt__"))
        last = state["messages"][-1]
        return structured if structured is not None else str(last.text) or None


class _Watch(BaseCallbackHandler):
    """Records what the graph, and everything that it runs, tells of its models and tools."""

    run_inline = True  # in the order in which it happens
    raise_error = True

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory, self._calls = trajectory, dict[Any, str]()

    @override
    def on_llm_end(self, response: Any, **_: Any) -> None:
        generation = response.generations[0][0]
        message = getattr(generation, "message", None)
        if message is None:
            self._trajectory.answered(generation.text)
            return
        meta, refusal = message.response_metadata, message.additional_kwargs.get("refusal")
        thoughts = [
            block.get("reasoning") for block in message.content_blocks if block["type"] == "reasoning"
        ]
        self._trajectory.answered(
            *map(Thought, thoughts),
            str(message.text) or refusal,
            *(Call(call["name"], call["args"], call["id"]) for call in message.tool_calls),
            *(
                Call(call["name"], call["args"], call["id"], call["error"] or "these arguments are no JSON")
                for call in message.invalid_tool_calls
            ),
            agent_name=message.name,
            model=meta.get("model_name") or meta.get("model"),
            stop_reason="refusal" if refusal else meta.get("finish_reason") or meta.get("stop_reason"),
            usage=tokens(message.usage_metadata, _USAGE),
        )

    @override
    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: Any, inputs: Any = None, **rest: Any
    ) -> None:
        name = (serialized or {}).get("name") or rest.get("name") or "tool"
        call_id = self._calls[run_id] = rest.get("tool_call_id") or run_id.hex
        if not self._trajectory.lacks_result(call_id):  # called by a node, not by a model
            arguments = read_json(input_str) if inputs is None else inputs
            self._trajectory.call(Call(name, arguments, call_id))

    @override
    def on_tool_end(self, output: Any, *, run_id: Any, **_: Any) -> None:
        content = read_json(getattr(output, "content", output))
        failed = getattr(output, "status", None) == "error"
        self._trajectory.result(self._calls[run_id], **{"error" if failed else "output": content})

    @override
    def on_tool_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._trajectory.result(self._calls[run_id], error=error)
