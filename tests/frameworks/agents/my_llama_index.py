"""LlamaIndex: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

import os
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel
from tools import ALL


class OrderStatus(BaseModel):
    status: str
    celsius: int


def build(model: str = "good", **options: Any) -> FunctionAgent:
    llm = OpenAILike(
        model,
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key="x",
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )
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


async def by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(good, task)


async def worse_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(worse, task)


async def structured_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(structured, task)


async def run(agent: FunctionAgent, task: dict[str, Any]) -> dict[str, Any]:
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
    for turn in task.get("history", []):
        await agent.run(user_msg=turn["input"], memory=memory)
    handler, calls = agent.run(user_msg=task["input"], memory=memory), []
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            key = "error" if event.tool_output.is_error else "output"
            calls.append(
                {"tool": event.tool_name, "arguments": event.tool_kwargs, key: event.tool_output.content}
            )
    result = await handler
    return {"assistant_output": result.structured_response or str(result), "tool_calls": calls}
