"""pydantic-ai. Hooks record, also of the agents that a tool runs: each run in a turn's context gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, UsageLimits, capture_run_messages
from pydantic_ai.capabilities import Hooks
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import CaseTools, Conversation, as_text, in_progress
from agent_eval.agents.frameworks.trajectory import Call, read_json, tokens
from agent_eval.errors import UsageError


class PydanticAIConversation(Conversation):
    """The messages so far."""

    def __init__(self, agent: Any, tools: CaseTools | None) -> None:
        super().__init__(agent, tools)
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
        with capture_run_messages() as messages:
            try:
                result = await self.agent.run(
                    as_text(message),
                    message_history=self._before,
                    usage_limits=UsageLimits(request_limit=None),
                )
            finally:
                self._results_without_a_hook(messages)
        if isinstance(result.output, DeferredToolRequests):
            raise RuntimeError(f"it waits for others to run or approve tools: {result.output}")
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

    def hooks(self, agent_name: str | None) -> Hooks[Any]:
        """What records a run of the agent, or of one that its tools run."""
        hooks = Hooks[Any]()

        @hooks.on.after_model_request
        async def answered(_: Any, *, request_context: Any, response: Any) -> Any:
            parameters = request_context.model_request_parameters
            self._record(response, {tool.name for tool in parameters.output_tools}, agent_name)
            return response

        @hooks.on.tool_execute
        async def executed(_: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
            return (
                await handler(args) if tool_def.kind == "output" else await self._execute(call, args, handler)
            )

        return hooks

    def _record(self, response: Any, answer_tools: set[str], agent_name: str | None) -> None:
        calls, texts, usage = [], [], response.usage
        for part in response.parts:
            if part.part_kind == "thinking":
                self.trajectory.thought(part.content, agent_name=agent_name)
            elif part.part_kind == "text":
                texts.append(part.content)
            elif part.part_kind == "tool-call":
                calls.append(Call(part.tool_name, read_json(part.args), part.tool_call_id))
            elif part.part_kind == "builtin-tool-call":
                call = Call(part.tool_name, read_json(part.args), part.tool_call_id)
                self.trajectory.call(call, ran_on="server", agent_name=agent_name)
            elif part.part_kind == "builtin-tool-return":
                self.trajectory.result(part.tool_call_id, part.content)
        self.trajectory.answered(
            "".join(texts),
            calls,
            agent_name=agent_name,
            model=response.model_name,
            stop_reason={"tool_call": "tool_calls"}.get(response.finish_reason, response.finish_reason),
            usage=tokens(
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                usage.output_reasoning_tokens,
            ),
        )
        for call in calls:
            if call.tool in answer_tools:
                self.trajectory.is_the_answer(call.call_id)

    async def _execute(self, call: Any, args: Any, handler: Any) -> Any:
        if self.tools is not None:
            return await self.answer_of_the_case(call.tool_name, args, call.tool_call_id)
        try:
            output = await handler(args)
        except Exception as error:
            self.trajectory.result(call.tool_call_id, error=error)
            raise
        self.trajectory.result(call.tool_call_id, output)
        return output


_real_iter = Agent.iter


def _iter(agent: Any, *arguments: Any, **options: Any) -> Any:
    """`Agent.iter`, by which every way to run an agent goes, with hooks where a turn is in progress."""
    conversation = in_progress()
    if isinstance(conversation, PydanticAIConversation):
        options["capabilities"] = [*(options.get("capabilities") or ()), conversation.hooks(agent.name)]
    return _real_iter(agent, *arguments, **options)


Agent.iter = _iter
CONVERSATION = PydanticAIConversation
