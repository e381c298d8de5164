"""How often the gate blocks, passes and leaves open, with each of its settings, and what that costs.

`gate_tables` runs this and writes the results. An experiment draws a suite, runs of the base branch and a
run of a change, and lets the gate's own steps decide with every setting. Seeded, standard library only;
every line has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from random import Random

from agent_eval.contracts import ComparedTopic, Comparison
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.looks import FIXED_TRIALS, LOOKS, policy_at_look
from benchmarks.gate_decisions import (
    HISTORY,
    Answer,
    answer,
    case_id,
    changed,
    comparison,
    confirm,
    evidence,
    pooled,
)
from benchmarks.population import TOPIC, Counts, Kind, joined, mean_rate, run, suite, worse

SEED = 20_260_101
EXPERIMENTS = 1_000
POLICY = GatePolicy()
CASES = (10, 30, 100, 300)
GUIDE_CASES = (20, 50, 200)
DISCORDANT = (0.05, 0.20, 0.40)
USUAL = 0.20
POOLED_RUNS = {1: HISTORY, 4: 8, FIXED_TRIALS: 8}
"""Pooled runs by trials a case: as many as it takes for 20 trials, and at least eight."""


@dataclass(frozen=True)
class Change:
    """What a change does to the agent.

    Attributes:
        name: As the tables name it.
        lost: The true drop of the mean pass rate; of a case or a topic, the share of its passes.
        kind: Where it comes from.
        of_both: Whether the agent of the merge base falls as well, today: another model, not the change.
    """

    name: str
    lost: float = 0.0
    kind: Kind = "spread"
    of_both: bool = False


UNCHANGED = Change("nothing changed")
SPREAD = tuple(Change(f"{lost:.0%} lost over all cases", lost) for lost in (0.05, 0.10, 0.20))
BROKEN = tuple(Change(f"{lost:.0%} lost by cases that broke", lost, "broken") for lost in (0.05, 0.10, 0.20))
OF_BOTH = Change("both agents lose 10% over all cases", 0.10, of_both=True)
CHANGES = (UNCHANGED, *SPREAD, *BROKEN, OF_BOTH)
FALSE_ALARMS = (UNCHANGED, OF_BOTH)
"""Changes that are not the candidate's."""
ONE_CASE = Change("one case that always passed broke", 1.0, "case")
ONE_TOPIC = Change("one topic of ten cases broke", 1.0, "topic")
GUIDE_CHANGES = (UNCHANGED, SPREAD[1], ONE_CASE, ONE_TOPIC)


CONFIRMS: Mapping[str, list[str]] = {
    "no": [],
    "all": ["confirmed"],
    "steady": ["confirmed, flaky tracked"],
    "majority": ["confirmed, flaky tracked, majority"],
}
"""What confirmation runs again, in words."""


@dataclass(frozen=True, order=True)
class Setting:
    """What is switched on.

    Attributes:
        trials: Of each case; 0 for `auto`.
        is_pooled: Whether several runs of the base branch are the baseline (`baseline-runs`).
        confirms: `no`, `all` for every case that newly fails, `steady` where flaky cases are tracked,
            `majority` where in addition a case passes where more than half of its trials do.
        has_topics: Whether each ten cases have a topic.
    """

    trials: int
    is_pooled: bool = False
    confirms: str = "no"
    has_topics: bool = False

    @property
    def name(self) -> str:
        """The setting in words, such as `auto, pooled, confirmed`."""
        words = [f"{self.trials} trial{'s' if self.trials > 1 else ''}" if self.trials else "auto"]
        words += ["pooled"] if self.is_pooled else []
        words += CONFIRMS[self.confirms]
        words += ["topics"] if self.has_topics else []
        return ", ".join(words)


SETTINGS = tuple(
    Setting(trials, is_pooled, confirms)
    for trials, is_pooled, confirms in product((1, 4, 0), (False, True), CONFIRMS)
    if trials != 1 or confirms != "majority"
)
AS_IT_COMES = Setting(1)
GUIDE_SETTINGS = (
    AS_IT_COMES,
    Setting(1, confirms="steady"),
    Setting(1, has_topics=True),
    Setting(1, is_pooled=True),
    Setting(4),
    Setting(0),
    Setting(0, is_pooled=True),
    Setting(0, is_pooled=True, confirms="majority"),
)


