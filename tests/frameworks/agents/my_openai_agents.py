"""OpenAI Agents: agent objects."""

from __future__ import annotations

from typing import Any

from agents import Agent, GuardrailFunctionOutput, Runner, function_tool, input_guardrail
from tools import ALL, OrderStatus

TOOLS = [function_tool(tool) for tool in ALL]
good = Agent(name="support", model="good", tools=TOOLS)
worse = Agent(name="support", model="worse", tools=TOOLS)
structured = Agent(name="support", model="good", tools=TOOLS, output_type=OrderStatus)
broken = Agent(name="support", model="broken", tools=TOOLS)
nested = Agent(name="front", model="delegate", tools=[good.as_tool("ask_orders", "Ask about orders.")])


@function_tool
async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str((await Runner.run(good, question)).final_output)


nested_in_a_tool = Agent(name="front", model="delegate", tools=[ask_orders])


@input_guardrail
async def no_secrets(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput("it asks for a secret", "secret" in str(given))


guarded = Agent(name="support", model="good", tools=TOOLS, input_guardrails=[no_secrets])
