"""Drift: whether the base branch lost quality since a release, slowly or from one night to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import fsum, log, sqrt
from typing import Any, Literal

from agent_eval.contracts.history import HistoryRun
from agent_eval.errors import NothingMeasured
from agent_eval.gate.statistics import fisher

QUALITY_BUDGET = 0.05
"""Share of the release's pass rate that all changes together may lose."""
LATEST_RUNS = 8
"""Runs, the newest, whose mean is held against the release."""
FEWEST_RUNS = 4
"""Runs from which the budget is held: fewer say too little of how much a run varies."""
NOTABLE_DROP = 0.10
"""The fall from the release's pass rate that the alarm is tuned to."""
ALARM_AT = 4.0
"""The sum at which the alarm is raised: at 36 trials a run and a rate of .94, falsely in about 340 runs."""
CLEARED_BELOW = 1.0
"""The sum below which an alarm ends."""
HIGHEST_SUM = 6.0
"""The sum rises no further, so that an alarm ends within a few runs after a drop is mended."""
FELL_AT = 0.05
MENDED_SHARE = 0.5
"""Share of the budget that may still be lost where a loss counts as mended: less than what raises it, so that
a rate at the very budget does not go back and forth."""
Cause = Literal["model", "code", "both", "unclear"]
"""What moved: the model or a service, which the released agent uses too; the code; both; not shown yet."""
_ONE_SIDED_T = {3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895}
"""Student's t, 95 % one-sided, by degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Trials of the shared cases in one run.

    Example:
        >>> Counted(passed=9, scored=10).rate
        0.9
    """

    passed: int
    scored: int

    @property
    def rate(self) -> float:
        """Share of the scored trials that passed; 0 without any."""
        return self.passed / self.scored if self.scored else 0.0


@dataclass(frozen=True, slots=True)
class SuiteCount(Counted):
    """Trials of one run in the shared cases, with a rate in which each case counts the same.

    Example:
        >>> SuiteCount(passed=9, scored=13, mean=0.75).rate
        0.75

    Attributes:
        mean: Mean over the cases of the share of their trials that passed.
    """

    mean: float

    @property
    def rate(self) -> float:
        """The mean over the cases: one of which trials were lost weighs no less."""
        return self.mean


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What the base branch lost since a release.

    Attributes:
        release_rate: The release's pass rate over the shared cases: as `SuiteCount`, each counts the same.
        latest_rate: Mean of the newest runs' rates; None with no run.
        runs: How many runs that mean is of.
        lost: `release_rate` minus `latest_rate`; negative where the branch is better.
        lost_at_least: Lower end of `lost`, 95 % one-sided, where a run is a cluster; None below FEWEST_RUNS.
        budget: What may be lost.
        sums: The cumulative sum after each run, the oldest first; it counts trials, not cases.
        is_alarmed: Whether the alarm is up after the newest run.
        alarmed_at: Number of the run, from 0, that raised the alarm that is up; None where none is.

    Example:
        `drift_since(release, records).is_over_budget` decides about an issue.
    """

    release_rate: float
    latest_rate: float | None
    runs: int
    lost: float | None
    lost_at_least: float | None
    budget: float
    sums: Sequence[float]
    is_alarmed: bool
    alarmed_at: int | None

    @property
    def is_over_budget(self) -> bool:
        """Whether more than the budget is lost, and that anything is lost is no chance."""
        if self.lost is None or self.lost_at_least is None:
            return False
        return self.lost > self.budget and self.lost_at_least > 0

    @property
    def is_worse(self) -> bool:
        """Whether the alarm is up, or more than the budget is lost."""
        return self.is_alarmed or self.is_over_budget

    @property
    def is_mended(self) -> bool:
        """Whether enough runs show that what was lost is back.

        The alarm has ended, and of at least FEWEST_RUNS runs no more than half of the budget is lost. Without
        so many runs nothing is shown.
        """
        if self.is_alarmed or self.lost is None or self.runs < FEWEST_RUNS:
            return False
        return self.lost <= MENDED_SHARE * self.budget

    def is_up(self, *, was_up: bool) -> bool:
        """Whether a loss is shown, or one that was shown before this run is not yet mended."""
        return self.is_worse or (was_up and not self.is_mended)

    @property
    def began_at(self) -> int | None:
        """Number of the run, from 0, since which the pass rate is likely lower; None where no alarm is up.

        That is the run after the last one whose sum was 0, the likeliest begin of the change (Page 1954).
        """
        if self.alarmed_at is None:
            return None
        zeros = [number for number in range(self.alarmed_at) if self.sums[number] <= 0]
        return zeros[-1] + 1 if zeros else 0


@dataclass(frozen=True, slots=True)
class FallenCase:
    """A case that passes less often than in the release.

    Example:
        >>> FallenCase("refund", Counted(4, 4), Counted(1, 4)).fell_by
        0.75

    Attributes:
        case_id: The case.
        release: Its trials in the release.
        latest: Its trials in the runs since the alarm; without an alarm in the newest runs.
    """

    case_id: str
    release: Counted
    latest: Counted

    @property
    def fell_by(self) -> float:
        """The release's pass rate less the latest one."""
        return self.release.rate - self.latest.rate


