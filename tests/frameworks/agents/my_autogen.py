"""AutoGen: agent objects."""

from __future__ import annotations

from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.tools import AgentTool
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from tools import ALL, OrderStatus

ABOUT = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True}


def build(model: str = "good", name: str = "support", **options: Any) -> AssistantAgent:
    client = OpenAIChatCompletionClient(model=model, model_info={**ABOUT, "family": "unknown"}, max_retries=0)
    options.setdefault("tools", [FunctionTool(each, each.__doc__, strict=True) for each in ALL])
    return AssistantAgent(name, client, description="Answers.", max_tool_iterations=50, **options)


good = build()
worse = build("worse")
structured = build(output_content_type=OrderStatus)
broken = build("broken")
nested = build("delegate", tools=[AgentTool(build(name="ask_orders"))])


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return (await build().run(task=question)).messages[-1].content


nested_in_a_tool = build("delegate", tools=[ask_orders])
