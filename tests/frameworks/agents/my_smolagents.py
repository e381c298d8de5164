"""smolagents: agent objects."""

from __future__ import annotations

import os
from typing import Any

from smolagents import OpenAIServerModel, Tool, ToolCallingAgent
from tools import delete_account, get_weather, lookup_order


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
nested = build("delegate", tools=[], managed_agents=[build(name="ask_orders", description="Orders.")])


class Ask(Tool):
    name, description, output_type = "ask_orders", "Ask about orders.", "string"
    inputs = {"question": {"type": "string", "description": "What to ask."}}  # noqa: RUF012

    def forward(self, question: str) -> Any:
        return build().run(question)


nested_in_a_tool = build("delegate", tools=[Ask()])
