"""Simulate the gate's procedure: `python -m benchmarks.procedure_simulation [REPETITIONS]` writes results.

It drives the gate's own functions: the question is built from records of counts, `gate.rerun` runs what it
asks through a runner that draws each trial, and `gate.answer` says how it ends. What is simulated is an agent
whose cases pass with known chances, nothing of the gate. Standard library only; a run of the defaults takes
about an hour on one core. Shares are in per cent; with 600 repetitions the standard error of one near 2 % is
0.6 points, of one near 50 % 2 points.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import sqrt
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Any

from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Figures, Rerun, Side, SuiteRound, TrialCounts
from agent_eval.gate.answer import Answer, answer
from agent_eval.gate.procedure import HISTORY, Counts, question
from agent_eval.gate.rerun import BaseAgent, Cut, rerun
from agent_eval.gate.waivers import Excuses

RESULTS = Path(__file__).with_name("results")
TABLE = RESULTS / "procedure_simulation.json"
REPETITIONS = 300
SIZES = (8, 20, 50, 100, 200)
_NORMAL = NormalDist()

Rates = list[float]


def deterministic(_source: Random, number: int) -> Rates:
    """Cases that always pass."""
    return [1.0] * number


def flaky(source: Random, number: int, share: float = 0.2) -> Rates:
    """A share of the cases passes with a chance between .5 and .95, the others always."""
    rates = [source.uniform(0.5, 0.95) for _ in range(round(number * share))]
    rates += [1.0] * (number - len(rates))
    source.shuffle(rates)
    return rates


def noisy(_source: Random, number: int) -> Rates:
    """Every case passes with a chance of .95, as with a judge that errs in 5 % of its verdicts."""
    return [0.95] * number


TAU = {0: 14, 1: 12, 2: 10, 3: 4, 4: 10}
"""Cases of tau-bench's airline suite (gpt-4o) by how many of their 4 published trials passed."""


def tau(source: Random, number: int) -> Rates:
    """Chances like those of an agent on tau-bench: each case fails and passes often."""
    passed = source.choices(list(TAU), weights=list(TAU.values()), k=number)
    rates = [source.betavariate(of_four + 0.35, 4 - of_four + 0.45) for of_four in passed]
    return [1.0 if rate > 0.98 else 0.0 if rate < 0.02 else rate for rate in rates]


POPULATIONS: Mapping[str, Callable[[Random, int], Rates]] = {
    "deterministic": deterministic,
    "flaky": flaky,
    "noisy": noisy,
    "tau": tau,
    "family": flaky,
}
SHARED_LUCK = {"family": 0.4}
"""Correlation of the cases of a family, ten neighbours, within a run."""

EVENTS = ("unchanged", "one breaks", "one to 10 %", "ten break", "all -10", "both -10", "outage", "burst")


