"""smolagents: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from smolagents import CodeAgent, OpenAIServerModel, Tool, ToolCallingAgent
from tools import Task, answer, behind, call, delete_account, get_weather, lookup_order, said


class Weather(Tool):
    name, description, output_type = "get_weather", "The weather in a city.", "object"
    inputs = {"city": {"type": "string", "description": "The city."}}  # noqa: RUF012 - as smolagents wants it

    def forward(self, city: str) -> Any:
        return get_weather(city)


class Order(Tool):
    name, description, output_type = "lookup_order", "Where an order is.", "string"
    inputs = {"number": {"type": "integer", "description": "Its number."}}  # noqa: RUF012

    def forward(self, number: int) -> Any:
        return lookup_order(number)


class Delete(Tool):
    name, description, output_type = "delete_account", "Delete the account.", "string"
    inputs = {}  # noqa: RUF012

    def forward(self) -> Any:
        return delete_account()


def build(model: str = "good", **options: Any) -> ToolCallingAgent:
    options.setdefault("tools", [Weather(), Order(), Delete()])
    return ToolCallingAgent(model=_model(model), verbosity_level=0, **options)


def _model(name: str) -> OpenAIServerModel:
    return OpenAIServerModel(name, api_base=os.environ["OPENAI_BASE_URL"], api_key="x")


good = build()
worse = build("worse")
broken = build("broken")
code = CodeAgent(tools=[], model=_model("good"))
nested = build("delegate", tools=[], managed_agents=[build(name="ask_orders", description="Orders.")])


class Ask(Tool):
    name, description, output_type = "ask_orders", "Ask about orders.", "string"
    inputs = {"question": {"type": "string", "description": "What to ask."}}  # noqa: RUF012

    def forward(self, question: str) -> Any:
        return build().run(question)


nested_in_a_tool = build("delegate", tools=[Ask()])


def make() -> ToolCallingAgent:
    return good


async def run(agent: ToolCallingAgent, task: Task) -> dict[str, Any]:
    known, output = 0, None
    for number, words in enumerate(said(task)):
        known = len(agent.memory.steps)
        output = await asyncio.to_thread(agent.run, words, reset=number == 0)
    steps = [step for step in agent.memory.steps[known:] if hasattr(step, "error")]
    made = [
        call(
            each.function.name, each.function.arguments, f"{step.step_number}-{each.id}",
            str(step.error or step.observations), failed=bool(step.error),
        )
        for step in steps
        for each in step.model_output_message.tool_calls
        if each.function.name != "final_answer"
    ]  # fmt: skip
    return answer(output, *made)


by_hand, worse_by_hand = behind(run, build, lambda: build("worse"))
