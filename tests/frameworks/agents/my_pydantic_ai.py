"""pydantic-ai: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from tools import ALL


class OrderStatus(BaseModel):
    status: str
    celsius: int


def build(model: str = "good", **options: Any) -> Agent[Any, Any]:
    return Agent(OpenAIChatModel(model), name="support", tools=options.pop("tools", ALL), **options)


good = build()
worse = build("worse")
structured = build(output_type=OrderStatus)
broken = build("broken")
with_deps = build(deps_type=dict)


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str((await good.run(question)).output)


async def ask_orders_twice(question: str) -> str:
    """Ask about orders."""
    await good.run("Hello")
    return str((await good.run(question)).output)


ask_orders_twice.__name__ = "ask_orders"
nested = build("delegate", tools=[ask_orders])
nested_in_a_tool = build("delegate", tools=[ask_orders_twice])


def make() -> Agent[Any, Any]:
    return good


async def by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(good, task)


async def worse_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(worse, task)


async def structured_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(structured, task)


async def run(agent: Agent[Any, Any], task: dict[str, Any]) -> dict[str, Any]:
    before: list[Any] = []
    for turn in task.get("history", []):
        before = (await agent.run(turn["input"], message_history=before)).all_messages()
    result = await agent.run(task["input"], message_history=before)
    parts = [part for message in result.new_messages() for part in message.parts]
    outputs = {part.tool_call_id: part.content for part in parts if part.part_kind == "tool-return"}
    output = result.output
    return {
        "assistant_output": output if isinstance(output, str) else output.model_dump(),
        "tool_calls": [
            {
                "tool": part.tool_name,
                "arguments": part.args_as_dict(),
                "id": part.tool_call_id,
                "output": outputs[part.tool_call_id],
            }
            for part in parts
            if part.part_kind == "tool-call" and part.tool_name != "final_result"
        ],
    }
