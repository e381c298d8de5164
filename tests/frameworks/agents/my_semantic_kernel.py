"""Semantic Kernel: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.functions import KernelArguments, KernelFunctionFromMethod, KernelPlugin, kernel_function
from tools import ALL, OrderStatus, Task, answer, behind, call, said


def plugin(*functions: Any) -> KernelPlugin:
    made = [KernelFunctionFromMethod(kernel_function(each), plugin_name="shop") for each in functions]
    return KernelPlugin(name="shop", functions=made)


def build(model: str = "good", name: str = "support", **options: Any) -> ChatCompletionAgent:
    options.setdefault("plugins", [plugin(*ALL)])
    return ChatCompletionAgent(
        service=OpenAIChatCompletion(ai_model_id=model, async_client=AsyncOpenAI(max_retries=0)),
        function_choice_behavior=FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=50), name=name,
        description="Answers.", **options,
    )  # fmt: skip


STRUCTURED = KernelArguments(OpenAIChatPromptExecutionSettings(response_format=OrderStatus))
good = build()
worse = build("worse")
structured = build(arguments=STRUCTURED)
broken = build("broken")
nested = build("delegate", plugins=[build(name="ask_orders")])


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str(await good.get_response(messages=question))


nested_in_a_tool = build("delegate", plugins=[plugin(ask_orders)])


def make() -> ChatCompletionAgent:
    return good


async def run(agent: ChatCompletionAgent, task: Task) -> dict[str, Any]:
    thread, steps, output = ChatHistoryAgentThread(), [], ""

    async def note(message: Any) -> None:
        steps.extend(message.items)

    for words in said(task):
        steps.clear()
        async for response in agent.invoke(messages=words, thread=thread, on_intermediate_message=note):
            output = response.message.content
    results = {each.id: each.result for each in steps if each.content_type == "function_result"}
    calls = [each for each in steps if each.content_type == "function_call"]
    if agent is structured:
        output = OrderStatus.model_validate_json(output)
    made = [
        call(
            each.name, each.arguments, each.id, str(results[each.id]), failed="error" in str(results[each.id])
        )
        for each in calls
    ]
    return answer(output, *made)


by_hand, worse_by_hand, structured_by_hand = behind(run, lambda: good, lambda: worse, lambda: structured)
