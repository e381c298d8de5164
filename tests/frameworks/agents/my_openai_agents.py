"""OpenAI Agents: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from agents import Agent, GuardrailFunctionOutput, Runner, function_tool, input_guardrail
from tools import ALL, OrderStatus, Task, answer, behind, call, said

TOOLS = [function_tool(tool) for tool in ALL]
good = Agent(name="support", model="good", tools=TOOLS)
worse = Agent(name="support", model="worse", tools=TOOLS)
structured = Agent(name="support", model="good", tools=TOOLS, output_type=OrderStatus)
broken = Agent(name="support", model="broken", tools=TOOLS)
nested = Agent(name="front", model="delegate", tools=[good.as_tool("ask_orders", "Ask about orders.")])
handing_over = Agent(name="front", model="delegate", handoffs=[good])


@function_tool
async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str((await Runner.run(good, question)).final_output)


nested_in_a_tool = Agent(name="front", model="delegate", tools=[ask_orders])


@input_guardrail
async def no_secrets(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput("it asks for a secret", "secret" in str(given))


guarded = Agent(name="support", model="good", tools=TOOLS, input_guardrails=[no_secrets])


def make() -> Agent:
    return good


async def run(agent: Any, task: Task) -> dict[str, Any]:
    items = [{"role": "user", "content": words} for words in said(task)]
    result = await Runner.run(agent, items)
    done = [item for item in result.new_items if item.type == "tool_call_output_item"]
    outputs = {item.raw_item["call_id"]: item.output for item in done}
    calls = [item.raw_item for item in result.new_items if item.type == "tool_call_item"]
    return answer(
        result.final_output,
        *(call(each.name, each.arguments, each.call_id, outputs[each.call_id]) for each in calls),
    )


by_hand, worse_by_hand, structured_by_hand = behind(run, lambda: good, lambda: worse, lambda: structured)
