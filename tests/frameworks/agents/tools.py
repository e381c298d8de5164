"""What all agents share: tools as plain functions, a structured answer, and functions written by hand.

Each run of a tool leaves a line in the file that `RAN` names.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

Task = dict[str, Any]


class OrderStatus(BaseModel):
    status: str
    celsius: int


def _ran(name: str) -> None:
    with open(os.environ["RAN"], "a") as file:
        file.write(f"{name}\n")


def get_weather(city: str) -> dict[str, int]:
    """The weather in a city."""
    _ran("get_weather")
    return {"celsius": 18}


def lookup_order(number: int) -> str:
    """Where an order is."""
    _ran("lookup_order")
    if number == 13:
        raise LookupError("there is no order 13")
    return "delayed"


def delete_account() -> str:
    """Delete the account."""
    _ran("delete_account")
    return "deleted"


ALL = (get_weather, lookup_order, delete_account)


def behind(run: Callable[[Any, Task], Awaitable[dict[str, Any]]], *makers: Callable[[], Any]) -> Any:
    """Return a function for each agent, as somebody writes it who knows no agent objects."""

    def function(make: Callable[[], Any]) -> Any:
        async def by_hand(task: Task) -> dict[str, Any]:
            return await run(make(), task)

        return by_hand

    return map(function, makers)


def said(task: Task) -> list[str]:
    """What the user said, turn by turn."""
    return [*(turn["input"] for turn in task.get("history", [])), task["input"]]


def answer(output: Any, *calls: dict[str, Any]) -> dict[str, Any]:
    """What such a function returns."""
    output = output.model_dump() if isinstance(output, BaseModel) else output
    return {"assistant_output": output, "tool_calls": list(calls)}


def call(tool: str, arguments: Any, call_id: str, output: Any, *, failed: bool = False) -> dict[str, Any]:
    """A call of a tool in it."""
    return {"tool": tool, "arguments": arguments, "id": call_id, "error" if failed else "output": output}
