"""What a pooled baseline does with few runs, and where days differ; `gate_simulation` has the usual ones.

    python -m benchmarks.pooled_simulation            # prints the table
    python -m benchmarks.pooled_simulation --write    # and writes benchmarks/results/pooled_simulation.md

Each day moves the pass rate of every flaky case alike. The gate's own steps decide. Seeded.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.gate_decisions import answer, comparison, evidence, pooled
from benchmarks.gate_simulation import POLICY, POOLED_RUNS, SEED, USUAL
from benchmarks.population import mean_rate, run, suite, worse

EXPERIMENTS = 1_000
RESULTS = Path(__file__).parent / "results" / "pooled_simulation.md"
CASES = 100
DAY = 0.02
"""Standard deviation of what a whole run shares, where days differ."""
DROP = 0.10


@dataclass(frozen=True)
class Setting:
    """One line of the table: trials a case, pooled runs, the true drop, and how far days differ."""

    trials: int
    runs: int
    drop: float
    day: float = 0.0


SETTINGS = (
    *(Setting(1, runs, drop) for runs in (4, 6, 8) for drop in (0.0, DROP)),
    *(Setting(trials, POOLED_RUNS[trials], drop, DAY) for trials in (1, 4) for drop in (0.0, DROP)),
)


def measure(setting: Setting, experiments: int) -> Counter[str]:
    """Count the decisions on runs held against a pool."""
    source = Random(f"{SEED} pooled {setting}")
    decisions: Counter[str] = Counter()
    for _ in range(experiments):
        rates = suite(source, CASES, USUAL)
        days = [source.gauss(0.0, setting.day) for _ in range(setting.runs + 1)]
        runs = [run(source, rates, setting.trials, shift) for shift in days[:-1]]
        changed = worse(source, rates, setting.drop / mean_rate(USUAL), "spread")
        now = run(source, changed, setting.trials, days[-1])
        found = evidence(comparison(runs[-1], now), POLICY)
        decisions[answer(found, POLICY, pooled(runs, now))] += 1
    return decisions


def table(experiments: int) -> str:
    """Render the results as markdown."""
    rows = [
        "# Pooled baselines of few runs, and of days that differ",
        "",
        f"{experiments:,} experiments a line, {CASES} cases, {USUAL:.0%} discordant, margin 5 points, "
        f"seed {SEED}. "
        "`python -m benchmarks.pooled_simulation --write` makes this file.",
        "",
        "| trials | runs | days differ by | true drop | blocked | left open |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for setting in SETTINGS:
        decisions = measure(setting, experiments)
        shares = " | ".join(f"{decisions[one] / experiments:.1%}" for one in ("failed", "inconclusive"))
        days = f"{setting.day:.0%}" if setting.day else "nothing"
        rows.append(f"| {setting.trials} | {setting.runs} | {days} | {setting.drop:.0%} | {shares} |")
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
