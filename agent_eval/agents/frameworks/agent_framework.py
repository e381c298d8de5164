"""Microsoft Agent Framework: agents. Middleware records, which every run of the process gets."""

from __future__ import annotations

from typing import Any

from agent_framework import Agent, ChatMiddleware, Content, FunctionMiddleware
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of
from agent_eval.agents.frameworks.trajectory import Call, Thought, plain, read_json, tokens
from agent_eval.agents.recorder import as_text

_USAGE = "input_token_count output_token_count cache_read_input_token_count reasoning_output_token_count"


class AgentFrameworkConversation(Conversation):
    """A session."""

    @override
    def begin(self) -> None:
        self._session = self.agent.create_session()

    @override
    async def say(self, message: Any) -> Any:
        response = await self.agent.run(as_text(message), session=self._session)
        self.must_not_wait(response.user_input_requests)
        return response.value or response.text

    def record(self, response: Any) -> Any:
        """Record an answer of a model."""
        contents = [content for message in response.messages for content in message.contents]
        self.trajectory.answered(
            *(_READ[content.type](content) for content in contents if content.type in _READ),
            agent_name=next((each.author_name for each in response.messages if each.author_name), None),
            model=response.model,
            stop_reason=response.finish_reason,
            usage=tokens(response.usage_details, _USAGE),
        )
        return response


_READ: dict[str, Any] = {
    "function_call": lambda content: Call(content.name, content.arguments, content.call_id),
    "text_reasoning": lambda content: Thought(content.text),
    "text": lambda content: content.text,
}


class _Models(ChatMiddleware):
    def __init__(self, conversation: AgentFrameworkConversation) -> None:
        self._conversation = conversation

    @override
    async def process(self, context: Any, call_next: Any) -> None:
        if context.stream:
            context.stream_result_hooks.append(self._conversation.record)
        await call_next()
        if not context.stream:
            self._conversation.record(context.result)


class _Tools(FunctionMiddleware):
    """Records what tools answered, or lets the case answer."""

    def __init__(self, conversation: AgentFrameworkConversation) -> None:
        self._conversation = conversation

    @override
    async def process(self, context: Any, call_next: Any) -> None:
        async def run() -> Any:
            await call_next()
            parts = context.result if isinstance(context.result, list) else []
            if parts and all(getattr(each, "type", None) == "text" for each in parts):
                return read_json("".join(each.text for each in parts))
            return context.result

        name = context.function.name
        call_id = context.metadata.get("call_id") or name
        answer = await self._conversation.carry_out(name, context.arguments, call_id, run)
        if self._conversation.tools is not None:
            context.result = [Content.from_text(as_text(plain(answer)))]


@in_place_of(Agent, "run")
def _run(real: Any, conversation: Any, /, *arguments: Any, **options: Any) -> Any:
    watch = [_Models(conversation), _Tools(conversation)]
    options["middleware"] = [*(options.get("middleware") or ()), *watch]
    return real(*arguments, **options)
