"""OpenAI Agents: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from agents import Agent, GuardrailFunctionOutput, Runner, function_tool, input_guardrail
from pydantic import BaseModel
from tools import ALL


class OrderStatus(BaseModel):
    status: str
    celsius: int


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


async def by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(good, task)


async def worse_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(worse, task)


async def structured_by_hand(task: dict[str, Any]) -> dict[str, Any]:
    return await run(structured, task)


async def run(agent: Any, task: dict[str, Any]) -> dict[str, Any]:
    said = [{"role": "user", "content": turn["input"]} for turn in task.get("history", [])]
    result = await Runner.run(agent, [*said, {"role": "user", "content": task["input"]}])
    answers = [item for item in result.new_items if item.type == "tool_call_output_item"]
    outputs = {item.raw_item["call_id"]: item.output for item in answers}
    calls = [item.raw_item for item in result.new_items if item.type == "tool_call_item"]
    output = result.final_output
    return {
        "assistant_output": output if isinstance(output, str) else output.model_dump(),
        "tool_calls": [
            {
                "tool": each.name,
                "arguments": each.arguments,
                "id": each.call_id,
                "output": outputs[each.call_id],
            }
            for each in calls
        ],
    }
