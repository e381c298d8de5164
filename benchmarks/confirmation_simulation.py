"""How often confirmation calls a flaky case a regression, how often it sees one, and what it costs.

    python -m benchmarks.confirmation_simulation            # prints the table
    python -m benchmarks.confirmation_simulation --write    # and writes it into benchmarks/results/

Every experiment runs a suite of 40 cases once; cases that fail are run again in pairs until the gate's own
functions call them settled, and the gate's own function decides. Seeded, standard library only.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import comb
from pathlib import Path

from agent_eval.ci.base_cache import FRESH_FIRST
from agent_eval.contracts.confirmation import Confirmation, FreshResult, FreshTrials
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.confirmation import is_settled, judge_suspects
from agent_eval.gate.statistics import fisher
from agent_eval.gate.waivers import Excuses
from agent_eval.gate.zero_tolerance import fresh_failures, most_allowed, repeat_of

RESULTS = Path(__file__).parent / "results" / "confirmation_simulation.md"
SEED = 20_260_101
EXPERIMENTS = 10_000
CASES, PAIRS, MOST, ALPHA = 40, 6, 8, 0.05
ADMITTED, HISTORY = 18, 20
CEILING = 0.05
JUDGES = ("prompt_injection", "tool_abuse")
TERMS = (
    "blocks at once",
    "blocks if it repeats",
    f"blocks above a ceiling of {CEILING:.0%}",
    "not in zero_tolerance",
)
"""What a policy can say of a judge of safety; in the last case its failures are run again like any other."""
GUIDE_NAMES = (
    "at once",
    "if it repeats",
    f"above a ceiling of {CEILING:.0%}",
    "not in `zero_tolerance`",
)


@dataclass(frozen=True)
class Line:
    """One line of the table; `expected` is the figure that was computed exactly, where there is one."""

    question: str
    found: float
    expected: float | None = None


@dataclass
class Suite:
    """What one confirmation found: its verdicts, and the trials that were spent."""

    confirmed: int = 0
    inconclusive: int = 0
    trials: int = 0


def fresh(source: random.Random, number: int, now: float, before: float) -> FreshTrials:
    """Run a case again in pairs until it is settled."""
    trials = FreshTrials(case_id=f"{number:03}")
    while not is_settled(trials, PAIRS, ALPHA):
        for side, rate in ((trials.candidate, now), (trials.base, before)):
            result: FreshResult = "passed" if source.random() < rate else "failed"
            side.append(result)
    return trials


def confirm(source: random.Random, failing: list[tuple[float, float]], *, is_admitted: bool) -> Suite:
    """Confirm cases that fail now, given the pass rates of the candidate and of the base on each.

    Args:
        source: Of randomness.
        failing: The pass rates.
        is_admitted: Whether the history of the base branch admits each of them.
    """
    run = [fresh(source, number, *rates) for number, rates in enumerate(failing[:MOST])]
    if is_admitted:
        counts = {"history_passed": ADMITTED, "history_scored": HISTORY}
        run = [trials.model_copy(update=counts) for trials in run]
    record = Confirmation(pairs=PAIRS, max_cases=MOST, cases=run)
    ids = [f"{number:03}" for number in range(len(failing))]
    results = judge_suspects(ids, record, ALPHA)
    verdicts = [result.verdict for result in results]
    spent = sum(len(trials.candidate) + len(trials.base) for trials in run)
    return Suite(verdicts.count("confirmed"), verdicts.count("inconclusive"), spent)


def passes(source: random.Random, trials: int, rate: float) -> int:
    """Draw how many of some trials pass."""
    return sum(source.random() < rate for _ in range(trials))


def unchanged(
    source: random.Random, rate: float, now: float, *, admission: bool, cases: int = CASES
) -> Suite:
    """Run a suite in which no case got worse by the change; `now` is the pass rate of both sides today."""
    failing = []
    for _ in range(cases):
        is_in = not admission or passes(source, HISTORY, rate) >= ADMITTED
        if is_in and source.random() >= now:
            failing.append((now, now))
    return confirm(source, failing, is_admitted=admission)


def is_seen(source: random.Random, now: float, *, admission: bool) -> bool:
    """Tell whether one case that fell from 0.95 is confirmed."""
    if admission and passes(source, HISTORY, 0.95) < ADMITTED:
        return False
    if source.random() < now:
        return False
    return confirm(source, [(now, 0.95)], is_admitted=admission).confirmed == 1


def size(rate: float) -> float:
    """Compute the exact chance that six pairs confirm a case that passes equally often on both sides."""
    chance = [comb(PAIRS, hits) * rate**hits * (1 - rate) ** (PAIRS - hits) for hits in range(PAIRS + 1)]
    return sum(
        chance[now] * chance[before]
        for now in range(PAIRS + 1)
        for before in range(PAIRS + 1)
        if fisher(now, PAIRS, before, PAIRS) <= ALPHA
    )


def measure(experiments: int) -> list[Line]:
    """Simulate every line of the table."""
    source = random.Random(SEED)
    lines = [
        Line("largest chance that six pairs confirm an unchanged case, any pass rate", max_size(0), 0.019),
        Line("the same, pass rates from 0.8", max_size(80), 0.0051),
    ]
    for of, said in (
        (size_with_a_cache, "the same with `base-cache`"),
        (size_with_earlier_trials, "the same where it has all trials of the case, which passed"),
    ):
        lines.append(Line(f"{said}, any pass rate", max_size(0, of)))
        lines += [Line(f"{said}, pass rates from 0.{lowest}", max_size(lowest, of)) for lowest in (80, 95)]
    for admission, name in ((True, "18 of 20 before"), (False, "Holm")):
        for rate, expected in ((0.98, 0.00), (0.95, 0.00), (0.90, 0.00), (0.80, 0.01)):
            runs = [unchanged(source, rate, rate, admission=admission) for _ in range(experiments)]
            said = f"{CASES} unchanged cases that pass {rate:.0%} of the time, {name}"
            alarms = sum(run.confirmed > 0 for run in runs) / experiments
            lines.append(Line(f"{said}: any confirmed", alarms, expected if admission else None))
            left = sum(run.inconclusive > 0 for run in runs) / experiments
            lines.append(Line(f"{said}: any inconclusive", left))
            lines.append(Line(f"{said}: further trials", sum(run.trials for run in runs) / experiments))
        drifted = [unchanged(source, 0.97, 0.85, admission=admission) for _ in range(experiments)]
        alarms = sum(run.confirmed > 0 for run in drifted) / experiments
        said = f"both sides fall from 97% to 85% on all {CASES} cases, {name}: any confirmed"
        lines.append(Line(said, alarms, 0.01 if admission else None))
        for now, expected in ((0.5, 0.13), (0.3, 0.42), (0.1, 0.79)):
            seen = sum(is_seen(source, now, admission=admission) for _ in range(experiments)) / experiments
            said = f"one case falls from 95% to {now:.0%}, {name}: confirmed"
            lines.append(Line(said, seen, expected if admission else None))
    return lines + zero_tolerance(source, experiments)


def zero_tolerance(source: random.Random, experiments: int) -> list[Line]:
    """Compare the terms of judges that wrongly fail a case now and then, or that see an attack."""
    lines = []
    for wrong in (0.001, 0.005, 0.02):
        for cases in (20, 100):
            said = f"two judges that wrongly fail {wrong:.1%} of {cases} cases each, nothing changed"
            at_once = 1 - (1 - wrong * (1 - wrong)) ** (2 * cases)
            repeated = sum(is_repeated(source, wrong, cases) for _ in range(experiments))
            above = sum(is_above(source, wrong, cases) for _ in range(experiments))
            rate = (1 - wrong) ** 2
            runs = (unchanged(source, rate, rate, admission=False, cases=cases) for _ in range(experiments))
            confirmed = sum(run.confirmed > 0 for run in runs)
            shares = (at_once, repeated / experiments, above / experiments, confirmed / experiments)
            lines += [
                Line(f"{said}, {term}: blocked", share) for term, share in zip(TERMS, shares, strict=True)
            ]
    for rate in (0.5, 0.9, 1.0):
        said = f"an attack that newly succeeds {rate:.0%} of the time on one of 100 cases"
        found = (
            sum(is_attack_repeated(source, rate) for _ in range(experiments)),
            # One case is within the ceiling, so that it is run again like any other.
            sum(is_seen(source, 1 - rate, admission=False) for _ in range(experiments)),
            sum(is_seen(source, 1 - rate, admission=False) for _ in range(experiments)),
        )
        shares = (rate, *(seen / experiments for seen in found))
        lines += [Line(f"{said}, {term}: blocked", share) for term, share in zip(TERMS, shares, strict=True)]
    return lines


def is_repeated(source: random.Random, wrong: float, cases: int) -> bool:
    """Tell whether any new failure of two unreliable judges repeats, where nothing changed."""
    new = [
        (f"{number:03}", judge_id)
        for number in range(cases)
        for judge_id in JUDGES
        if source.random() < wrong * (1 - wrong)
    ]
    names = sorted({case_id for case_id, _ in new})
    rates = dict.fromkeys(JUDGES, wrong)
    return blocks(new, [every_pair(source, case_id, rates, rates) for case_id in names[:MOST]])


def is_attack_repeated(source: random.Random, rate: float) -> bool:
    """Tell whether an attack that newly succeeds is seen in the first run and again in a fresh trial."""
    if source.random() >= rate:
        return False
    return blocks([("000", JUDGES[0])], [every_pair(source, "000", {JUDGES[0]: rate}, {})])


def every_pair(
    source: random.Random, case_id: str, now: dict[str, float], before: dict[str, float]
) -> FreshTrials:
    """Run every pair of a case, given how often each judge fails it in the candidate and in the base."""
    trials = FreshTrials(case_id=case_id)
    for results, failing, unjudged, rates in (
        (trials.candidate, trials.candidate_failing, trials.candidate_unjudged, now),
        (trials.base, trials.base_failing, trials.base_unjudged, before),
    ):
        for _ in range(PAIRS):
            failing.append([judge_id for judge_id, rate in rates.items() if source.random() < rate])
            results.append("failed" if failing[-1] else "passed")
            unjudged.append([])
    return trials


def blocks(new: list[tuple[str, str]], run: list[FreshTrials]) -> bool:
    """Decide by the gate's own functions whether failures that must repeat block."""
    record = Confirmation(pairs=PAIRS, max_cases=MOST, cases=run)
    policy = GatePolicy(zero_tolerance=list(JUDGES), zero_tolerance_repeat=list(JUDGES))
    return bool(fresh_failures(record, Excuses(), policy)) or any(
        repeat_of(case_id, judge_id, record, ALPHA).blocks for case_id, judge_id in new
    )


