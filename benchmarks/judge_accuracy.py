"""How many planted faults each built-in judge finds, and how often it finds fault where none is.

    python -m benchmarks.judge_accuracy            # prints the table
    python -m benchmarks.judge_accuracy --write    # and writes the results and the guide's table

Four suites of `agent-eval generate`, one of each archetype, with a fault planted in every second
trace (`benchmarks/planted`): 1,000 faults, and 1,000 traces without one. Each fault names the judges that
should find it and those that may find what follows from it, which counts neither for nor against them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agent_eval.benchmarks import ARCHETYPES
from agent_eval.contracts import Case
from agent_eval.judges.catalog import JUDGES, judge_case, load_judges
from benchmarks.planted.faults import PLANTED
from benchmarks.planted.faults_of_flow import COST_LIMIT_USD, LATENCY_LIMIT_MS
from benchmarks.planted.oddities import PLANTED_ODDITY
from benchmarks.planted.suites import suite_with_faults

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "judge_accuracy.json"
PAGE = HERE / "README.md"
CASES, RATE, SEED = 500, 0.5, 2026
"""Cases of each archetype, the share with a fault, and the seed."""

SAMPLE = 50
"""Cases of each archetype that the test judges again: the first ones, because a suite's beginning does not
depend on its length."""

NOT_MEASURED = {
    "llm": "asks a model; `agent-eval judge-agreement` measures it",
    "command": "is as good as your program",
}
CONFIGS: dict[str, Any] = {
    "cost_budget": {"max_cost_usd": COST_LIMIT_USD},
    "latency_slo": {"max_total_latency_ms": LATENCY_LIMIT_MS},
    "lean": {"command": [sys.executable, str(HERE / "arithmetic_checker.py")]},
}

Counts = dict[str, Counter[str]]


def suites(cases: int) -> Iterator[dict[str, Any]]:
    """The suites that are judged."""
    for name in ARCHETYPES:
        yield suite_with_faults(name, cases, seed=SEED, rate=RATE)


def measure(cases: int) -> dict[str, Any]:
    """Judge the suites; count by judge, and what was missed or found in error by fault."""
    judges = load_judges([name for name in JUDGES if name not in NOT_MEASURED], CONFIGS)
    counts: Counts = defaultdict(Counter)
    missed: Counts = defaultdict(Counter)
    planted: Counter[str] = Counter()
    total = 0
    for suite in suites(cases):
        for raw in suite["cases"]:
            total += 1
            fault = raw["metadata"].get(PLANTED)
            planted.update([fault["kind"]] if fault else [])
            case = Case.model_validate(raw)
            for verdict in judge_case(judges, case, case.recorded):
                found = verdict.outcome.value in ("failed", "error", "inconclusive")
                place = _place(fault, verdict.judge_id, found=found)
                counts[verdict.judge_id][place] += 1
                if place in ("missed", "false alarm"):
                    missed[verdict.judge_id][fault["name"] if fault else raw["metadata"][PLANTED_ODDITY]] += 1
    return {
        "cases": total,
        "planted": dict(sorted(planted.items())),
        "judges": {name: _row(counts[name], missed[name]) for name in sorted(counts)},
    }


def _place(fault: dict[str, Any] | None, judge: str, *, found: bool) -> str:
    if fault is not None and judge in fault["judges"]:
        return "found" if found else "missed"
    if not found:
        return "silent"
    return "consequence" if fault is not None and judge in fault["may_find"] else "false alarm"


def _row(counts: Counter[str], wrong: Counter[str]) -> dict[str, Any]:
    return {
        "planted": counts["found"] + counts["missed"],
        "found": counts["found"],
        "false_alarms": counts["false alarm"],
        "consequences": counts["consequence"],
        "wrong": dict(sorted(wrong.items())),
    }


def share(part: int, whole: int) -> str:
    """A share with two decimals, cut, so that only all of it is 1.00."""
    return f"{int(100 * part / whole) / 100:.2f}" if whole else "–"


def table(results: dict[str, Any]) -> list[str]:
    """The table of the page on benchmarks."""
    lines = ["| judge | planted | found | false alarms | precision | recall | what it missed |"]
    lines.append("|---|---:|---:|---:|---:|---:|---|")
    for name, row in results["judges"].items():
        precision = share(row["found"], row["found"] + row["false_alarms"])
        recall = share(row["found"], row["planted"])
        wrong = ", ".join(f"{fault.replace('_', ' ')} ({number})" for fault, number in row["wrong"].items())
        figures = f"{row['planted']} | {row['found']} | {row['false_alarms']} | {precision} | {recall}"
        lines.append(f"| [`{name}`](../docs/guides/judges.md#{name}) | {figures} | {wrong} |")
    lines += [
        f"| [`{name}`](../docs/guides/judges.md#{name}) | – | – | – | – | – | {why} |"
        for name, why in NOT_MEASURED.items()
    ]
    return lines


def with_table(page: str, lines: Iterable[str]) -> str:
    """The page with the table between its marks."""
    before, begin, rest = page.partition("<!-- judges -->\n")
    _, end, after = rest.partition("<!-- end of judges -->")
    return before + begin + "\n".join(lines) + "\n" + end + after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    results = {**measure(CASES), "sample": measure(SAMPLE)}
    print("\n".join(table(results)))
    if arguments.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
