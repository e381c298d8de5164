"""pydantic-ai. Hooks record, also of the agents that a tool runs: each run in a turn's context gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, UsageLimits, capture_run_messages
from pydantic_ai.capabilities import Hooks
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of
from agent_eval.agents.frameworks.trajectory import Call, Thought, tokens
from agent_eval.agents.recorder import as_text
from agent_eval.errors import UsageError

_USAGE = "input_tokens output_tokens cache_read_tokens output_reasoning_tokens"


class PydanticAIConversation(Conversation):
    """The messages so far."""

    @override
    def begin(self) -> None:
        self._before: list[Any] = []

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        needed = getattr(agent, "deps_type", type(None))
        if needed not in (type(None), object):
            raise UsageError(
                f"the agent needs deps, of the type {needed.__name__}",
                remedy="Name a function that runs it with them, and returns its answer with its tool calls.",
            )
        return {}

    @override
    async def say(self, message: Any) -> Any:
        limits = UsageLimits(request_limit=None)
        with capture_run_messages() as messages:
            try:
                result = await self.agent.run(
                    as_text(message), message_history=self._before, usage_limits=limits
                )
            finally:
                self._results_without_a_hook(messages)
        self.must_not_wait(result.output if isinstance(result.output, DeferredToolRequests) else None)
        self._before = result.all_messages()
        return result.output

    def _results_without_a_hook(self, messages: list[Any]) -> None:
        """Record what answered a call that could not be made: of an unknown tool, or with bad arguments."""
        for part in (part for message in messages if message.kind == "request" for part in message.parts):
            call_id = getattr(part, "tool_call_id", None)
            if call_id is None or not self.trajectory.lacks_result(call_id):
                continue
            failed = part.part_kind == "retry-prompt" or part.outcome != "success"
            self.trajectory.result(call_id, **{"error" if failed else "output": part.content})

    def record(self, response: Any, answer_tools: set[str], agent_name: str | None) -> None:
        """Record an answer of a model; calls of `answer_tools` are structured answers."""
        parts: list[Any] = []
        for part in response.parts:
            if part.part_kind == "builtin-tool-call":
                self.trajectory.call(Call(part.tool_name, part.args, part.tool_call_id), ran_on="server")
            elif part.part_kind == "builtin-tool-return":
                self.trajectory.result(part.tool_call_id, part.content)
            elif part.part_kind == "tool-call":
                parts.append(Call(part.tool_name, part.args, part.tool_call_id))
            elif part.part_kind in ("thinking", "text"):
                parts.append(Thought(part.content) if part.part_kind == "thinking" else part.content)
        self.trajectory.answered(
            *parts,
            agent_name=agent_name,
            model=response.model_name,
            stop_reason={"tool_call": "tool_calls"}.get(response.finish_reason, response.finish_reason),
            usage=tokens(response.usage, _USAGE),
        )
        for part in parts:
            if isinstance(part, Call) and part.tool in answer_tools:
                self.trajectory.is_the_answer(part.call_id)


@in_place_of(Agent, "iter")
def _iter(real: Any, conversation: Any, agent: Any, /, *arguments: Any, **options: Any) -> Any:
    hooks = Hooks[Any]()

    @hooks.on.after_model_request
    async def answered(_: Any, *, request_context: Any, response: Any) -> Any:
        tools = request_context.model_request_parameters.output_tools
        conversation.record(response, {tool.name for tool in tools}, agent.name)
        return response

    @hooks.on.tool_execute
    async def executed(_: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        if tool_def.kind == "output":
            return await handler(args)
        return await conversation.carry_out(call.tool_name, args, call.tool_call_id, lambda: handler(args))

    options["capabilities"] = [*(options.get("capabilities") or ()), hooks]
    return real(agent, *arguments, **options)
