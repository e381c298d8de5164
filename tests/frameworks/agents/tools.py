"""What all agents share: tools as plain functions, and a structured answer.

Each run of a tool leaves a line in the file that `RAN` names.
"""

from __future__ import annotations

import os
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
