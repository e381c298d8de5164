"""AutoGen: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from tools import ALL, OrderStatus, Task, answer, behind, call, said

ABOUT = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True}


def build(model: str = "good", name: str = "support", **options: Any) -> AssistantAgent:
    client = OpenAIChatCompletionClient(model=model, model_info={**ABOUT, "family": "unknown"}, max_retries=0)
    options.setdefault("tools", [FunctionTool(each, each.__doc__, strict=True) for each in ALL])
    return AssistantAgent(name, client, description="Answers.", max_tool_iterations=50, **options)


good = build()
worse = build("worse")
structured = build(output_content_type=OrderStatus)
broken = build("broken")
team = RoundRobinGroupChat([build()], termination_condition=MaxMessageTermination(2))
nested = build("delegate", tools=[AgentTool(build(name="ask_orders"))])


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return (await build().run(task=question)).messages[-1].content


nested_in_a_tool = build("delegate", tools=[ask_orders])


def make() -> AssistantAgent:
    return good


async def run(agent: AssistantAgent, task: Task) -> dict[str, Any]:
    parts: dict[str, list[Any]] = {"ToolCallRequestEvent": [], "ToolCallExecutionEvent": []}
    for words in said(task):
        messages = (await agent.run(task=words)).messages
    for message in messages:
        parts.get(type(message).__name__, []).extend(message.content)
    calls, results = parts.values()
    done = {each.call_id: each for each in results}
    made = [
        call(each.name, each.arguments, each.id, done[each.id].content, failed=done[each.id].is_error)
        for each in calls
    ]
    return answer(messages[-1].content, *made)


by_hand, worse_by_hand = behind(run, build, lambda: build("worse"))
(structured_by_hand,) = behind(run, lambda: build(output_content_type=OrderStatus))
