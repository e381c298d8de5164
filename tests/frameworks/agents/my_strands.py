"""Strands: agent objects."""

from __future__ import annotations

from typing import Any

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from tools import ALL, OrderStatus

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
