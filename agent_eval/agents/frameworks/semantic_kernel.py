"""Semantic Kernel: chat completion agents. Kernels and clients of models record, also those of tools."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.agents import ChatHistoryAgentThread
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.functions import FunctionResult, KernelFunction
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of, in_progress
from agent_eval.agents.frameworks.trajectory import CHAT_USAGE, Call, Thought, at, plain, read_json, tokens
from agent_eval.agents.recorder import as_text

_READ: dict[str, Any] = {
    "function_call": lambda item: Call(item.name, item.arguments, item.id or item.name),
    "reasoning": lambda item: Thought(item.text),
    "text": lambda item: item.text,
}


_MADE: ContextVar[list[str]] = ContextVar("made")
"""Whether the function of the call in progress was invoked."""


class SemanticKernelConversation(Conversation):
    """A thread."""

    @override
    def begin(self) -> None:
        self._thread = ChatHistoryAgentThread()

    @override
    async def say(self, message: Any) -> Any:
        answer = None
        async for response in self.agent.invoke(messages=as_text(message), thread=self._thread):
            answer = response.message.content
        settings = getattr(self.agent.arguments, "execution_settings", None) or {}
        is_structured = any(getattr(each, "response_format", None) for each in settings.values())
        return read_json(answer) if is_structured else answer

    def record(self, message: Any) -> None:
        """Record an answer of a model."""
        self.trajectory.answered(
            *(_READ[item.content_type](item) for item in message.items if item.content_type in _READ),
            agent_name=message.name,
            model=at(message, "inner_content.model") or message.ai_model_id,
            stop_reason=at(message, "finish_reason.value"),
            usage=tokens(at(message, "metadata.usage"), CHAT_USAGE),
        )


@in_place_of(ChatCompletionClientBase, "get_chat_message_contents")
async def _ask(real: Any, _: Conversation, client: Any, /, *arguments: Any, **options: Any) -> Any:
    """Give the client a method that records, of the step of its own that asks the model."""
    step = "_inner_get_chat_message_contents"
    if step not in vars(client):
        inner = getattr(client, step)

        async def recorded(*history: Any, **named: Any) -> Any:
            answers = await inner(*history, **named)
            if isinstance(conversation := in_progress(), SemanticKernelConversation):
                conversation.record(answers[0])
            return answers

        vars(client)[step] = recorded
    return await real(client, *arguments, **options)


@in_place_of(Kernel, "invoke_function_call")
async def _call(
    real: Any, conversation: Any, kernel: Any, /, function_call: Any, chat_history: Any, **options: Any
) -> Any:
    """Record calls that no client recorded, and the refusal of unknown tools and bad arguments."""
    trajectory, call_id, made = conversation.trajectory, function_call.id or function_call.name, list[str]()
    if not trajectory.lacks_result(call_id):
        trajectory.call(Call(function_call.name, function_call.arguments, call_id))
    _MADE.set(made)
    outcome = await real(kernel, function_call=function_call, chat_history=chat_history, **options)
    if not made:
        items = [item for message in chat_history.messages for item in message.items]
        refusals = [item.result for item in items if hasattr(item, "result") and item.id == function_call.id]
        trajectory.result(call_id, error=plain(refusals[-1]) if refusals else "it was not made")
    return outcome


@in_place_of(KernelFunction, "invoke")
async def _invoke(
    real: Any, conversation: Any, function: Any, /, kernel: Any, arguments: Any = None, **options: Any
) -> Any:
    metadata, result = options.get("metadata"), None
    call_id = at(metadata, "id") or at(metadata, "function.name")
    if call_id is None:  # no model called it
        return await real(function, kernel, arguments, **options)
    _MADE.get().append(call_id)

    async def run() -> Any:
        nonlocal result
        result = await real(function, kernel, arguments, **options)
        return read_json(plain(at(result, "value")))

    answer = await conversation.carry_out(function.fully_qualified_name, arguments, call_id, run)
    if conversation.tools is not None:
        result = FunctionResult(function=function.metadata, value=plain(answer))
    return result
