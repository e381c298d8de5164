"""Google ADK: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

import json
import uuid
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from pydantic import BaseModel
from tools import ALL


class OrderStatus(BaseModel):
    status: str
    celsius: int


def build(model: str = "good", name: str = "support", **options: Any) -> LlmAgent:
    options.setdefault("tools", list(ALL))
    return LlmAgent(name=name, description="Ask about orders.", model=LiteLlm(f"openai/{model}"), **options)


good = build()
worse = build("worse")
structured = build(output_schema=OrderStatus)
broken = build("broken")
app = App(name="shop", root_agent=good)
nested = build("delegate", "front", tools=[AgentTool(build(name="ask_orders"))])


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return (await run(good, {"input": question}))["assistant_output"]


nested_in_a_tool = build("delegate", "front", tools=[ask_orders])


def make() -> LlmAgent:
    return good


async def by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(good, task)


async def worse_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(worse, task)


async def structured_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    answer = await run(structured, task)
    return {**answer, "assistant_output": json.loads(answer["assistant_output"])}


async def run(agent: Any, task: dict[str, Any]) -> dict[str, Any]:
    runner = InMemoryRunner(agent=agent, app_name="by_hand")
    session_id = uuid.uuid4().hex
    await runner.session_service.create_session(app_name="by_hand", user_id="me", session_id=session_id)
    events: list[Any] = []
    for said in [*(turn["input"] for turn in task.get("history", [])), task["input"]]:
        message = types.UserContent(said)
        events = [
            event
            async for event in runner.run_async(user_id="me", session_id=session_id, new_message=message)
        ]
    outputs = {each.id: each.response for event in events for each in event.get_function_responses()}
    return {
        "assistant_output": "".join(part.text or "" for part in events[-1].content.parts),
        "tool_calls": [
            {"tool": each.name, "arguments": each.args, "id": each.id, "output": outputs[each.id]}
            for event in events
            for each in event.get_function_calls()
            if each.name != "set_model_response"
        ],
    }
