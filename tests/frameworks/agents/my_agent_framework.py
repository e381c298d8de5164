"""Microsoft Agent Framework: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from pydantic import BaseModel
from tools import ALL


class OrderStatus(BaseModel):
    status: str
    celsius: int


def build(model: str = "good", **options: Any) -> Agent:
    options.setdefault("tools", list(ALL))
    return Agent(OpenAIChatCompletionClient(model=model), name="support", **options)


good = build()
worse = build("worse")
structured = build(default_options={"response_format": OrderStatus})
broken = build("broken")
nested = build("delegate", tools=[good.as_tool(name="ask_orders", description="Ask about orders.")])


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str((await good.run(question)).text)


nested_in_a_tool = build("delegate", tools=[ask_orders])


def make() -> Agent:
    return good


async def by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(good, task)


async def worse_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(worse, task)


async def structured_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(structured, task)


async def run(agent: Agent, task: dict[str, Any]) -> dict[str, Any]:
    session = agent.create_session()
    for turn in task.get("history", []):
        await agent.run(turn["input"], session=session)
    response = await agent.run(task["input"], session=session)
    contents = [content for message in response.messages for content in message.contents]
    results = {each.call_id: each for each in contents if each.type == "function_result"}
    return {
        "assistant_output": response.value.model_dump() if response.value else response.text,
        "tool_calls": [
            {
                "tool": each.name,
                "arguments": each.arguments,
                "id": each.call_id,
                **(
                    {"error": str(results[each.call_id].exception)}
                    if results[each.call_id].exception
                    else {"output": results[each.call_id].result}
                ),
            }
            for each in contents
            if each.type == "function_call"
        ],
    }
