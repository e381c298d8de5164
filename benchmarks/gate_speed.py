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

from agent_eval.gate.permutation import TrialPair, permutation_test
from agent_eval.gate.power import (
    mean_cases_needed,
    mean_non_inferiority_cases,
    non_inferiority_cases,
    paired_cases_needed,
    paired_power,
)
from agent_eval.gate.statistics import clustered_interval, e_value, mcnemar, tango_interval

RESULTS = Path(__file__).parent / "results" / "gate_speed.md"
CASES = 1_000_000
MOST_SECONDS = 2.0


def measured() -> dict[str, Callable[[], object]]:
    """Every test, ready to be called."""
    source = random.Random(20_260_101)
    equal = [TrialPair(source.randrange(5), 4, source.randrange(5), 4) for _ in range(CASES)]
    unequal = [TrialPair(source.randrange(2), 1, source.randrange(5), 4) for _ in range(CASES)]
    drops = [float(pair.drop) for pair in equal]
    half = CASES // 2
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
