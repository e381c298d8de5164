"""Microsoft Agent Framework: agents. Middleware records, which every run of the process gets."""

from __future__ import annotations

from typing import Any

from agent_framework import Agent, ChatMiddleware, Content, FunctionMiddleware
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import CaseTools, Conversation, as_text, in_progress
from agent_eval.agents.frameworks.trajectory import Call, plain, read_json, tokens


class AgentFrameworkConversation(Conversation):
    """A session."""

    def __init__(self, agent: Any, tools: CaseTools | None) -> None:
        super().__init__(agent, tools)
        self._session = agent.create_session()

    @override
    async def say(self, message: Any) -> Any:
        response = await self.agent.run(as_text(message), session=self._session)
        if response.user_input_requests:
            raise RuntimeError(f"it waits for a human: {plain(response.user_input_requests)}")
        return response.value or response.text


class _Models(ChatMiddleware):
    """Records the answers of models."""

    @override
    async def process(self, context: Any, call_next: Any) -> None:
        conversation = in_progress()
        if conversation is not None and context.stream:
            context.stream_result_hooks.append(lambda response: _record(conversation, response))
        await call_next()
        if conversation is not None and not context.stream:
            _record(conversation, context.result)


def _record(conversation: Conversation, response: Any) -> Any:
    calls, texts, usage, name = [], [], response.usage_details or {}, None
    for message in response.messages:
        name = message.author_name or name
        for content in message.contents:
            if content.type == "function_call":
                calls.append(Call(content.name, read_json(content.arguments), content.call_id))
            elif content.type == "text_reasoning":
                conversation.trajectory.thought(content.text, agent_name=name)
            elif content.type == "text":
                texts.append(content.text)
    conversation.trajectory.answered(
        "".join(texts),
        calls,
        agent_name=name,
        model=response.model,
        stop_reason=response.finish_reason,
        usage=tokens(
            usage.get("input_token_count"),
            usage.get("output_token_count"),
            usage.get("cache_read_input_token_count"),
            usage.get("reasoning_output_token_count"),
        ),
    )
    return response


class _Tools(FunctionMiddleware):
    """Records what tools answered, or lets the case answer."""

    @override
    async def process(self, context: Any, call_next: Any) -> None:
        conversation, name = in_progress(), context.function.name
        if conversation is None:
            await call_next()
            return
        call_id = context.metadata.get("call_id") or name
        if conversation.tools is not None:
            answer = await conversation.answer_of_the_case(name, context.arguments, call_id)
            context.result = [Content.from_text(as_text(plain(answer)))]
            return
        try:
            await call_next()
        except Exception as error:
            conversation.trajectory.result(call_id, error=error)
            raise
        result = context.result
        if isinstance(result, list) and all(getattr(each, "type", None) == "text" for each in result):
            result = read_json("".join(each.text for each in result))
        conversation.trajectory.result(call_id, result)


_WATCH = [_Models(), _Tools()]
_real_run = Agent.run


def _run(agent: Any, *arguments: Any, **options: Any) -> Any:
    """`Agent.run`, by which every way to run an agent goes, with the middleware."""
    options["middleware"] = [*(options.get("middleware") or ()), *_WATCH]
    return _real_run(agent, *arguments, **options)


Agent.run = _run
CONVERSATION = AgentFrameworkConversation
