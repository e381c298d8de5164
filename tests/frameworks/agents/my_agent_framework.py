"""Microsoft Agent Framework: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from tools import ALL, OrderStatus, Task, answer, behind, call, said


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


def make() -> Agent:
    return good


async def run(agent: Agent, task: Task) -> dict[str, Any]:
    session = agent.create_session()
    for words in said(task):
        response = await agent.run(words, session=session)
    contents = [content for message in response.messages for content in message.contents]
    results = {each.call_id: each for each in contents if each.type == "function_result"}
    calls = [(each, results[each.call_id]) for each in contents if each.type == "function_call"]
    made = [
        call(
            each.name, each.arguments, each.call_id, str(done.exception or done.result),
            failed=bool(done.exception),
        )
        for each, done in calls
    ]  # fmt: skip
    return answer(response.value or response.text, *made)


by_hand, worse_by_hand, structured_by_hand = behind(run, lambda: good, lambda: worse, lambda: structured)
