"""LlamaIndex: agent objects."""

from __future__ import annotations

import os
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from tools import ALL, OrderStatus


def build(model: str = "good", **options: Any) -> FunctionAgent:
    llm = OpenAILike(
        model, api_base=os.environ["OPENAI_BASE_URL"], api_key="x", is_chat_model=True,
        is_function_calling_model=True, max_retries=0,
    )  # fmt: skip
    options.setdefault("tools", list(ALL))
    return FunctionAgent(llm=llm, name="support", description="Answers.", streaming=False, **options)


good = build()
worse = build("worse")
structured = build(output_cls=OrderStatus)
broken = build("broken")


async def ask_orders(question: str) -> str:
    """Ask about orders."""
    return str(await good.run(user_msg=question))


nested = build("delegate", tools=[ask_orders])
nested_in_a_tool = AgentWorkflow(agents=[nested])