@dataclass(frozen=True)
class DriftReport:
    """What `agent-eval drift` says.

    Attributes:
        drift: The figures.
        runs: The runs that were counted, the oldest first.
        left_out: How many runs were judged otherwise than the release, or scored too few of the cases.
        cases: How many cases are compared: the newest run defines them as the release did.
        released_agent_fell: Whether the released agent, run again, passes less often too; None where it was
            not run again.
        release: The release's trials of these cases; None where they are not known.
        again: The trials of the released agent, run again; None where it was not.
        cause: What moved, as far as the released agent shows it; None where it was not run again.
        cases_left_out: How many cases of the release are not compared, because they changed or are gone.
        fallen: The cases that pass less often than in the release, the worst first.
        newest_scored: Trials of the newest run.

    Example:
        `check_drift(Path("history"), [Path("release.zip")]).is_worse` says whether something is to be done.
    """

    drift: Drift
    runs: Sequence[HistoryRun]
    left_out: int
    cases: int
    released_agent_fell: bool | None = None
    release: Counted | None = None
    again: Counted | None = None
    cause: Cause | None = None
    cases_left_out: int = 0
    fallen: Sequence[FallenCase] = ()
    newest_scored: int = 0

    @property
    def is_worse(self) -> bool:
        """Whether the alarm is up, or more than the budget is lost."""
        return self.drift.is_worse

    def to_json(self) -> dict[str, Any]:
        """Return the figures, and the runs by id."""
        return {
            **asdict(self.drift),
            "is_over_budget": self.drift.is_over_budget,
            "is_worse": self.is_worse,
            "cases": self.cases,
            "left_out_cases": self.cases_left_out,
            "left_out_runs": self.left_out,
            "released_agent_fell": self.released_agent_fell,
            "cause": self.cause,
            "fallen": [asdict(case) for case in self.fallen],
            "run_ids": [run.run_id for run in self.runs],
        }


def cusum(counts: Sequence[Counted], good: float, bad: float) -> tuple[list[float], bool, int | None]:
    """Add up, run by run, how much likelier the counts are at a rate of `bad` than of `good`.

    Args:
        counts: Passed and scored trials of each run, the oldest first.
        good: The pass rate that is in order, between 0 and 1.
        bad: The lower rate that is to be noticed.

    Returns:
        The sum after each run, whether the alarm is up at the end, and which run raised it.

    Source: E. S. Page, Continuous inspection schemes, Biometrika 41 (1954) 100-115: the sum of
    log-likelihood ratios that never falls below 0.

    Example:
        >>> cusum([Counted(36, 36), Counted(26, 36), Counted(26, 36)], 0.94, 0.84)[1:]
        (True, 1)
    """
    per_pass, per_failure = log(bad / good), log((1 - bad) / (1 - good))
    sums: list[float] = []
    level, alarmed_at = 0.0, None
    for number, count in enumerate(counts):
        step = count.passed * per_pass + (count.scored - count.passed) * per_failure
        level = min(HIGHEST_SUM, max(0.0, level + step))
        if level >= ALARM_AT and alarmed_at is None:
            alarmed_at = number
        elif level < CLEARED_BELOW:
            alarmed_at = None
        sums.append(level)
    return sums, alarmed_at is not None, alarmed_at


