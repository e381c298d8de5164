"""LlamaIndex: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

import os
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.llms.openai_like import OpenAILike
from tools import ALL, OrderStatus, Task, answer, behind, call, said


def build(model: str = "good", **options: Any) -> FunctionAgent:
    llm = OpenAILike(
        model, api_base=os.environ["OPENAI_BASE_URL"], api_key="x", is_chat_model=True,
        is_function_calling_model=True, max_retries=0,
    )  # fmt: skip
    options.setdefault("tools", list(ALL))
    return FunctionAgent(llm=llm, name="support", description="Answers.", streaming=False, **options)


good = build()
worse = build("worse")
structured = build(output_cls=OrderStatus)
broken = build("broken")
workflow = AgentWorkflow(agents=[good])


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str(await good.run(user_msg=question))


nested = build("delegate", tools=[ask_orders])
nested_in_a_tool = AgentWorkflow(agents=[nested])


def make() -> FunctionAgent:
    return good


async def run(agent: FunctionAgent, task: Task) -> dict[str, Any]:
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
    for words in said(task):
        handler = agent.run(user_msg=words, memory=memory)
        steps = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
        result = await handler
    made = [
        call(each.tool_name, each.tool_kwargs, each.tool_id, done.content, failed=done.is_error)
        for each in steps
        for done in [each.tool_output]
    ]
    return answer(result.structured_response or str(result), *made)


by_hand, worse_by_hand, structured_by_hand = behind(run, lambda: good, lambda: worse, lambda: structured)