def is_above(source: random.Random, wrong: float, cases: int) -> bool:
    """Tell whether either of two unreliable judges is above its ceiling, or a case is confirmed below it."""
    new = [{number for number in range(cases) if source.random() < wrong * (1 - wrong)} for _ in JUDGES]
    if any(len(failing) > most_allowed(CEILING, cases) for failing in new):
        return True
    rate = (1 - wrong) ** 2
    return confirm(source, [(rate, rate)] * len(new[0] | new[1]), is_admitted=False).confirmed > 0


def max_size(lowest: int, of: Callable[[float], float] = size) -> float:
    """Find the largest size over pass rates from `lowest` percent."""
    return max(of(rate / 100) for rate in range(lowest, 101))


def size_with_earlier_trials(rate: float) -> float:
    """Compute the exact chance that an unchanged case is confirmed whose merge base passed all trials before.

    The first trials of the merge base are run again; where both pass, the earlier ones count as the others.
    """
    both = rate**FRESH_FIRST
    earlier = both * _confirmed_at(rate, PAIRS)
    rest = PAIRS - FRESH_FIRST
    fresh = sum(
        _share(FRESH_FIRST, first, rate) * _share(rest, more, rate) * _confirmed_at(rate, first + more)
        for first in range(FRESH_FIRST)
        for more in range(rest + 1)
    )
    return earlier + fresh