@dataclass(frozen=True)
class Line:
    """What a setting did with a change: shares of the experiments, and trials of a case spent on average.

    Attributes:
        cases: Cases of the suite.
        discordant: Share of them that differ between two single runs of one agent.
        change: Name of what changed.
        setting: Name of the setting.
        experiments: How many were drawn.
        blocked: Share that failed.
        inconclusive: Share left open.
        trials: Mean trials of a case for the change, fresh trials of both sides among them.
        confirmed: Share in which fresh trials confirmed a case.
    """

    cases: int
    discordant: float
    change: str
    setting: str
    experiments: int
    blocked: float
    inconclusive: float
    trials: float
    confirmed: float

    @property
    def passed(self) -> float:
        """Share that passed."""
        return 1 - self.blocked - self.inconclusive


@dataclass(frozen=True)
class Drawn:
    """One experiment: pass rates, runs of the base branch and the trials of the change at each look."""

    base_today: Sequence[float]
    candidate: Sequence[float]
    runs: Mapping[int, Sequence[Counts]]
    """Runs of the base branch, the newest last, by trials a case."""
    first_of_base: Mapping[int, Counts]
    """The first trials of the newest run with FIXED_TRIALS, by their number."""
    looks: Mapping[int, Counts]
    """The first trials of the change, by their number."""
    history: Sequence[int]
    """Of the last HISTORY trials of each case, how many passed."""


def draw(source: Random, cases: int, discordant: float, change: Change) -> Drawn:
    """Draw one experiment."""
    rates = suite(source, cases, discordant)
    of_all = mean_rate(discordant) if change.kind in ("spread", "broken") else 1.0
    candidate = worse(source, rates, change.lost / of_all, change.kind)
    first_of_base = cumulative(source, rates, LOOKS)
    runs = {
        trials: [run(source, rates, trials) for _ in range(number)] for trials, number in POOLED_RUNS.items()
    }
    runs[FIXED_TRIALS][-1] = first_of_base[FIXED_TRIALS]
    passed = [sum(one for one, _ in each) for each in zip(*runs[1], strict=True)]
    return Drawn(
        base_today=candidate if change.of_both else rates,
        candidate=candidate,
        runs=runs,
        first_of_base=first_of_base,
        looks=cumulative(source, candidate, LOOKS),
        history=passed,
    )


def cumulative(source: Random, rates: Sequence[float], numbers: Sequence[int]) -> dict[int, Counts]:
    """Draw trials up to each of some rising numbers; those of a smaller number are among the larger's."""
    found: dict[int, Counts] = {}
    drawn: Counts = []
    for number in numbers:
        further = run(source, rates, number - (drawn[0][1] if drawn else 0))
        drawn = joined(drawn, further) if drawn else further
        found[number] = drawn
    return found


@dataclass(frozen=True)
class Suite:
    """The decision by the tests over the suite.

    Attributes:
        answer: The decision.
        compared: What it is about.
        cases: The trials of either run that the results of cases are of.
        spent: Trials of a case.
    """

    answer: Answer
    compared: Comparison
    cases: tuple[Counts, Counts]
    spent: int


def by_suite(drawn: Drawn, trials: int) -> tuple[Suite, Suite]:
    """Decide by the tests over the suite: against the newest run of the base branch, and against a pool."""
    if not trials:
        return by_looks(drawn)
    runs, now = drawn.runs[trials], drawn.looks[trials]
    compared = comparison(runs[-1], now)
    found = evidence(compared, POLICY)
    single = answer(found, POLICY, is_any_worse=bool(compared.regressed_case_ids))
    several = answer(found, POLICY, pooled(runs, now))
    cases = runs[-1], now
    return Suite(single, compared, cases, trials), Suite(several, compared, cases, trials)


def by_topics(drawn: Drawn) -> Suite:
    """Decide on one trial of each case, where each ten cases have a topic."""
    before, now = drawn.runs[1][-1], drawn.looks[1]
    topics = [
        ComparedTopic.model_construct(
            topic=f"topic {first}",
            compared=TOPIC,
            changed=[case_id(place) for place in range(first, first + TOPIC) if before[place] != now[place]],
        )
        for first in range(0, len(now), TOPIC)
    ]
    compared = comparison(before, now, topics=topics)
    decided = answer(evidence(compared, POLICY), POLICY, is_any_worse=bool(compared.regressed_case_ids))
    return Suite(decided, compared, (before, now), 1)


