"""Render the plan of a run of conversations for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

_SHOWN = 60


class Planned(Protocol):
    """What is rendered: a plan, as plain data."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        ...


def plan_text(plan: Planned) -> list[str]:
    """Render a plan: each test with its turns and evaluations, then the calls and what they would cost."""
    return list(_lines(plan.to_json()))


def _lines(plan: dict[str, Any]) -> Iterator[str]:
    tests, loops = plan["tests"], plan["loops"]
    out = f", {count(plan['left_out'], 'more test')} left out" if plan["left_out"] else ""
    times = f", each {loops} times" if loops > 1 else ""
    yield f"{clean(plan['suite'], limit=200)}: {count(len(tests), 'test')}{out}{times}"
    yield f"Agent {clean(plan['agent'], limit=200)}; judge and user: {clean(plan['model'], limit=100)}"
    yield ""
    for test in tests[:_SHOWN]:
        yield from _test_lines(test)
    if len(tests) > _SHOWN:
        yield f"  and {count(len(tests) - _SHOWN, 'more test')}"
    yield ""
    yield from _totals(plan)


def _test_lines(test: dict[str, Any]) -> Iterator[str]:
    yield f"  {clean(test['name'], limit=100)}"
    parts = [
        f"{test[name]} {word}"
        for name, word in (("fixed", "fixed"), ("simulated", "auto"), ("padding", "padding"))
        if test[name]
    ]
    strict = sum(test["strict"].values())
    tags = f"; {clean(', '.join(test['tags']), limit=100)}" if test["tags"] else ""
    turns = f"{count(test['turns'], 'turn')} ({', '.join(parts)})"
    yield f"    {turns}, {strict} strict and {test['criteria']} LLM{tags}"


def _totals(plan: dict[str, Any]) -> Iterator[str]:
    kinds = ", ".join(f"{name} {number}" for name, number in plan["evaluations"]["strict"].items())
    strict = sum(plan["evaluations"]["strict"].values())
    yield f"Evaluations: {strict} strict ({kinds or 'none'}), {plan['evaluations']['llm']} by a model"
    calls = plan["model_calls"]
    yield f"Messages to the agent: at most {plan['agent_calls_at_most']:,}"
    yield f"Calls of the model: {calls['judge']:,} as judge, at most {calls['simulate_at_most']:,} as user"
    cost = plan["estimated_cost_usd_at_most"]
    words = (
        "unknown, the price of this model is not known" if cost is None else f"at most about {cost:,.2f} USD"
    )
    yield f"Cost of the model: {words}"