def event(source: Random, rates: Rates, name: str) -> tuple[Rates, Rates]:
    """The chances of the change, and of the base now, after an event."""
    change = list(rates)
    steadiest = [place for place, rate in enumerate(rates) if rate == max(rates)]
    mean = sum(rates) / len(rates)
    if name in ("one breaks", "one to 10 %", "one breaks in a burst"):
        change[source.choice(steadiest)] = 0.1 if name == "one to 10 %" else 0.0
    elif name in ("ten break", "ten break on both"):
        first = source.randrange(max(1, len(rates) // 10)) * 10
        change[first : first + 10] = [0.0] * len(change[first : first + 10])
    elif name in ("all -10", "both -10"):
        change = [rate * (1 - 0.1 / mean) if mean > 0.25 else rate * 0.1 for rate in rates]
    elif name == "outage":
        change = [rate * 0.9 for rate in rates]
    return change, list(change) if name in ("both -10", "outage", "ten break on both") else list(rates)


_quantile = cache(_NORMAL.inv_cdf)


def run_once(source: Random, rates: Rates, luck: float = 0.0, hour: Random | None = None) -> list[bool]:
    """One trial of each case; cases of a family share some luck, which is that of the hour."""
    if not luck:
        return [source.random() < rate for rate in rates]
    passed = []
    for place, rate in enumerate(rates):
        if place % 10 == 0:
            shared = (hour or source).gauss(0, 1)
        drawn = sqrt(luck) * shared + sqrt(1 - luck) * source.gauss(0, 1)
        passed.append(rate >= 1 or (rate > 0 and drawn < _quantile(rate)))
    return passed


def record(run_id: str, trials: Sequence[Sequence[bool]]) -> RunRecord:
    """The counts of a run: the trials of all cases, one list a trial."""
    cases = {}
    for place in range(len(trials[0])):
        passed, name = sum(trial[place] for trial in trials), f"{place:03}"
        missed = {"agent": len(trials) - passed} if passed < len(trials) else {}
        cases[name] = CaseRecord.model_construct(
            case_id=name, definition="d", passed=passed, scored=len(trials), missed=missed, lost={},
            failing={}, hard_failed=0, cost_usd=None, latency_ms=None,
        )  # fmt: skip
    run = HistoryRun(
        schema_version="1.2.0",
        run_id=run_id,
        dataset_id="simulated",
        key="k",
        started_at="2026-01-01T00:00Z",
        cases=len(cases),
    )
    return RunRecord(run, cases)


@dataclass
class Drawn:
    """Runs trials by drawing them, and counts them; ends after `most` of them."""

    source: Random
    rates: Mapping[str, Mapping[Side, Rates]]
    number: int = 1
    luck: float = 0.0
    most: float = float("inf")
    run: Counter[str] = field(default_factory=Counter)

    def trials(self, slug: str, side: Side, case_ids: Sequence[str]) -> Mapping[str, Rerun]:
        """Draw one trial of each case."""
        if self.run.total() >= self.most:
            raise Cut("the time of the run was used up")
        self.run[slug] += len(case_ids)
        of_side = self.rates[slug][side]
        drawn = {case_id: self.source.random() < of_side[int(case_id)] for case_id in case_ids}
        return {case_id: _PASSED if passed else _FAILED for case_id, passed in drawn.items()}

    def whole_suite(self, slug: str, sides: Sequence[Side]) -> tuple[SuiteRound, Mapping[Side, Figures]]:
        """Draw a run of the whole suite by each side; within a family both share the luck of the hour."""
        done, begun = SuiteRound(), self.source.random()
        for side in sides:
            of_side, hour = self.rates[slug][side], Random(begun)
            self.run[slug] += self.number * len(of_side)
            trials = [run_once(self.source, of_side, self.luck, hour) for _ in range(self.number)]
            counts = {
                f"{place:03}": TrialCounts(passed=sum(trial[place] for trial in trials), trials=self.number)
                for place in range(len(of_side))
            }
            (done.base if side == "base" else done.change).update(counts)
        return done, {}

    def altered(self, _slug: str) -> Mapping[Side, str]:
        """No side alters the other."""
        return {}


_PASSED, _FAILED = Rerun(result="passed"), Rerun(result="failed")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is simulated."""

    population: str
    cases: int
    event: str = "unchanged"
    main_runs: int = HISTORY
    main_trials: int = 1
    trials: int = 1
    suites: int = 1
    base: BaseAgent = field(default_factory=BaseAgent)
    most: float = float("inf")


@dataclass
class Ends:
    """How jobs of a setting ended, and trials a case that each took, the first run among them."""

    ends: Counter[str] = field(default_factory=Counter)
    trials: int = 0
    jobs: int = 0
    cases: int = 0

    def share(self, end: str) -> float:
        """Share of the jobs that ended so, in per cent."""
        return 100 * self.ends[end] / self.jobs

    def to_json(self) -> dict[str, float]:
        """Shares in per cent, and runs a case."""
        shown = {end: round(self.share(end), 2) for end in ("blocked", "not settled", "passed")}
        return {**shown, "runs": round(self.trials / self.cases, 2), "jobs": self.jobs}


def job(source: Random, setting: Setting) -> tuple[str, int]:
    """Simulate one job; how it ends, and how many trials it took."""
    luck = SHARED_LUCK.get(setting.population, 0.0)
    rates: dict[str, dict[Side, Rates]] = {}
    questions = {}
    for slug in (f"s{place}" for place in range(setting.suites)):
        before = POPULATIONS[setting.population](source, setting.cases)
        change, base = event(source, before, setting.event if slug == "s0" else "unchanged")
        rates[slug] = {"base": base, "change": change}
        main = [
            record(f"m{place}", [run_once(source, before, luck) for _ in range(setting.main_trials)])
            for place in range(setting.main_runs)
        ]
        is_burst = setting.event in ("burst", "one breaks in a burst")
        now = [rate * 0.9 for rate in change] if is_burst else change
        own = record("own", [run_once(source, now, luck) for _ in range(setting.trials)])
        counts = Counts(own=own, main=main, baseline=main[0], newest=main[0])
        seed = str(source.getrandbits(32))
        questions[slug] = question(counts, GatePolicy(), Excuses(), seed=seed, may_rerun=True)
    runner = Drawn(source, rates, setting.trials, luck, setting.most)
    records = rerun(questions, runner, setting.base)
    answers = [answer(questions[slug], records[slug]) for slug in questions]
    first = setting.suites * setting.cases * setting.trials
    return end_of(answers), first + runner.run.total()


def end_of(answers: Sequence[Answer]) -> str:
    """How a job with these answers ends."""
    if any(of_suite.failed for of_suite in answers):
        return "blocked"
    return "not settled" if any(of_suite.is_open for of_suite in answers) else "passed"


def simulate(setting: Setting, repetitions: int, seed: int = 7) -> Ends:
    """Simulate a number of jobs."""
    source, found = Random(seed), Ends()
    for _ in range(repetitions):
        end, trials = job(source, setting)
        found.ends[end] += 1
        found.trials += trials
        found.jobs += 1
        found.cases += setting.suites * setting.cases
    return found


_ON_BOTH = ("ten break on both", "one breaks in a burst")
_FEW = ("unchanged", "one breaks", "both -10")
_USUAL = ("unchanged", "one breaks", "one to 10 %", "both -10")
VARIANTS: Mapping[str, tuple[Sequence[str], Sequence[int], Sequence[str], Mapping[str, Any]]] = {
    "twenty runs of main": (tuple(POPULATIONS), SIZES, EVENTS, {}),
    "four runs of main": (("flaky", "tau"), SIZES, _FEW, {"main_runs": 4}),
    "one run of main, four trials": (("flaky", "tau"), SIZES, _FEW, {"main_runs": 1, "main_trials": 4}),
    "one run of main, one trial": (("flaky", "tau"), SIZES, _FEW, {"main_runs": 1}),
    "two trials": (("flaky",), SIZES[1:], ("unchanged", "all -10"), {"trials": 2}),
    "four trials": (("flaky",), SIZES[1:], ("unchanged", "all -10"), {"trials": 4}),
    "no base agent": (("flaky",), SIZES[1:], _USUAL, {"base": BaseAgent("none")}),
    "the base does not build": (("flaky",), SIZES[1:], _USUAL, {"base": BaseAgent(problem="no build")}),
    "cut after 40 reruns": (("flaky",), SIZES[1:], _USUAL, {"most": 40}),
    "on both sides": (("flaky",), SIZES[1:], _ON_BOTH, {}),
    "on both sides, isolated": (("flaky",), SIZES[1:], _ON_BOTH[:1], {"base": BaseAgent("isolated")}),
    "three suites": (("flaky",), (50,), ("unchanged", "one breaks", "all -10"), {"suites": 3}),
    "ten suites": (("flaky",), (50,), ("unchanged", "one breaks"), {"suites": 10}),
}
"""Tables of the results: populations, numbers of cases, events, and what else differs from a `Setting`."""


def settings() -> Iterator[tuple[str, Setting]]:
    """Every setting of the results, with the table that it is in."""
    for table, (populations, sizes, events, others) in VARIANTS.items():
        for population, cases, name in product(populations, sizes, events):
            if cases >= 10 or not name.startswith("ten"):
                yield table, Setting(population=population, cases=cases, event=name, **others)


def main(repetitions: int = REPETITIONS) -> None:
    """Simulate every setting, and write the results."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for table, setting in settings():
        times = 3 * repetitions if setting.event == "unchanged" else repetitions
        name = f"{setting.population} {setting.cases}, {setting.event}"
        found.setdefault(table, {})[name] = simulate(setting, times).to_json()
        print(table, name, found[table][name], flush=True)
    TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
