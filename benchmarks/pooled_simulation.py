"""False alarms, power and undecided runs of the pooled baseline, through the gate's own code.

`python -m benchmarks.pooled_simulation --write` makes `results/pooled_simulation.md`. Each case passes with a
chance of its own: half always do, a tenth never, and the rest so often that the stated share of cases is
discordant between two single runs. With a drop, some of those that always pass never do now.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.contracts.history import PooledCase
from agent_eval.gate.pooled import Weighed, weigh
from agent_eval.gate.statistics import mcnemar, tango_interval

ALPHA, CONFIDENCE, MARGIN = 0.05, 0.95, 0.05
EXPERIMENTS = 2_000
SEED = 20260101
RESULTS = Path(__file__).parent / "results" / "pooled_simulation.md"
CASES = (10, 30, 100, 300)
DISCORDANT = (0.05, 0.20, 0.40)
RUNS = {1: 20, 4: 8}
"""Pooled runs by trials a case: as many as it takes for 20 trials, and at least eight."""
DROPS = (0.0, 0.05, 0.10, 0.20)
NIGHT = 0.02
"""Standard deviation of what a whole run shares, where days differ."""


@dataclass(frozen=True)
class Setting:
    """One line of the table.

    Args:
        cases: How many cases.
        discordant: Share of cases that differ between two single runs of an unchanged agent.
        trials: Trials a case in each run.
        runs: Pooled runs.
        drop: True drop of the mean.
        night: Standard deviation of what a whole run shares.
    """

    cases: int
    discordant: float
    trials: int
    runs: int
    drop: float
    night: float = 0.0


def chances(setting: Setting) -> list[float]:
    """How likely each case passes: 2 p (1 - p) is the share of flips of a flaky one."""
    flaky = max(1, round(setting.cases * max(0.4, 2 * setting.discordant)))
    share = min(0.5, setting.discordant * setting.cases / flaky)
    passes = (1 + (1 - 2 * share) ** 0.5) / 2
    never = setting.cases // 10
    steady = setting.cases - flaky - never
    return [passes] * flaky + [1.0] * max(0, steady) + [0.0] * min(never, setting.cases - flaky)


def counted(
    source: random.Random, before: Sequence[float], trials: int, shift: float
) -> list[tuple[int, int]]:
    """One run: passed and scored trials of each case; flaky cases move with the day."""
    moved = (min(1.0, max(0.0, p + shift)) if 0.0 < p < 1.0 else p for p in before)
    return [(sum(source.random() < p for _ in range(trials)), trials) for p in moved]


def worse(before: Sequence[float], drop: float) -> list[float]:
    """The chances after a drop of the mean: every case falls by the same share."""
    mean = sum(before) / len(before)
    return [p * (1 - drop / mean) for p in before] if mean else list(before)


def experiment(source: random.Random, setting: Setting) -> tuple[Weighed, bool, bool]:
    """One change: what the pool says, and whether the single run blocks it or passes it."""
    before = chances(setting)
    nights = [source.gauss(0.0, setting.night) for _ in range(setting.runs + 1)]
    pool = [counted(source, before, setting.trials, shift) for shift in nights[:-1]]
    own = counted(source, worse(before, setting.drop), setting.trials, nights[-1])
    cases = [
        PooledCase(runs=tuple(each), own=now) for each, now in zip(zip(*pool, strict=True), own, strict=True)
    ]
    held = weigh(cases, alpha=ALPHA, confidence=CONFIDENCE)
    single = [(case.runs[0][0] == setting.trials, case.own[0] == setting.trials) for case in cases]
    regressed, fixed = single.count((True, False)), single.count((False, True))
    blocks = mcnemar(regressed, fixed) <= ALPHA
    passes = tango_interval(regressed, fixed, setting.cases, CONFIDENCE).high < MARGIN
    return held, blocks, passes and not blocks


def line(source: random.Random, setting: Setting, experiments: int) -> str:
    """A row of the table: blocked, passed and undecided by the pool, and the same by a single run."""
    blocked = passed = single_blocked = single_passed = 0
    for _ in range(experiments):
        held, single_blocks, single_passes = experiment(source, setting)
        is_blocked = held.p_value <= ALPHA
        blocked += is_blocked
        passed += not is_blocked and held.interval.high < MARGIN
        single_blocked += single_blocks
        single_passed += single_passes
    shares = [
        blocked,
        experiments - blocked - passed,
        single_blocked,
        experiments - single_blocked - single_passed,
    ]
    nights = f"{setting.night:.0%}" if setting.night else "none"
    cells = [
        f"{setting.cases}",
        f"{setting.discordant:.0%}",
        f"{setting.trials}",
        f"{setting.runs}",
        nights,
        f"{setting.drop:.0%}",
        *(f"{share / experiments:.1%}" for share in shares[:2]),
        *(f"{share / experiments:.1%}" if setting.trials == 1 else "" for share in shares[2:]),
    ]
    return f"| {' | '.join(cells)} |"


def settings() -> list[Setting]:
    """Every line: unchanged and fallen agents, then few runs, then days that differ."""
    lines = [
        Setting(cases, discordant, trials, runs, drop)
        for drop in DROPS
        for trials, runs in RUNS.items()
        for cases in CASES
        for discordant in DISCORDANT
    ]
    lines += [Setting(100, 0.20, 1, runs, drop) for runs in (4, 6, 8) for drop in (0.0, 0.10)]
    return lines + [
        Setting(100, 0.20, trials, RUNS[trials], drop, NIGHT) for trials in RUNS for drop in (0.0, 0.10)
    ]


def table(experiments: int) -> str:
    """The results as markdown."""
    source = random.Random(SEED)
    rows = [
        "# Simulation of the pooled baseline",
        "",
        f"{experiments:,} experiments a line, alpha {ALPHA:g}, margin {MARGIN:.0%}, seed {SEED}. Single, "
        "with one trial: McNemar's test and Tango's interval against the newest pooled run. "
        "`python -m benchmarks.pooled_simulation --write` makes this file.",
        "",
        "| cases | discordant | trials | runs | nights differ | true drop | blocked | undecided "
        "| single: blocked | single: undecided |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(line(source, setting, experiments) for setting in settings()),
    ]
    return "\n".join(rows) + "\n"


def main() -> None:
    """Simulate, print and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = table(options.experiments)
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
