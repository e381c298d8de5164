"""pydantic-ai: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from tools import ALL, OrderStatus, Task, answer, behind, call, said


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


async def run(agent: Agent[Any, Any], task: Task) -> dict[str, Any]:
    before: list[Any] = []
    for words in said(task):
        result = await agent.run(words, message_history=before)
        before = result.all_messages()
    parts = [part for message in result.new_messages() for part in message.parts]
    outputs = {part.tool_call_id: part.content for part in parts if part.part_kind == "tool-return"}
    made = [
        call(part.tool_name, part.args_as_dict(), part.tool_call_id, outputs[part.tool_call_id])
        for part in parts
        if part.part_kind == "tool-call" and part.tool_name != "final_result"
    ]
    return answer(result.output, *made)


by_hand, worse_by_hand, structured_by_hand = behind(run, lambda: good, lambda: worse, lambda: structured)
