"""Generate a suite of an archetype: the same request gives the same bytes."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass

from agent_eval.benchmarks.archetypes import Archetype, archetype
from agent_eval.benchmarks.cases import Recorder, case_of
from agent_eval.benchmarks.scenario import Json, Scenario
from agent_eval.benchmarks.twists import combined, varied
from agent_eval.contracts import SCHEMA_VERSION

TWO_OF = 0.4
"""Share of the cases that ask for two things, where these go together."""

_CASE_ID = re.compile(r"(?P<archetype>[a-z_]+)-(?P<seed>-?\d+)-(?P<number>\d{4,})-[a-z_]+")


@dataclass(frozen=True)
class SuiteRequest:
    """Which suite to generate; `with_traces` adds the traces of an agent that does everything right."""

    archetype: str
    cases: int
    seed: int = 0
    with_traces: bool = False


def generate_suite(request: SuiteRequest) -> Json:
    """Generate a suite, as JSON values.

    The first cases of a larger suite of the same seed are those of a smaller one, and no definition of a case
    depends on whether it has a trace, so that two such suites can be compared.
    """
    of = archetype(request.archetype)
    cases = []
    for number in range(request.cases):
        case_id, scenario = scenario_of(of, request.seed, number)
        cases.append(case_of(scenario, of, case_id))
        if request.with_traces:
            cases[-1]["trace"] = numbered(record(scenario, case_id))
    benchmarks = [case["metadata"]["benchmark"] for case in cases]
    traps = Counter(each["trap"] for each in benchmarks if each["trap"])
    about = {
        "archetype": request.archetype,
        "seed": request.seed,
        "scenarios": len({each["scenario"] for each in benchmarks}),
        "traps": dict(sorted(traps.items())),
    }
    return {
        "dataset_id": f"{request.archetype}_{request.cases}",
        "metadata": {"schema_version": SCHEMA_VERSION, "benchmark": about},
        "cases": cases,
    }


def scenario_of(of: Archetype, seed: int, number: int) -> tuple[str, Scenario]:
    """Make the scenario of the case at a place of a suite, from 0, with the id of that case.

    Each scenario comes once in every round of all of them, in an order of the round's own.
    """
    turn, place = divmod(number, len(of.scenarios))
    order = list(of.scenarios)
    random.Random(f"{of.name}/{seed}/round {turn}").shuffle(order)
    rng = random.Random(f"{of.name}/{seed}/{number}")
    plain = order[place](rng)
    other = rng.choice(of.scenarios)(rng)
    two = combined(plain, other) if other.name != plain.name and rng.random() < TWO_OF else None
    scenario = varied(two or plain, of, rng)
    return f"{of.name}-{seed}-{number:04d}-{scenario.name}", scenario


def scenario_of_case(case_id: str) -> Scenario | None:
    """Make the scenario of a generated case again; None if the id is of no such case."""
    match = _CASE_ID.fullmatch(case_id)
    if match is None:
        return None
    made_id, scenario = scenario_of(archetype(match["archetype"]), int(match["seed"]), int(match["number"]))
    return scenario if made_id == case_id else None


def record(scenario: Scenario, case_id: str) -> list[Json]:
    """Record the right way of a scenario, as events without numbers."""
    return Recorder(random.Random(f"{case_id}/trace")).record(scenario.request, scenario.script)


def numbered(events: list[Json]) -> list[Json]:
    """Return events with their indices; one that has a number keeps it."""
    return [{"idx": number, **event} for number, event in enumerate(events)]
