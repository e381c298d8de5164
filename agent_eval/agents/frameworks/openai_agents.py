"""OpenAI Agents. Hooks record, so that a run that raises keeps what it did before; every run gets them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from agents import FunctionTool, RunConfig, RunHooks, Runner, set_tracing_disabled
from agents.run import AgentRunner
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of
from agent_eval.agents.frameworks.trajectory import Call, Thought, at, plain, read_json, tokens
from agent_eval.contracts.event import AGENT, GUARDRAIL, HANDOFF
from agent_eval.errors import words_of

_MORE_TURNS_THAN_THE_LIMIT = 10_000
_USED = "input_tokens output_tokens input_tokens_details.cached_tokens output_tokens_details.reasoning_tokens"


class OpenAIAgentsConversation(Conversation):
    """The items so far, and the agent that has the word after hand-offs."""

    @override
    def begin(self) -> None:
        set_tracing_disabled(True)  # traces are sent to OpenAI
        self._items: list[Any] = []
        self.errors: dict[str, str] = {}

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        hosted = [tool for tool in agent.tools if not isinstance(tool, FunctionTool)]
        others = {"MCP servers": agent.mcp_servers, "hand-offs": agent.handoffs, "hosted tools": hosted}
        present = [name for name, value in others.items() if value]
        reason = f"answers of tools, which cannot take the place of the agent's {' and '.join(present)}"
        return {"answers": reason} if present else {}

    @override
    async def say(self, message: Any) -> Any:
        async def invoke(context: Any, arguments: str) -> Any:
            return await self.answer_of_the_case(context.tool_name, arguments, context.tool_call_id)

        agent, items = self.agent, [*self._items, *self.messages(message)]
        if self.tools is not None:
            tools = [dataclasses.replace(tool, on_invoke_tool=invoke) for tool in agent.tools]
            agent = agent.clone(tools=tools)
        try:
            result = await Runner.run(agent, items, max_turns=_MORE_TURNS_THAN_THE_LIMIT)
        except Exception as error:
            if (tripped := getattr(error, "guardrail_result", None)) is not None:
                name = at(tripped, "guardrail.name") or type(error).__name__
                self.trajectory.add(AGENT, GUARDRAIL, output=tripped.output.output_info, block_reason=name)
            raise
        self.must_not_wait([each.name for each in result.interruptions])
        self._items = result.to_input_list()
        if self.tools is None:
            self.agent = result.last_agent
        return result.final_output


class _Watch(RunHooks):
    """Records one run and the agents that it hands over to; `own` are the hooks that it had before."""

    def __init__(self, conversation: OpenAIAgentsConversation, own: Any) -> None:
        self._conversation, self._trajectory, self._own = conversation, conversation.trajectory, own
        self._calls: list[str] = []
        for name in ("on_agent_start", "on_agent_end", "on_llm_start", "on_tool_start"):
            setattr(self, name, getattr(own, name))

    @override
    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        parts, refusals = list[Any](), list[str]()
        for item in response.output:
            if item.type == "reasoning":
                parts += [Thought(part.text) for part in item.summary]
            elif item.type == "function_call":
                parts.append(Call(item.name, item.arguments, item.call_id))
            elif item.type == "message":
                parts += [part.text for part in item.content if part.type == "output_text"]
                refusals += [part.refusal for part in item.content if part.type == "refusal"]
            else:  # a tool of the provider's own, which has run there
                call_id = at(item, "id") or item.type
                self._trajectory.call(Call(item.type, plain(item), call_id), ran_on="server")
                self._trajectory.result(call_id, at(item, "status"))
        self._calls = [part.call_id for part in parts if isinstance(part, Call)]
        self._trajectory.answered(
            *parts,
            *refusals,
            agent_name=agent.name,
            model=agent.model if isinstance(agent.model, str) else at(agent.model, "model"),
            stop_reason="refusal" if refusals else None,
            usage=tokens(response.usage, _USED),
        )
        await self._own.on_llm_end(context, agent, response)

    @override
    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        call_id = getattr(context, "tool_call_id", None)
        if call_id is not None and self._trajectory.lacks_result(call_id):
            error = self._conversation.errors.get(call_id)
            if error is None and isinstance(result, str) and result.startswith("An error occurred"):
                error = result  # of an agent that is a tool, whose failure is told to the model alone
            self._trajectory.result(call_id, read_json(result), error)
        await self._own.on_tool_end(context, agent, tool, result)

    @override
    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Record a hand-off, whose call has no `on_tool_end`; further ones of the same answer are ignored."""
        for number, call_id in enumerate(filter(self._trajectory.lacks_result, self._calls)):
            error = "ignored: one hand-off at a time" if number else None
            self._trajectory.result(call_id, {"assistant": to_agent.name}, error)
        self._trajectory.add(AGENT, HANDOFF, agent_name=from_agent.name, output=to_agent.name)
        await self._own.on_handoff(context, from_agent, to_agent)


@in_place_of(AgentRunner, "run")
@in_place_of(AgentRunner, "run_streamed")
def _run(real: Any, conversation: Any, /, *arguments: Any, **options: Any) -> Any:
    config = options.get("run_config") or RunConfig()
    formatter = config.tool_error_formatter

    def note(failure: Any) -> Any:
        error = failure.error
        words = failure.default_message if error is None else words_of(error)
        conversation.errors[failure.call_id] = words
        return formatter and formatter(failure)

    options["hooks"] = _Watch(conversation, options.get("hooks") or RunHooks())
    options["run_config"] = dataclasses.replace(config, tool_error_formatter=note)
    return real(*arguments, **options)
