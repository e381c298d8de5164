"""Google ADK: agent objects."""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from tools import ALL, OrderStatus


def build(model: str = "good", name: str = "support", **options: Any) -> LlmAgent:
    options.setdefault("tools", list(ALL))
    return LlmAgent(name=name, description="Ask about orders.", model=LiteLlm(f"openai/{model}"), **options)


good = build()
worse = build("worse")
structured = build(output_schema=OrderStatus)
broken = build("broken")
nested = build("delegate", "front", tools=[AgentTool(build(name="ask_orders"))])


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    runner = InMemoryRunner(agent=good, app_name="inner")
    session = await runner.session_service.create_session(app_name="inner", user_id="me")
    options = {"user_id": "me", "session_id": session.id, "new_message": types.UserContent(question)}
    events = [event async for event in runner.run_async(**options)]
    return "".join(part.text or "" for part in events[-1].content.parts)


nested_in_a_tool = build("delegate", "front", tools=[ask_orders])
