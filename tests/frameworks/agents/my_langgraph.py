"""LangGraph: agent objects, and the same agent behind a function written by hand."""

from __future__ import annotations

from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from tools import ALL, OrderStatus, Task, answer, behind, call, said

TOOLS = [tool(each) for each in ALL]
good = create_agent(ChatOpenAI(model="good"), TOOLS)
worse = create_agent(ChatOpenAI(model="worse"), TOOLS)
remembering = create_agent(ChatOpenAI(model="good"), TOOLS, checkpointer=InMemorySaver())
structured = create_agent(ChatOpenAI(model="good"), TOOLS, response_format=ToolStrategy(OrderStatus))
broken = create_agent(ChatOpenAI(model="broken", max_retries=0), TOOLS)
chain = ChatPromptTemplate.from_messages([("user", "{question}")]) | ChatOpenAI(model="good")


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


class Count(TypedDict):
    number: int


uncompiled = StateGraph(Count).add_node("add", lambda state: {"number": state["number"] + 1})
uncompiled.add_edge(START, "add")
counting = uncompiled.compile()


def make() -> Any:
    return good


async def run(graph: Any, task: Task) -> dict[str, Any]:
    *before, last = [("user", words) for words in said(task)]
    state = await graph.ainvoke({"messages": [*before, last]})
    messages = state["messages"][len(before) :]
    outputs = {each.tool_call_id: each.content for each in messages if each.type == "tool"}
    calls = [each for message in messages if message.type == "ai" for each in message.tool_calls]
    made = [
        call(each["name"], each["args"], each["id"], outputs[each["id"]])
        for each in calls
        if each["name"] != "OrderStatus"
    ]
    return answer(state.get("structured_response", messages[-1].text), *made)


by_hand, worse_by_hand, structured_by_hand = behind(run, lambda: good, lambda: worse, lambda: structured)
