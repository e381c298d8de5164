"""Strands: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from tools import ALL, OrderStatus, Task, answer, behind, call, said

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


def make() -> Agent:
    return good


async def run(agent: Agent, task: Task) -> dict[str, Any]:
    for words in said(task):
        known = len(agent.messages)
        result = await agent.invoke_async(words)
    blocks = [block for message in agent.messages[known:] for block in message["content"]]
    results = {each["toolResult"]["toolUseId"]: each["toolResult"] for each in blocks if "toolResult" in each}
    calls = [(each["toolUse"], results[each["toolUse"]["toolUseId"]]) for each in blocks if "toolUse" in each]
    made = [
        call(
            each["name"], each["input"], each["toolUseId"], done["content"][0]["text"],
            failed=done["status"] == "error",
        )
        for each, done in calls
        if each["name"] != "OrderStatus"
    ]  # fmt: skip
    return answer(result.structured_output or str(result).strip(), *made)


by_hand, worse_by_hand = behind(run, build, lambda: build("worse"))
(structured_by_hand,) = behind(run, lambda: build(structured_output_model=OrderStatus))
