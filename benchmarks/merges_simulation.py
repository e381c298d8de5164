"""How much fifty changes cost that each lose a point, which no single comparison can tell from chance.

Each change is held against the newest run of the base branch and merged unless the gate fails it; then the
base branch runs. With the anchor, `agent-eval drift` holds these runs against the release after each merge,
and the team merges nothing more while it says that the branch is worse: the rest of the fifty wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from statistics import fmean

from agent_eval.gate.drift import Counted, drift_since, together
from benchmarks.gate_decisions import answer, comparison, evidence
from benchmarks.gate_simulation import POLICY, SEED
from benchmarks.population import Counts, run, suite, worse

MERGES = 50
EACH = 0.01
"""What each change loses of the mean pass rate, over all cases."""
RELEASE_TRIALS = 4
"""Trials of each case that the release was evaluated with."""


@dataclass(frozen=True)
class Merges:
    """What fifty changes lost together.

    Attributes:
        cases: Cases of the suite.
        discordant: Share of them that differ between two single runs of one agent.
        trials: Trials of each case, of changes and on the base branch.
        is_anchored: Whether the base branch is held against the release.
        experiments: How many were drawn.
        lost: The true drop of the pass rate since the release, on average.
        most: The drop that 95 of 100 experiments stay below.
        offered: Changes until merging stopped, on average; the gate fails some of them.
        falsely: Share of experiments of an agent that loses nothing in which merging is stopped all the same.
    """

    cases: int
    discordant: float
    trials: int
    is_anchored: bool
    experiments: int
    lost: float
    most: float
    offered: float
    falsely: float | None


SUITES = ((20, 1), (50, 1), (100, 1), (100, 4), (200, 1))
"""Cases, and trials of each."""


def simulate(experiments: int) -> Iterator[Merges]:
    """Simulate fifty merges for every suite, without the anchor and with it."""
    for (cases, trials), is_anchored in product(SUITES, (False, True)):
        yield measure(cases, 0.20, trials, experiments, is_anchored=is_anchored)


def measure(
    cases: int, discordant: float, trials: int, experiments: int, *, is_anchored: bool, each: float = EACH
) -> Merges:
    """Simulate fifty merges of one suite."""
    source = Random(f"{SEED} merges {cases} {discordant} {trials} {is_anchored}")
    runs = [
        fifty(source, cases, discordant, trials, is_anchored=is_anchored, each=each)
        for _ in range(experiments)
    ]
    lost = sorted(one for one, _ in runs)
    falsely = None
    if is_anchored:
        same = (
            fifty(source, cases, discordant, trials, is_anchored=is_anchored, each=0.0)
            for _ in range(experiments)
        )
        falsely = sum(offered < MERGES for _, offered in same) / experiments
    return Merges(
        cases=cases,
        discordant=discordant,
        trials=trials,
        is_anchored=is_anchored,
        experiments=experiments,
        lost=round(fmean(lost), 4),
        most=round(lost[min(len(lost) - 1, len(lost) * 95 // 100)], 4),
        offered=round(fmean(number for _, number in runs), 1),
        falsely=falsely,
    )


def fifty(
    source: Random, cases: int, discordant: float, trials: int, *, is_anchored: bool, each: float
) -> tuple[float, int]:
    """Offer fifty changes; return the true drop at the end, and how many it took until merging stopped."""
    rates = released = suite(source, cases, discordant)
    release = counted(run(source, rates, RELEASE_TRIALS))
    newest = run(source, rates, trials)
    nights = [counted(newest)]
    offered = MERGES
    for number in range(MERGES):
        changed = worse(source, rates, each / mean_of(rates) if each else 0.0, "spread")
        compared = comparison(newest, run(source, changed, trials))
        if answer(evidence(compared, POLICY), POLICY) != "failed":
            rates = changed
        newest = run(source, rates, trials)
        nights.append(counted(newest))
        if is_anchored and is_worse(release, nights):
            offered = number + 1
            break
    return mean_of(released) - mean_of(rates), offered


def is_worse(release: Counted, nights: Sequence[Counted]) -> bool:
    """Tell whether `agent-eval drift` would open an issue."""
    return drift_since(release, nights).is_worse


def counted(counts: Counts) -> Counted:
    """Add up the trials of a run."""
    return together(Counted(passed, trials) for passed, trials in counts)


def mean_of(rates: Sequence[float]) -> float:
    """Return the mean pass rate; never 0, of which nothing more can be lost."""
    return max(1e-9, fmean(rates))