def by_looks(drawn: Drawn) -> tuple[Suite, Suite]:
    """Look at more and more trials until the suite is decided, each look at the level that is spent there."""
    before, done = drawn.first_of_base[FIXED_TRIALS], dict[bool, Suite]()
    for place, look in enumerate(LOOKS, start=1):
        now, even = drawn.looks[look], min(look, FIXED_TRIALS)
        cases = drawn.first_of_base[even], drawn.looks[even]
        compared = comparison(before, now, cases=cases)
        policy = policy_at_look(POLICY, LOOKS[:place])
        found = evidence(compared, policy)
        for is_pooled in (False, True):
            pool = pooled(drawn.runs[FIXED_TRIALS], now) if is_pooled else None
            if is_pooled not in done or done[is_pooled].answer == "inconclusive":
                is_any_worse = bool(compared.regressed_case_ids)
                decided = answer(found, policy, pool, is_any_worse=is_any_worse)
                done[is_pooled] = Suite(decided, compared, cases, look)
        if all(suite.answer != "inconclusive" for suite in done.values()):
            break
    return done[False], done[True]


@dataclass
class Tally:
    """Counts of the experiments of one line."""

    blocked: int = 0
    inconclusive: int = 0
    confirmed: int = 0
    trials: float = 0.0

    def add(self, decided: Answer, trials: float, *, is_confirmed: bool = False) -> None:
        """Count one experiment."""
        self.blocked += decided == "failed"
        self.inconclusive += decided == "inconclusive"
        self.confirmed += is_confirmed
        self.trials += trials


def experiment(source: Random, drawn: Drawn, tallies: Mapping[Setting, Tally]) -> None:
    """Decide one experiment with every setting that is asked for."""
    for setting, tally in tallies.items():
        if setting.has_topics:
            add(source, drawn, by_topics(drawn), setting.confirms, tally)
    for trials in {setting.trials: None for setting in tallies}:
        for is_pooled, by_tests in zip((False, True), by_suite(drawn, trials), strict=True):
            for confirms in CONFIRMS:
                tally = tallies.get(Setting(trials, is_pooled, confirms))
                if tally is not None:
                    add(source, drawn, by_tests, confirms, tally)


def add(source: Random, drawn: Drawn, by_tests: Suite, confirms: str, tally: Tally) -> None:
    """Count one decision, after its suspects were run again where that is switched on."""
    if confirms == "no":
        tally.add(by_tests.answer, by_tests.spent)
        return
    compared, history = by_tests.compared, None if confirms == "all" else drawn.history
    if confirms == "majority":
        rows = changed(*by_tests.cases, by_majority=True)
        compared = compared.model_copy(update={"case_regressions": rows})
    found = confirm(source, compared, (drawn.candidate, drawn.base_today), POLICY, history)
    both = max(by_tests.answer, found.answer, key=("passed", "inconclusive", "failed").index)
    further = found.trials / compared.cases.compared
    tally.add(both, by_tests.spent + further, is_confirmed=found.answer == "failed")


def lines_of(
    cases: int, discordant: float, change: Change, experiments: int, settings: Sequence[Setting]
) -> Iterator[Line]:
    """Simulate one suite and change with some settings."""
    source = Random(f"{SEED} {cases} {discordant} {change.name}")
    tallies = {setting: Tally() for setting in settings}
    for _ in range(experiments):
        experiment(source, draw(source, cases, discordant, change), tallies)
    for setting, tally in tallies.items():
        yield Line(
            cases=cases,
            discordant=discordant,
            change=change.name,
            setting=setting.name,
            experiments=experiments,
            blocked=round(tally.blocked / experiments, 5),
            inconclusive=round(tally.inconclusive / experiments, 5),
            trials=round(tally.trials / experiments, 2),
            confirmed=round(tally.confirmed / experiments, 5),
        )


def experiments_of(cases: int, change: Change, experiments: int) -> int:
    """Return how many experiments a line gets: those most in which a block is a false alarm."""
    if change in FALSE_ALARMS:
        return max(1, experiments)
    return max(1, experiments // (16 if cases > 200 else 4))


def simulate(experiments: int) -> Iterator[Line]:
    """Simulate every line: the grid, then what the guide's table has. Every suite is a process's own task."""
    grid = [(suite, SETTINGS) for suite in product(CHANGES, CASES, DISCORDANT)]
    grid += [
        ((change, cases, USUAL), GUIDE_SETTINGS) for change, cases in product(GUIDE_CHANGES, GUIDE_CASES)
    ]
    tasks = [
        (cases, discordant, change, experiments_of(cases, change, experiments), settings)
        for (change, cases, discordant), settings in grid
    ]
    with ProcessPoolExecutor() as processes:
        for lines in processes.map(_lines_of, tasks):
            yield from lines


def _lines_of(task: tuple[int, float, Change, int, Sequence[Setting]]) -> list[Line]:
    return list(lines_of(*task))
