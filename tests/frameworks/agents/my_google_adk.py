"""Google ADK: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

import json
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from tools import ALL, OrderStatus, Task, answer, behind, call, said


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


async def run(agent: Any, task: Task) -> dict[str, Any]:
    runner = InMemoryRunner(agent=agent, app_name="by_hand")
    session = await runner.session_service.create_session(app_name="by_hand", user_id="me")
    for words in said(task):
        options = {"user_id": "me", "session_id": session.id, "new_message": types.UserContent(words)}
        events = [event async for event in runner.run_async(**options)]
    outputs = {each.id: each.response for event in events for each in event.get_function_responses()}
    calls = [each for event in events for each in event.get_function_calls()]
    output = "".join(part.text or "" for part in events[-1].content.parts)
    made = [
        call(each.name, each.args, each.id, outputs[each.id])
        for each in calls
        if each.name != "set_model_response"
    ]
    return answer(json.loads(output) if agent is structured else output, *made)


by_hand, worse_by_hand, structured_by_hand = behind(run, lambda: good, lambda: worse, lambda: structured)
