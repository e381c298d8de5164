"""pydantic-ai: agent objects."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from tools import ALL, OrderStatus


def build(model: str = "good", **options: Any) -> Agent[Any, Any]:
    return Agent(OpenAIChatModel(model), name="support", tools=options.pop("tools", ALL), **options)


good = build()
worse = build("worse")
structured = build(output_type=OrderStatus)
broken = build("broken")


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
