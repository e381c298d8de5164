"""Tasks and surroundings for tests of agents."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_eval.agents.base import Agent, AttemptResult, Clocks, Surroundings, Task
from agent_eval.agents.catalog import AGENTS, open_agent
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import AttemptLimits, Case
from agent_eval.models.retries import Reply, T

AGENT_FORMS = {kind.name: kind.form.partition(" or ")[0] for kind in AGENTS.values()}
"""An agent of every kind, written as messages show the kind; for `python:`, see `write_agent_module`."""

START = datetime(2026, 11, 21, 8, tzinfo=UTC)


def make_task(
    given: Any = "hi", *, limits: AttemptLimits | None = None, metadata: Any = None, **fields: Any
) -> Task:
    """A task on a case with this input; `fields` are the task's, except those that a case has."""
    own = {name: fields.pop(name) for name in list(fields) if name in Case.model_fields}
    case = Case.model_validate({"case_id": "c1", "input": given, "metadata": metadata or {}, **own})
    return Task(case, limits=limits or AttemptLimits(), **fields)


def write_agent_module(folder: Path) -> None:
    """Write the module that `python:MODULE:NAME` names."""
    (folder / "MODULE.py").write_text("def NAME(task): return 'just text'\n", encoding="utf-8")


STILL = Clocks(lambda: START, lambda: 0.0)


class Retries:
    """Tries again at once, and remembers what it was asked to wait."""

    def __init__(self, most: int = 3) -> None:
        self.most = most
        self.asked: list[float | None] = []
        self.limited: list[bool] = []

    def __call__(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
        for attempt in range(self.most + 1):
            sent = send()
            if not sent.is_infrastructure or sent.is_final or attempt == self.most:
                return sent, attempt
            self.asked.append(sent.asked_wait)
            self.limited.append(sent.rate_limited)
        raise AssertionError


def around(
    task: Task,
    *,
    strict: bool = False,
    clocks: Clocks | None = None,
    retry: Any = None,
    beyond: Any = None,
    alone: bool = False,
) -> Surroundings:
    """Surroundings with the case's own tools and a clock that stands still."""
    return Surroundings(
        CaseTools(task.case, strict=strict, beyond=beyond),
        clocks=clocks or STILL,
        retry=retry or Retries(0),
        alone=alone,
    )


def attempt(agent: Agent | str, given: Any = "hi", **fields: Any) -> AttemptResult:
    """One attempt at a case with this input; an agent that is only named is opened for it, and closed."""
    own = {name: fields.pop(name) for name in inspect.signature(around).parameters if name in fields}
    task = make_task(given, **fields)
    opened = open_agent(agent) if isinstance(agent, str) else agent
    try:
        return opened.attempt(task, around(task, **own))
    finally:
        if isinstance(agent, str):
            opened.close()


def told(result: Any) -> list[tuple[Any, ...]]:
    """Events in short: who, what, tool, input or output, error."""
    return [
        (
            event.actor,
            event.type,
            event.tool,
            event.output if event.input is None else event.input,
            event.error,
        )
        for event in result.events
    ]
