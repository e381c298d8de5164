"""LangGraph: agent objects."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from tools import ALL, OrderStatus

TOOLS = [tool(each) for each in ALL]
good = create_agent(ChatOpenAI(model="good"), TOOLS)
worse = create_agent(ChatOpenAI(model="worse"), TOOLS)
structured = create_agent(ChatOpenAI(model="good"), TOOLS, response_format=ToolStrategy(OrderStatus))
broken = create_agent(ChatOpenAI(model="broken", max_retries=0), TOOLS)


@tool
async def ask_orders(question: str) -> str:
    """Ask about orders."""
    state = await good.ainvoke({"messages": [("user", question)]})
    return str(state["messages"][-1].text)


def _ask_orders(question: str) -> str:
    """Ask about orders."""
    return str(good.invoke({"messages": [("user", question)]})["messages"][-1].text)


nested = create_agent(ChatOpenAI(model="delegate"), [ask_orders])
nested_in_a_tool = create_agent(ChatOpenAI(model="delegate"), [tool("ask_orders")(_ask_orders)])
