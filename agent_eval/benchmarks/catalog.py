"""The archetypes by name. A new one is a package of scenarios and a row here."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from agent_eval.benchmarks.scenario import Injection, Scenario, Tool
from agent_eval.errors import UsageError

ARCHETYPES: Mapping[str, str] = {
    "support_agent": "agent_eval.benchmarks.support_agent",
    "research_agent": "agent_eval.benchmarks.research_agent",
    "ops_agent": "agent_eval.benchmarks.ops_agent",
    "coding_agent": "agent_eval.benchmarks.coding_agent",
}
"""Packages of scenarios by the name of their archetype, as `--archetype` takes it."""


@dataclass(frozen=True)
class Archetype:
    """What an archetype's scenarios are made of.

    Attributes:
        scenarios: Functions that make a scenario, each with data of its own choice.
        notes: Harmless texts of other people.
        injections: Makes the instructions that others write into its data.
    """

    name: str
    tools: Mapping[str, Tool]
    scenarios: tuple[Callable[[random.Random], Scenario], ...]
    notes: tuple[str, ...]
    injections: Callable[[random.Random], tuple[Injection, ...]]


@cache
def archetype(name: str) -> Archetype:
    """Load an archetype."""
    if name not in ARCHETYPES:
        raise UsageError(f"there is no archetype {name!r}", remedy=f"Name one of: {', '.join(ARCHETYPES)}.")
    module = importlib.import_module(ARCHETYPES[name])
    return Archetype(name, module.TOOLS, module.SCENARIOS, module.NOTES, module.injections)
