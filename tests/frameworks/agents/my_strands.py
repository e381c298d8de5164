"""Strands: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from tools import ALL


class OrderStatus(BaseModel):
    status: str
    celsius: int


TOOLS = [tool(each) for each in ALL]


def build(model: str = "good", **options: Any) -> Agent:
    options.setdefault("tools", TOOLS)
    return Agent(OpenAIModel(model_id=model), name="support", callback_handler=None, **options)


good = build()
worse = build("worse")
structured = build(structured_output_model=OrderStatus)
broken = build("broken")
nested = build("delegate", tools=[build().as_tool(name="ask_orders", description="Ask about orders.")])


@tool
def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str(build()(question))


nested_in_a_tool = build("delegate", tools=[ask_orders])


def make() -> Agent:
    return good


async def by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(build(), task)


async def worse_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(build("worse"), task)


async def structured_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(build(structured_output_model=OrderStatus), task)


async def run(agent: Agent, task: dict[str, Any]) -> dict[str, Any]:
    for turn in task.get("history", []):
        await agent.invoke_async(turn["input"])
    known = len(agent.messages)
    result = await agent.invoke_async(task["input"])
    blocks = [block for message in agent.messages[known:] for block in message["content"]]
    results = {
        block["toolResult"]["toolUseId"]: block["toolResult"] for block in blocks if "toolResult" in block
    }
    calls = [block["toolUse"] for block in blocks if "toolUse" in block]
    structured = result.structured_output
    return {
        "assistant_output": str(result).strip() if structured is None else structured.model_dump(),
        "tool_calls": [
            {
                "tool": each["name"],
                "arguments": each["input"],
                "id": each["toolUseId"],
                "error" if results[each["toolUseId"]]["status"] == "error" else "output": results[
                    each["toolUseId"]
                ]["content"][0]["text"],
            }
            for each in calls
            if each["name"] != "OrderStatus"
        ],
    }
