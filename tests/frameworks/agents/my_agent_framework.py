"""Microsoft Agent Framework: agent objects."""

from __future__ import annotations

from typing import Any

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from tools import ALL, OrderStatus


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
