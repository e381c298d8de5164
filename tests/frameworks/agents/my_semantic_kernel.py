"""Semantic Kernel: agent objects."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.functions import KernelArguments, KernelFunctionFromMethod, KernelPlugin, kernel_function
from tools import ALL, OrderStatus


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