def drift_since(
    release: Counted,
    counts: Sequence[Counted],
    *,
    budget: float = QUALITY_BUDGET,
    notable_drop: float = NOTABLE_DROP,
) -> Drift:
    """Hold the runs of the base branch against a release.

    Args:
        release: Trials of the release's runs: of one, or of several, which know its rate better.
        counts: Trials of the same cases in each run of the base branch, the oldest first. Rates, and so the
            budget, are those of the counts: as `SuiteCount`, each case counts the same. The sum of the alarm
            counts trials.
        budget: Share of the pass rate that may be lost.
        notable_drop: The fall that the alarm is tuned to.

    Raises:
        NothingMeasured: No trial of the release was scored.
    """
    if not release.scored:
        raise NothingMeasured(
            "no trial of the release was scored.",
            remedy="Evaluate the release again, with the judges of the base branch.",
        )
    good = _inside((release.passed + 1) / (release.scored + 2), notable_drop)
    sums, is_alarmed, alarmed_at = cusum(counts, good, good - notable_drop)
    latest = [count.rate for count in counts[-LATEST_RUNS:]]
    mean = fsum(latest) / len(latest) if latest else None
    return Drift(
        release_rate=release.rate,
        latest_rate=mean,
        runs=len(latest),
        lost=None if mean is None else release.rate - mean,
        lost_at_least=_at_least(latest, release),
        budget=budget,
        sums=sums,
        is_alarmed=is_alarmed,
        alarmed_at=alarmed_at,
    )


def fell_too(release: Counted, again: Counted, *, level: float = FELL_AT) -> bool:
    """Tell whether the released agent itself passes less often now: then the code is not why.

    Args:
        release: Its trials when it was released.
        again: Its trials now.
        level: Of the test, Fisher's one-sided exact one.

    Example:
        >>> fell_too(Counted(95, 100), Counted(80, 100)), fell_too(Counted(95, 100), Counted(93, 100))
        (True, False)
    """
    return fisher(again.passed, again.scored, release.passed, release.scored) <= level


def what_moved(release: Counted, again: Counted, branch: Counted, *, level: float = FELL_AT) -> Cause:
    """Tell a model that moved from code that moved, by the released agent run again.

    Args:
        release: Trials of the released agent when it was released.
        again: Its trials now.
        branch: Trials of the base branch now. Runs chosen for their misses blame the code too often.
        level: Of each of the two tests. To ask again the next night, see `gate.drift_cause`.

    Where the released agent passes less often than it did, what both agents use moved. Where the base branch
    passes less often than the released agent does now, the code did. Each by Fisher's one-sided exact test,
    so few trials say neither.

    Example:
        >>> good, bad = Counted(95, 100), Counted(75, 100)
        >>> what_moved(good, bad, bad), what_moved(good, good, bad), what_moved(good, Counted(5, 5), bad)
        ('model', 'code', 'unclear')
    """
    model = fell_too(release, again, level=level)
    code = fell_too(again, branch, level=level)
    if model and code:
        return "both"
    if model:
        return "model"
    return "code" if code else "unclear"


def together(counts: Iterable[Counted]) -> Counted:
    """Add counts up.

    Example:
        >>> together([Counted(1, 2), Counted(2, 2)])
        Counted(passed=3, scored=4)
    """
    listed = list(counts)
    return Counted(sum(count.passed for count in listed), sum(count.scored for count in listed))


def _inside(rate: float, notable_drop: float) -> float:
    """Keep both rates of the sum off 0 and 1, where a single trial would decide."""
    return min(0.99, max(rate, notable_drop + 0.01))


def _at_least(latest: Sequence[float], release: Counted) -> float | None:
    """Compute the lower end of what is lost: the spread of the runs, and that of the release's own count."""
    if len(latest) < FEWEST_RUNS:
        return None
    mean = fsum(latest) / len(latest)
    of_runs = fsum((rate - mean) ** 2 for rate in latest) / (len(latest) - 1) / len(latest)
    of_release = release.rate * (1 - release.rate) / release.scored
    return release.rate - mean - _ONE_SIDED_T[len(latest) - 1] * sqrt(of_runs + of_release)
