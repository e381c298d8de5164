"""What each test of the gate costs with a million changed cases.

python -m benchmarks.gate_speed            # prints the table
python -m benchmarks.gate_speed --write    # and writes benchmarks/results/gate_speed.md
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from agent_eval.contracts.history import PooledCase
from agent_eval.gate.drift import Counted, cusum
from agent_eval.gate.permutation import TrialPair, permutation_test
from agent_eval.gate.pooled import weigh
from agent_eval.gate.power import (
    mean_cases_needed,
    mean_non_inferiority_cases,
    non_inferiority_cases,
    paired_cases_needed,
    paired_power,
)
from agent_eval.gate.statistics import (
    clustered_interval,
    e_value,
    fisher,
    holm_discrete,
    mcnemar,
    sign_flip_test,
    tango_interval,
    wilson,
)
from agent_eval.gate.topics import Clusters

RESULTS = Path(__file__).parent / "results" / "gate_speed.md"
CASES = 1_000_000
MOST_SECONDS = 2.0


def measured() -> dict[str, Callable[[], object]]:
    """Every test, ready to be called."""
    source = random.Random(20_260_101)
    equal = [TrialPair(source.randrange(5), 4, source.randrange(5), 4) for _ in range(CASES)]
    unequal = [TrialPair(source.randrange(2), 1, source.randrange(5), 4) for _ in range(CASES)]
    drops = [float(pair.drop) for pair in equal]
    half, tenth = CASES // 2, CASES // 10
    topics = Clusters([10] * tenth, [drops[first : first + 10] for first in range(0, CASES, 10)])
    pool = [
        PooledCase(runs=tuple((source.randrange(5), 4) for _ in range(8)), own=(source.randrange(5), 4))
        for _ in range(CASES)
    ]
    p_values = [source.random() ** 12 for _ in range(tenth)]
    nights = [Counted(33 + source.randrange(4), 36) for _ in range(CASES)]
    return {
        "McNemar's exact test": lambda: mcnemar(half + 900, half - 900),
        "e-value": lambda: e_value(half + 900, half - 900),
        "Tango's interval": lambda: tango_interval(half + 900, half - 900, 2 * CASES),
        "power of McNemar's test": lambda: paired_power(0.001, 0.5, CASES),
        "cases needed to see a drop": lambda: paired_cases_needed(0.0015, 0.5),
        "cases needed to rule out a drop": lambda: non_inferiority_cases(0.002, 0.5),
        "permutation test, 4 trials against 4": lambda: permutation_test(equal),
        "permutation test, 1 trial against 4": lambda: permutation_test(unequal),
        "clustered interval": lambda: clustered_interval(drops, CASES),
        "flips of the signs of single cases": lambda: sign_flip_test(drops),
        f"test by {tenth:,} topics": lambda: topics.p_value,
        f"interval by {tenth:,} topics": lambda: topics.interval(0.95),
        f"Holm's correction of {tenth:,} tests": lambda: holm_discrete(p_values, [0.0] * tenth),
        "the same with Tarone's divisors": lambda: holm_discrete(p_values, p_values),
        "Fisher's test": lambda: fisher(half - 900, CASES, half + 900, CASES),
        "pooled baseline of 8 runs, 4 trials": lambda: weigh(pool, alpha=0.05, confidence=0.95),
        "cumulative sum over as many runs": lambda: cusum(nights, 0.94, 0.84),
        "Wilson's interval": lambda: wilson(half, CASES),
        "cases needed to see a drop, with trials": lambda: mean_cases_needed(0.001, 0.3),
        "cases needed to rule out a drop, with trials": lambda: mean_non_inferiority_cases(0.001, 0.3),
    }


def main() -> None:
    """Measure, print and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = [
        "# Speed of the gate's tests",
        "",
        f"{CASES:,} changed cases, processor seconds, {os.cpu_count()} cores, {datetime.now(UTC).date()}; "
        f"at most {MOST_SECONDS:g} each. `python -m benchmarks.gate_speed --write` makes this file.",
        "",
        "| test | seconds |",
        "|---|---:|",
    ]
    for name, test in measured().items():
        began = time.process_time()
        test()
        rows.append(f"| {name} | {time.process_time() - began:.3f} |")
    text = "\n".join(rows) + "\n"
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