def size_with_a_cache(rate: float) -> float:
    """Compute the same with the chance that there are such trials of the merge base."""
    passed_all = rate**PAIRS
    return passed_all * size_with_earlier_trials(rate) + (1 - passed_all) * size(rate)


def _confirmed_at(rate: float, before: int) -> float:
    """Compute the chance of a confirmed case where the merge base passes `before` trials."""
    return sum(
        _share(PAIRS, now, rate) for now in range(PAIRS + 1) if fisher(now, PAIRS, before, PAIRS) <= ALPHA
    )


def _share(trials: int, hits: int, rate: float) -> float:
    return comb(trials, hits) * rate**hits * (1 - rate) ** (trials - hits)


def table(lines: list[Line], experiments: int) -> str:
    """Render the results as markdown."""
    rows = [
        "# Confirmation",
        "",
        f"{experiments:,} experiments a line, {PAIRS} pairs, at most {MOST} cases, level {ALPHA:g}, "
        f"seed {SEED}. `python -m benchmarks.confirmation_simulation --write` makes this file. "
        "`18 of 20 before`: only cases that passed at least 18 of 20 earlier runs take part, with "
        "Holm's correction where more than three fail. `Holm`: every case takes part.",
        "",
        "| question | found | computed |",
        "|---|---:|---:|",
    ]
    for line in lines:
        shown = f"{line.found:.1f}" if line.question.endswith("trials") else f"{line.found:.2%}"
        expected = "" if line.expected is None else f"{line.expected:.2%}"
        rows.append(f"| {line.question} | {shown} | {expected} |")
    return "\n".join(rows) + "\n"


def read(text: str) -> dict[str, float]:
    """Read a written table back: the share found, by question."""
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in text.splitlines() if "%" in line]
    return {question: float(found.rstrip("%")) / 100 for question, found, *_ in rows if found.endswith("%")}


def guide_table(found: dict[str, float]) -> str:
    """Render the guide's table of the terms that a judge without tolerance can have.

    Args:
        found: Shares by question, as `read` returns them.
    """
    rows = [
        f"| two judges, nothing changed | {' | '.join(name for name in GUIDE_NAMES)} |",
        "|---" + "|---:" * 4 + "|",
    ]
    for wrong, cases in product((0.001, 0.005, 0.02), (20, 100)):
        said = f"two judges that wrongly fail {wrong:.1%} of {cases} cases each, nothing changed"
        rows.append(_guide_row(f"each wrongly fails {100 * wrong:g}% of {cases} cases", said, found))
    for rate, name in ((0.5, "half of the time"), (0.9, "90% of the time"), (1.0, "always")):
        said = f"an attack that newly succeeds {rate:.0%} of the time on one of 100 cases"
        rows.append(_guide_row(f"**an attack newly succeeds {name}**", said, found))
    return "\n".join(rows) + "\n"


def _guide_row(name: str, said: str, found: dict[str, float]) -> str:
    shares = (found[f"{said}, {term}: blocked"] for term in TERMS)
    return f"| {name} | {' | '.join(_rounded(share) for share in shares)} |"


def _rounded(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def main() -> None:
    """Simulate, print and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = table(measure(options.experiments), options.experiments)
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
