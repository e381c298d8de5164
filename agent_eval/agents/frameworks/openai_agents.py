"""OpenAI Agents. Hooks of the run record, so that a run that raises keeps what it did before.

Hooks see no call of an agent that is used as a tool or that a tool runs; the spans of the trace do. The
processor here takes the place of the one that would send traces to OpenAI.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from agents import (
    FunctionTool,
    RunConfig,
    RunHooks,
    Runner,
    TracingProcessor,
    set_trace_processors,
    set_tracing_disabled,
)
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import CaseTools, Conversation, as_text, in_progress
from agent_eval.agents.frameworks.trajectory import Call, plain, read_json, tokens
from agent_eval.contracts.event import AGENT, GUARDRAIL, HANDOFF, MODEL_CALL

_FAILED = "An error occurred while running the tool"
_MORE_TURNS_THAN_THE_LIMIT = 10_000


class OpenAIAgentsConversation(Conversation):
    """The items so far, and the agent that has the word after hand-offs."""

    def __init__(self, agent: Any, tools: CaseTools | None) -> None:
        super().__init__(agent, tools)
        set_tracing_disabled(False)
        set_trace_processors([_NestedCalls.OF_THE_PROCESS])
        self._items: list[Any] = []
        self.errors: dict[str, str] = {}

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        others = {
            "MCP servers": agent.mcp_servers,
            "hand-offs": agent.handoffs,
            "hosted tools": [tool for tool in agent.tools if not isinstance(tool, FunctionTool)],
        }
        present = [name for name, value in others.items() if value]
        reason = f"answers of tools, which cannot take the place of the agent's {' and '.join(present)}"
        return {"answers": reason} if present else {}

    @override
    async def say(self, message: Any) -> Any:
        agent = self.agent if self.tools is None else self._answered_by_the_case()
        new = message if isinstance(message, list) else [{"role": "user", "content": as_text(message)}]
        config = RunConfig(tool_error_formatter=self._note_error, trace_include_sensitive_data=True)
        try:
            result = await Runner.run(
                agent,
                [*self._items, *new],
                hooks=_Watch(self),
                max_turns=_MORE_TURNS_THAN_THE_LIMIT,
                run_config=config,
            )
        except Exception as error:
            if (tripped := getattr(error, "guardrail_result", None)) is not None:
                name = getattr(tripped.guardrail, "name", None) or type(error).__name__
                self.trajectory.add(
                    AGENT, GUARDRAIL, output=tripped.output.output_info, block_reason=name or "guardrail"
                )
            raise
        if result.interruptions:
            raise RuntimeError(f"it waits for the approval of {result.interruptions[0].name}")
        self._items = result.to_input_list()
        if self.tools is None:
            self.agent = result.last_agent
        return result.final_output

    def _answered_by_the_case(self) -> Any:
        async def invoke(context: Any, arguments: str) -> Any:
            call_id = context.tool_call_id
            return await self.answer_of_the_case(context.tool_name, read_json(arguments), call_id)

        tools = [dataclasses.replace(tool, on_invoke_tool=invoke) for tool in self.agent.tools]
        return self.agent.clone(tools=tools)

    def _note_error(self, failure: Any) -> None:
        error = failure.error
        words = failure.default_message if error is None else f"{type(error).__name__}: {error}"
        self.errors[failure.call_id] = words


class _Watch(RunHooks):
    """Records the models and tools of the run itself, and of the agents that it hands over to."""

    def __init__(self, conversation: OpenAIAgentsConversation) -> None:
        self._conversation, self._trajectory = conversation, conversation.trajectory
        self._calls: list[str] = []

    @override
    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        usage, texts, refusals, calls = response.usage, [], [], []
        for item in response.output:
            if item.type == "reasoning":
                self._trajectory.thought("".join(part.text for part in item.summary), agent_name=agent.name)
            elif item.type == "function_call":
                calls.append(Call(item.name, read_json(item.arguments), item.call_id))
            elif item.type == "message":
                texts += [part.text for part in item.content if part.type == "output_text"]
                refusals += [part.refusal for part in item.content if part.type == "refusal"]
            else:  # a tool of the provider's own, which has run there
                call = Call(item.type, plain(item), getattr(item, "id", None) or item.type)
                self._trajectory.call(call, ran_on="server", agent_name=agent.name)
                self._trajectory.result(call.call_id, plain(getattr(item, "status", None)))
        self._calls = [call.call_id for call in calls]
        self._trajectory.answered(
            "".join([*texts, *refusals]),
            calls,
            agent_name=agent.name,
            model=agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", None),
            stop_reason="refusal" if refusals else None,
            usage=tokens(
                usage.input_tokens,
                usage.output_tokens,
                usage.input_tokens_details.cached_tokens,
                usage.output_tokens_details.reasoning_tokens,
            ),
        )

    @override
    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        call_id = getattr(context, "tool_call_id", None)
        if call_id is None or not self._trajectory.lacks_result(call_id):
            return
        error = self._conversation.errors.get(call_id)
        if error is None and isinstance(result, str) and result.startswith(_FAILED):
            error = result  # of an agent that is a tool, whose failure is told to the model alone
        self._trajectory.result(call_id, read_json(result), error)

    @override
    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Record a hand-off, whose call has no `on_tool_end`; further ones of the same answer are ignored."""
        for number, call_id in enumerate(filter(self._trajectory.lacks_result, self._calls)):
            if number == 0:
                self._trajectory.result(call_id, {"assistant": to_agent.name})
            else:
                self._trajectory.result(call_id, error="ignored: one hand-off at a time")
        self._trajectory.add(AGENT, HANDOFF, agent_name=from_agent.name, output=to_agent.name)


class _NestedCalls(TracingProcessor):
    """Records what agents did that were run by a tool: the spans below the span of a function."""

    OF_THE_PROCESS: _NestedCalls

    def __init__(self) -> None:
        self._parents: dict[str, dict[str, tuple[bool, str | None]]] = defaultdict(dict)
        """By trace and span: whether it is a function's, and the span around it."""

    @override
    def on_span_start(self, span: Any) -> None:
        self._parents[span.trace_id][span.span_id] = (span.span_data.type == "function", span.parent_id)

    @override
    def on_span_end(self, span: Any) -> None:
        data, conversation = span.span_data, in_progress()
        if conversation is None or not self._is_below_a_function(span):
            return
        trajectory = conversation.trajectory
        if data.type == "function":
            trajectory.call(Call(data.name, read_json(data.input), span.span_id))
            error = None if span.error is None else f"{span.error['message']} {span.error.get('data') or ''}"
            trajectory.result(span.span_id, read_json(data.output), error)
        elif data.type in ("response", "generation"):
            usage = data.usage or {}
            tokens = {name: usage.get(name) for name in ("input_tokens", "output_tokens")}
            model = getattr(data, "model", None) or getattr(getattr(data, "response", None), "model", None)
            trajectory.add(AGENT, MODEL_CALL, model=model, usage=tokens)

    def _is_below_a_function(self, span: Any) -> bool:
        parents, span_id = self._parents[span.trace_id], span.parent_id
        while span_id is not None:
            is_function, span_id = parents.get(span_id, (False, None))
            if is_function:
                return True
        return False

    @override
    def on_trace_end(self, trace: Any) -> None:
        self._parents.pop(trace.trace_id, None)

    @override
    def on_trace_start(self, trace: Any) -> None: ...
    @override
    def shutdown(self) -> None: ...
    @override
    def force_flush(self) -> None: ...


_NestedCalls.OF_THE_PROCESS = _NestedCalls()
CONVERSATION = OpenAIAgentsConversation
