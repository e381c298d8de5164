"""Drift: whether main passes less than a release did, by the totals of its last runs.

Totals of runs, so that cases that fail together, as those of one topic or one hour do, count as they should.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, sqrt
from typing import Any

from agent_eval.contracts.history import HistoryRun
from agent_eval.gate.student import mean_and_variance, student_cdf

LATEST = 8
"""Runs of main, the newest, that are held against the release's."""
FEWEST = 4
"""Runs on either side from which anything is said."""
LEVEL = 0.01
"""Of the one-sided test, one look a run of main: 7 to 9 % false alarms in 50 runs, 15 % if very flaky."""
LEAST_VARIANCE = 0.25
"""Variance of a run's total below which it is not believed: that of one case that passes half of the time."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What main lost since a release.

    Attributes:
        cases: Cases that are compared.
        release: Cases that passed in each run of the release; with several trials, each is a run.
        main: The same in main's last runs, the newest first; a case with several trials counts by its share.
        p_value: One-sided, by Welch's t test of the totals; None with too few runs.
    """

    cases: int
    release: Sequence[float]
    main: Sequence[float]
    p_value: float | None

    @property
    def lost(self) -> float | None:
        """Share of the cases that main passes less; negative where it passes more. None without a run."""
        if not self.main:
            return None
        return (sum(self.release) / len(self.release) - sum(self.main) / len(self.main)) / self.cases

    @property
    def is_worse(self) -> bool:
        """Whether that is more than chance."""
        return self.p_value is not None and self.p_value <= LEVEL


def drift(release: Sequence[float], main: Sequence[float], cases: int) -> Drift:
    """Hold the totals of main's last runs against those of a release.

    Args:
        release: Cases that passed in each run of the release.
        main: Cases that passed in each run of main since, the newest first.
        cases: Cases of each total.
    """
    latest = list(main[:LATEST])
    enough = min(len(latest), len(release)) >= FEWEST
    return Drift(
        cases=cases,
        release=list(release),
        main=latest,
        p_value=welch(release, latest) if enough else None,
    )


def welch(before: Sequence[float], now: Sequence[float]) -> float:
    """Compute the one-sided p value that the mean fell.

    Source: B. L. Welch, The generalization of Student's problem when several different population variances
    are involved, Biometrika 34 (1947) 28-35; degrees of freedom by F. E. Satterthwaite (1946), rounded down.

    Example:
        >>> round(welch([48, 49, 47, 48], [44, 45, 43, 44]), 4)
        0.0002
    """
    (mean_before, of_before), (mean_now, of_now) = mean_and_variance(before), mean_and_variance(now)
    share_before = max(of_before, LEAST_VARIANCE) / len(before)
    share_now = max(of_now, LEAST_VARIANCE) / len(now)
    variance = share_before + share_now
    freedom = variance**2 / (share_before**2 / (len(before) - 1) + share_now**2 / (len(now) - 1))
    return 1 - student_cdf((mean_before - mean_now) / sqrt(variance), max(1, floor(freedom)))


@dataclass(frozen=True)
class FallenCase:
    """A case that passes less often than in the release: shares of passed trials then and on main now."""

    case_id: str
    release: float
    main: float


@dataclass(frozen=True, kw_only=True)
class DriftReport:
    """What `agent-eval drift` says.

    Attributes:
        drift: The test.
        runs: Main's runs that were held against the release, the newest first.
        left_out_runs: How many others were judged otherwise, judged too few of the cases, or are older.
        left_out_cases: How many cases of the release are not compared, because they changed or are gone.
        fallen: Cases that pass less often now, the worst first.
    """

    drift: Drift
    runs: Sequence[HistoryRun]
    left_out_runs: int
    left_out_cases: int
    fallen: Sequence[FallenCase]

    def to_json(self) -> dict[str, Any]:
        """Return the figures: totals of runs in cases, `lost` and shares from 0 to 1."""
        return {
            "is_worse": self.drift.is_worse,
            "lost": self.drift.lost,
            "p_value": self.drift.p_value,
            "cases": self.drift.cases,
            "release_totals": list(self.drift.release),
            "main_totals": list(self.drift.main),
            "left_out_cases": self.left_out_cases,
            "left_out_runs": self.left_out_runs,
            "run_ids": [run.run_id for run in self.runs],
            "fallen": [
                {"case_id": case.case_id, "release": case.release, "main": case.main} for case in self.fallen
            ],
        }
