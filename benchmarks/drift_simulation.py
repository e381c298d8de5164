"""How soon the watch over a base branch opens its issue after a drop, closes it after the fix, and errs.

    python -m benchmarks.drift_simulation            # prints the tables
    python -m benchmarks.drift_simulation --write    # and writes them into benchmarks/results/

Every night is a binomial count of trials. The gate's own functions decide, night by night, about the window
of runs that a history keeps, and remember of the night before only whether the issue was open. Seeded,
standard library only.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, quantiles

from agent_eval.gate.drift import Cause, Counted, Drift, drift_since
from agent_eval.gate.drift_cause import KnownLoss
from agent_eval.history.files import MAX_RUNS

RESULTS = Path(__file__).parent / "results" / "drift_simulation.md"
SEED = 20_260_101
EXPERIMENTS = 2_000
LONG_NIGHTS = 40_000
GOOD, TRIALS = 0.94, 36
DROP, FIX, LAST = 40, 60, 100
ISSUE_NIGHTS, QUIET_NIGHTS = 30, 100
MOVED_ISSUES, FALSE_ISSUES = 1_000, 500
EXACT = 1_000_000
"""Trials of a release whose rate is known."""


@dataclass
class Season:
    """One hundred nights: the nights in which the issue was opened and closed."""

    opened: list[int]
    closed: list[int]


def night(source: random.Random, rate: float, trials: int) -> Counted:
    """Count the trials of a night."""
    return Counted(sum(source.random() < rate for _ in range(trials)), trials)


def release(source: random.Random, trials: int) -> Counted:
    """Evaluate the release with so many trials."""
    if trials == EXACT:
        return Counted(round(GOOD * EXACT), EXACT)
    return night(source, GOOD, trials)


def drifts(at_release: Counted, counts: Sequence[Counted]) -> Iterator[Drift]:
    """Hold the branch against the release night by night, as a job does."""
    for number in range(1, len(counts) + 1):
        yield drift_since(at_release, counts[max(0, number - MAX_RUNS) : number])


def season(at_release: Counted, counts: Sequence[Counted], *, hysteresis: bool = True) -> Season:
    """Open and close the issue over the nights."""
    found, is_open = Season([], []), False
    for number, drift in enumerate(drifts(at_release, counts)):
        was_open, is_open = is_open, drift.is_up(was_up=is_open and hysteresis)
        if is_open and not was_open:
            found.opened.append(number)
        elif was_open and not is_open:
            found.closed.append(number)
    return found


def dropped(source: random.Random, drop: float, trials: int) -> list[Counted]:
    """A hundred nights with a drop that is mended."""
    rates = [GOOD - drop if DROP <= number < FIX else GOOD for number in range(LAST)]
    return [night(source, rate, trials) for rate in rates]


def drops() -> Iterator[str]:
    """Tabulate how soon a planted drop is seen and its end is."""
    yield "| drop | trials a night | trials of the release | seen after nights, mean | within 3 | within 5 "
    yield "| at all | closed after nights, median (90 %) | opened once and closed once |\n"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    for drop, trials, known in (
        (0.10, 36, EXACT),
        (0.10, 36, 360),
        (0.10, 36, 36),
        (0.10, 100, 400),
        (0.20, 36, 360),
        (0.05, 36, 360),
        (0.05, 144, 576),
    ):
        source = random.Random(f"{SEED} {drop} {trials} {known}")
        late, closed, once = [], [], 0
        for _ in range(EXPERIMENTS):
            found = season(release(source, known), dropped(source, drop, trials))
            if any(number < DROP for number in found.opened):
                continue
            within = [number for number in found.opened if number < FIX]
            late.append(within[0] - DROP + 1 if within else LAST)
            if within and (after := [number for number in found.closed if number >= FIX]):
                closed.append(after[0] - FIX + 1)
            once += (len(found.opened), len(found.closed)) == (1, 1)
        seen = [number for number in late if number < LAST]
        deciles = quantiles(closed, n=10)
        known_words = "exact" if known == EXACT else str(known)
        shares = " | ".join(_within(late, nights) for nights in (3, 5, LAST - 1))
        yield (
            f"| {100 * drop:.0f} points | {trials} | {known_words} | {fmean(seen):.1f} | {shares} | "
            f"{deciles[4]:.0f} ({deciles[8]:.0f}) | {once / len(late):.0%} |\n"
        )


def _within(late: Sequence[int], nights: int) -> str:
    return f"{sum(number <= nights for number in late) / len(late):.0%}"


def false_alarms() -> Iterator[str]:
    """Tabulate how often the issue opens although nothing changed."""
    yield "| trials a night | trials of the release | alarm alone: one in nights | issue: one opened in "
    yield "nights | nights with an open issue |\n"
    yield "|---:|---:|---:|---:|---:|\n"
    for trials, known in ((36, EXACT), (36, 1_440), (36, 360), (36, 180), (36, 36), (100, 400), (144, 576)):
        source = random.Random(f"{SEED} quiet {trials} {known}")
        raised = opened = nights_open = 0
        for _ in range(LONG_NIGHTS // 200):
            at_release, was_raised, is_open = release(source, known), False, False
            counts = [night(source, GOOD, trials) for _ in range(200)]
            for drift in drifts(at_release, counts):
                raised += drift.is_alarmed and not was_raised
                was_open, is_open = is_open, drift.is_up(was_up=is_open)
                opened += is_open and not was_open
                nights_open += is_open
                was_raised = drift.is_alarmed
        known_words = "exact" if known == EXACT else str(known)
        yield (
            f"| {trials} | {known_words} | {_one_in(raised)} | {_one_in(opened)} | "
            f"{nights_open / LONG_NIGHTS:.1%} |\n"
        )


def _one_in(times: int) -> str:
    return f"{LONG_NIGHTS / times:,.0f}" if times else f"over {LONG_NIGHTS:,}"


def at_the_budget() -> Iterator[str]:
    """Tabulate how often the issue opens in a hundred nights where the loss is about what may be lost."""
    yield "| steady loss | opened with hysteresis, mean | without |\n|---:|---:|---:|\n"
    for loss in (0.03, 0.04, 0.05, 0.06, 0.07):
        means = []
        for hysteresis in (True, False):
            source = random.Random(f"{SEED} budget {loss}")
            counted = [
                len(
                    season(
                        release(source, 576),
                        [night(source, GOOD - loss, 144) for _ in range(LAST)],
                        hysteresis=hysteresis,
                    ).opened
                )
                for _ in range(EXPERIMENTS // 10)
            ]
            means.append(fmean(counted))
        yield f"| {100 * loss:.0f} points | {means[0]:.2f} | {means[1]:.2f} |\n"


@dataclass
class Blamed:
    """What one issue blamed: in which of its nights, from 1, each answer was first given."""

    said: dict[Cause, int]

    def night_of(self, true: Cause) -> int:
        """The night that named the part; `LAST` where none did."""
        return min((number for cause, number in self.said.items() if cause in (true, "both")), default=LAST)

    def is_wrong(self, true: Cause) -> bool:
        """Whether a part that did not move was ever blamed."""
        return bool(self.said.keys() - {true, "unclear"})


def blamed(source: random.Random, known: int, trials: int, released: float, branch: float) -> Blamed | None:
    """Ask what moved in each of thirty nights of one issue, as a job does; None where no issue opened.

    Args:
        source: Of chance.
        known: Trials of the release.
        trials: Trials of a night, of either agent.
        released: Rate of the released agent now.
        branch: Rate of the base branch now.
    """
    at_release, counts, said = release(source, known), list[Counted](), dict[Cause, int]()
    loss, asked = None, 0
    for _ in range(QUIET_NIGHTS if branch == GOOD else LAST):
        counts.append(night(source, branch, trials))
        if not drift_since(at_release, counts[-MAX_RUNS:]).is_up(was_up=loss is not None):
            if loss is not None:
                break
            continue
        own = counts[-1] if loss is not None else Counted(0, 0)
        loss = (loss or KnownLoss()).with_night(night(source, released, trials), own, "").tested(at_release)
        asked += 1
        said.setdefault(loss.cause, asked)
        if asked == ISSUE_NIGHTS:
            break
    return Blamed(said) if loss is not None else None


def causes() -> Iterator[str]:
    """Tabulate how often the wrong part is blamed for a loss, and how soon the right one is."""
    yield "| what moved, by | trials a night | trials of the release | wrong part ever blamed | right part "
    yield "named | after nights, median (90 %) |\n|---|---:|---:|---:|---:|---:|\n"
    moves: tuple[tuple[Cause, float, float, float], ...] = (
        ("code", 0.10, 0.0, 0.10),
        ("model", 0.10, 0.10, 0.10),
        ("code", 0.30, 0.0, 0.30),
        ("model", 0.30, 0.30, 0.30),
        ("unclear", 0.0, 0.0, 0.0),
    )
    for true, by, of_released, of_branch in moves:
        for trials, known in ((36, 360), (100, 400), (144, 576)):
            source = random.Random(f"{SEED} cause {true} {by} {trials} {known}")
            made: list[Blamed] = []
            while len(made) < (MOVED_ISSUES if by else FALSE_ISSUES):
                found = blamed(source, known, trials, GOOD - of_released, GOOD - of_branch)
                made += [found] if found is not None else []
            wrong = sum(each.is_wrong(true) for each in made) / len(made)
            name = f"{true}, {100 * by:.0f} points" if by else "nothing: a false issue"
            yield f"| {name} | {trials} | {known} | {wrong:.1%} | {_named(made, true) if by else '– | –'} |\n"


def _named(made: Sequence[Blamed], true: Cause) -> str:
    late = sorted(each.night_of(true) for each in made)
    seen = [number for number in late if number < LAST]
    deciles = quantiles(seen, n=10)
    return f"{len(seen) / len(late):.1%} | {deciles[4]:.0f} ({deciles[8]:.0f})"


def report() -> str:
    """Run all simulations and write them as markdown."""
    return (
        "# The watch over a base branch\n\n"
        f"A rate of {GOOD:.0%}, a window of {MAX_RUNS} runs, the gate's own functions, seed {SEED}. "
        "`python -m benchmarks.drift_simulation --write` makes this file.\n\n"
        f"## A planted drop\n\n{EXPERIMENTS:,} times a hundred nights: a drop at night {DROP}, mended at "
        f"night {FIX}. Hundreds in which the issue was opened before the drop are left out: that is the next "
        "table. The last column also counts what came after the fix.\n\n"
        f"{''.join(drops())}\n"
        f"## Nothing changed\n\n{LONG_NIGHTS:,} nights a line, in series of 200, each with a release of its "
        "own. A rate that is known from few trials is often too high, and then each night is an alarm: give "
        "the release ten times the trials of a night.\n\n"
        f"{''.join(false_alarms())}\n"
        f"## A loss about the size of the budget\n\n{EXPERIMENTS // 10:,} times a hundred nights of 144 "
        "trials, a release of 576. Without hysteresis the issue would be closed on the first night on which "
        "it would not be opened.\n\n"
        f"{''.join(at_the_budget())}\n"
        f"## What moved\n\n{MOVED_ISSUES:,} issues a line, {FALSE_ISSUES} of the false ones, asked in each "
        f"of up to {ISSUE_NIGHTS} nights while the issue is open. The night that opens it counts for the "
        "released agent alone. A false issue blames a part wrongly whatever it blames; a release whose rate "
        "is known from few trials opens more of them.\n\n"
        f"{''.join(causes())}"
    )


def main() -> None:
    """Print the tables, and write them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/drift_simulation.md")
    text = report()
    print(text)
    if parser.parse_args().write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
