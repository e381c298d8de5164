"""Whether each test of the gate keeps its level, and its promise of how many cases it needs.

    python -m benchmarks.levels_simulation            # prints the table
    python -m benchmarks.levels_simulation --write    # and writes benchmarks/results/levels_simulation.md

Every experiment compares two runs of an agent on the same cases. A pair of results is discordant with a
given chance; when nothing changed it regresses as often as it is fixed. The gate's own functions decide.
Seeded, standard library only.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent_eval.gate.permutation import TrialPair, permutation_test
from agent_eval.gate.power import (
    mean_cases_needed,
    mean_non_inferiority_cases,
    non_inferiority_cases,
    paired_cases_needed,
)
from agent_eval.gate.statistics import clustered_interval, e_value, holm_discrete, mcnemar, tango_interval
from benchmarks.population import uneven

RESULTS = Path(__file__).parent / "results" / "levels_simulation.md"
SEED = 20_260_101
EXPERIMENTS = 10_000
CASES = 200
DISCORDANT = 0.20
ALPHA = 0.05
PEEK_EVERY = 10
JUDGES = 5
MARGIN = 0.05

p_value = lru_cache(maxsize=None)(mcnemar)
evidence = lru_cache(maxsize=None)(e_value)
upper_end = lru_cache(maxsize=None)(
    lambda regressed, fixed, total: tango_interval(regressed, fixed, total).high
)


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    question: str
    found: float
    bound: str


def outcomes(source: random.Random, cases: int, discordant: float, drop: float) -> Iterator[int]:
    """For each case 1 (regressed), -1 (fixed) or 0 (unchanged), with a true `drop`."""
    regressed, changed = (discordant + drop) / 2, discordant
    for _ in range(cases):
        chance = source.random()
        yield 1 if chance < regressed else -1 if chance < changed else 0


def counts(told: Iterator[int]) -> tuple[int, int]:
    """How many regressed and how many were fixed."""
    all_told = list(told)
    return all_told.count(1), all_told.count(-1)


def one_look(source: random.Random, cases: int, discordant: float, drop: float) -> bool:
    """The regression test after all cases."""
    return p_value(*counts(outcomes(source, cases, discordant, drop))) <= ALPHA


def peeking(source: random.Random, cases: int, discordant: float, drop: float) -> bool:
    """The same test looked at again and again: what one must not do."""
    regressed = fixed = 0
    for number, told in enumerate(outcomes(source, cases, discordant, drop), start=1):
        regressed += told == 1
        fixed += told == -1
        if number % PEEK_EVERY == 0 and p_value(regressed, fixed) <= ALPHA:
            return True
    return False


def e_process(source: random.Random, cases: int, discordant: float, drop: float) -> int | None:
    """The case after which the e-process stops; None when it never does."""
    regressed = fixed = 0
    for number, told in enumerate(outcomes(source, cases, discordant, drop), start=1):
        if told:
            regressed += told == 1
            fixed += told == -1
            if evidence(regressed, fixed) >= 1 / ALPHA:
                return number
    return None


def several_judges(source: random.Random) -> bool:
    """Whether any of several judges is called regressed when none did."""
    pairs = [counts(outcomes(source, CASES, DISCORDANT / JUDGES, 0.0)) for _ in range(JUDGES)]
    p_values = [p_value(*pair) for pair in pairs]
    return any(holm_discrete(p_values, [0.5 ** sum(pair) for pair in pairs], ALPHA))


def wrongly_passed(source: random.Random) -> bool:
    """Whether non-inferiority passes although the true drop equals the margin."""
    regressed, fixed = counts(outcomes(source, CASES, DISCORDANT, MARGIN))
    return upper_end(regressed, fixed, CASES) < MARGIN


def tried(source: random.Random, cases: int, trials: tuple[int, int], drop: float) -> list[TrialPair]:
    """Trials of each case before and now that went otherwise, or whose numbers differ."""
    found = []
    for before, now in uneven(source, cases, drop):
        passed = (
            sum(source.random() < before for _ in range(trials[0])),
            sum(source.random() < now for _ in range(trials[1])),
        )
        pair = TrialPair(passed[0], trials[0], passed[1], trials[1])
        if pair.drop or not pair.equal:
            found.append(pair)
    return found


def trials_regressed(source: random.Random, cases: int, trials: tuple[int, int], drop: float) -> bool:
    """The regression test on cases with several trials."""
    return permutation_test(tried(source, cases, trials, drop)).p_value <= ALPHA


def trials_wrongly_passed(source: random.Random, cases: int, trials: int) -> bool:
    """Whether non-inferiority passes on several trials although the true drop equals the margin."""
    pairs = tried(source, cases, (trials, trials), MARGIN)
    return clustered_interval([float(pair.drop) for pair in pairs], cases).high < MARGIN


def trials_passed(source: random.Random, cases: int, trials: int) -> bool:
    """Whether non-inferiority passes where nothing changed."""
    pairs = tried(source, cases, (trials, trials), 0.0)
    return clustered_interval([float(pair.drop) for pair in pairs], cases).high < MARGIN


def promised(source: random.Random, rounds: range) -> list[Line]:
    """Whether as many cases as the gate asks for do what it says they do in 80 % of runs."""
    lines = []
    for drop, discordant in ((0.10, 0.20), (0.05, 0.20), (0.03, 0.03)):
        cases = paired_cases_needed(drop, discordant)
        found = share(one_look(source, cases, discordant, drop) for _ in rounds)
        said = f"{cases} cases asked for to see {drop:.0%} at {discordant:.0%} discordant: seen"
        lines.append(Line(said, found, "80 % promised"))
    for margin, discordant in ((0.05, 0.20), (0.05, 0.05), (0.10, 0.30)):
        cases = non_inferiority_cases(margin, discordant)
        told = (counts(outcomes(source, cases, discordant, 0.0)) for _ in rounds)
        found = share(upper_end(*pair, cases) < margin for pair in told)
        said = f"{cases} cases asked for to rule out {margin:.0%} at {discordant:.0%} discordant: ruled out"
        lines.append(Line(said, found, "80 % promised"))
    for trials in (2, 4):
        spread = spread_of(source, trials, 0.10)
        cases = mean_cases_needed(0.10, spread)
        found = share(trials_regressed(source, cases, (trials, trials), 0.10) for _ in rounds)
        lines.append(
            Line(f"{trials} trials, {cases} cases asked for to see 10%: seen", found, "80 % promised")
        )
        cases = mean_non_inferiority_cases(MARGIN, spread_of(source, trials, 0.0))
        found = share(trials_passed(source, cases, trials) for _ in rounds)
        said = f"{trials} trials, {cases} cases asked for to rule out {MARGIN:.0%}: ruled out"
        lines.append(Line(said, found, "80 % promised"))
    return lines


def spread_of(source: random.Random, trials: int, drop: float) -> float:
    """Standard deviation between cases of the change of their pass rate."""
    cases = 20_000
    pairs = tried(source, cases, (trials, trials), drop)
    return (sum(float(pair.drop) ** 2 for pair in pairs) / cases) ** 0.5


def share(found: Iterator[bool]) -> float:
    """Share of experiments in which something was found."""
    told = list(found)
    return sum(told) / len(told)


def measure(experiments: int) -> list[Line]:
    """Run every simulation."""
    source = random.Random(SEED)
    rounds = range(experiments)
    same = (CASES, DISCORDANT, 0.0)
    lines = [
        Line(
            "nothing changed, one look: false alarms",
            share(one_look(source, *same) for _ in rounds),
            "≤ 5.5 %",
        ),
        Line(
            f"nothing changed, {JUDGES} judges, Holm: false alarms",
            share(several_judges(source) for _ in rounds),
            "≤ 5.5 %",
        ),
        Line(
            "nothing changed, e-process after every case: false alarms",
            share(e_process(source, *same) is not None for _ in rounds),
            "≤ 5 %",
        ),
        Line(
            f"nothing changed, the test peeked at every {PEEK_EVERY} cases: false alarms",
            share(peeking(source, *same) for _ in rounds),
            "not offered",
        ),
        Line(
            f"true drop equal to the margin of {MARGIN:.0%}: wrongly passed",
            share(wrongly_passed(source) for _ in rounds),
            "≤ 2.5 %",
        ),
    ]
    for cases in (100, 153, 200, 400):
        seen = share(one_look(source, cases, DISCORDANT, 0.10) for _ in rounds)
        lines.append(Line(f"true drop of 10 points, one look at {cases} cases: seen", seen, ""))
    stops = [e_process(source, 400, DISCORDANT, 0.10) for _ in rounds]
    stopped = sorted(stop for stop in stops if stop is not None)
    lines.append(
        Line("true drop of 10 points, e-process up to 400 cases: seen", len(stopped) / experiments, "")
    )
    lines.append(Line("the same, median case at which it stops", float(stopped[len(stopped) // 2]), ""))
    return lines + measure_trials(source, rounds) + promised(source, rounds)


def measure_trials(source: random.Random, rounds: range) -> list[Line]:
    """The simulations with several trials of each case."""
    lines = []
    for trials in ((1, 1), (2, 2), (4, 4), (1, 4), (4, 1)):
        for cases in (50, CASES):
            found = share(trials_regressed(source, cases, trials, 0.0) for _ in rounds)
            said = (
                f"trials {trials[0]} before and {trials[1]} now, {cases} cases, nothing changed: false alarms"
            )
            lines.append(Line(said, found, "≤ 5.5 %"))
    for trials in (2, 4):
        for cases in (50, CASES):
            found = share(trials_wrongly_passed(source, cases, trials) for _ in rounds)
            said = f"{trials} trials, {cases} cases, true drop equal to the margin: wrongly passed"
            lines.append(Line(said, found, "≤ 2.5 %"))
    for one in (1, 4):
        found = share(trials_passed(source, 400, one) for _ in rounds)
        lines.append(Line(f"trials {one}, 400 cases, nothing changed: passed", found, ""))
        found = share(trials_regressed(source, 100, (one, one), 0.10) for _ in rounds)
        lines.append(Line(f"trials {one}, 100 cases, true drop of 10 points: seen", found, ""))
    return lines


def table(lines: list[Line], experiments: int) -> str:
    """The results as markdown."""
    rows = [
        "# Levels of the gate's tests",
        "",
        f"{experiments:,} experiments a line, {CASES} cases unless said, {DISCORDANT:.0%} of them "
        f"discordant, alpha {ALPHA:g}, seed {SEED}. "
        "`python -m benchmarks.levels_simulation --write` makes this file.",
        "",
        "| question | found | bound |",
        "|---|---|---|",
    ]
    for line in lines:
        shown = f"{line.found:.0f}" if line.found > 1 else f"{line.found:.2%}"
        rows.append(f"| {line.question} | {shown} | {line.bound} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Simulate, print and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = table(measure(options.experiments), options.experiments)
    print(text)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
