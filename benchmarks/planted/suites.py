"""Generated suites whose traces have known faults, or are unusual in harmless ways."""

from __future__ import annotations

import random
from collections import Counter

from agent_eval.benchmarks.archetypes import Json, archetype
from agent_eval.benchmarks.generate import SuiteRequest, generate_suite, numbered, record, scenario_of
from benchmarks.planted.fault import Subject
from benchmarks.planted.faults import PLANTED, Planter
from benchmarks.planted.oddities import OddityPlanter


def suite_with_faults(name: str, cases: int, *, seed: int = 0, rate: float) -> Json:
    """A suite of an archetype with traces, a fault in a share `rate` of them and an oddity in each other one.

    No definition of a case depends on that, so that it can be compared with the suite without faults.
    """
    suite = generate_suite(SuiteRequest(name, cases, seed))
    planter, oddities, faults = Planter(), OddityPlanter(), Counter[str]()
    for number, case in enumerate(suite["cases"]):
        case_id, scenario = scenario_of(archetype(name), seed, number)
        rng = random.Random(f"{case_id}/fault")
        subject = Subject(scenario, archetype(name), record(scenario, case_id), rng)
        # Evenly, so that of any number the share `rate` is chosen, rounded down.
        if int((number + 1) * rate + 1e-9) > int(number * rate + 1e-9):
            faults[planter.plant(subject).kind.value] += 1
        else:
            oddities.plant(subject)
        case["metadata"].update(subject.metadata)
        case["trace"] = numbered(subject.events)
    suite["metadata"]["benchmark"][PLANTED] = dict(sorted(faults.items()))
    return suite
