"""Main and a release: the margin that a release may have lost, and drift, what main lost since.

Drift is told by totals of runs, so that cases that fail together, as those of one kind or one hour do, count
as they should.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import sqrt
from typing import Any, Literal

from agent_eval.contracts.gate import ReleaseAnswer
from agent_eval.contracts.history import HistoryRun
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.procedure import Counts
from agent_eval.gate.statistics import (
    CONFIDENCE,
    NONE,
    NORMAL_QUANTILE,
    Count,
    Interval,
    mean_and_variance,
    student_quantile,
    tango_interval,
    welch,
)
from agent_eval.text.numbers import allowed, distance

LATEST = 8
"""Runs of main, the newest, that are held against the release's."""
FEWEST = 4
"""Runs on either side from which anything is said."""
LEVEL = 0.01
"""Of the one-sided test, one look a run of main: 7 to 9 % false alarms in 50 runs, 15 % if very flaky."""


def release_answer(
    counts: Counts, policy: GatePolicy, left_out: frozenset[str] = frozenset()
) -> ReleaseAnswer | None:
    """Say whether the pass rate fell by less than the margin; None where there is nothing to compare with.

    The fall is the mean over the cases of the share that passed in the release's base, pooled over its last
    runs, less the share now, with Student's t interval over the cases, or Tango's where each case has one
    trial on both sides. `within`: its upper end is below the margin; `worse`: its lower end is above 0. A
    deterministic agent falls by what is seen. Cases left out are in quarantine, or waived.
    """
    pairs = []
    for case_id, own in sorted(counts.own.cases.items()):
        rows = [row for run in counts.runs if (row := counts.row(run, case_id)) is not None]
        before = sum((Count(row.passed, row.trials) for row in rows), NONE)
        if case_id not in left_out and before.trials and own.trials:
            pairs.append((before, Count(own.passed, own.trials)))
    if not pairs:
        return None
    fall = float(sum(Fraction(*before) - Fraction(*now) for before, now in pairs) / len(pairs))
    low, high = (fall, fall) if policy.deterministic else interval(pairs)
    margin = policy.effective_margin
    fell = f"The pass rate fell by {distance(fall)} points" if fall > 0 else "The pass rate did not fall"
    stated = f"margin {allowed(margin).removesuffix('%')} points"
    answer: Literal["within", "worse", "open"] = "open"
    reason = (
        f"{fell}, but up to {distance(high)} points can hide, above {stated}: run more trials of each case."
    )
    if low > 0:
        answer = "worse"
        reason = f"{fell}, and that is no chance: at least {distance(low)} ({len(pairs)} cases)."
    elif high < margin or (policy.deterministic and fall <= 0):
        answer = "within"
        most = (
            f"at most {distance(high)} can hide ({len(pairs)} cases)" if high > 0 else f"{len(pairs)} cases"
        )
        reason = f"{fell}; {most}, below {stated}."
    return ReleaseAnswer(fall=fall, low=low, high=high, margin=margin, answer=answer, reason=reason)


def interval(pairs: Sequence[tuple[Count, Count]]) -> Interval:
    """Compute the two-sided interval of the mean fall of cases, from counts before and now.

    With all alike the spread is 0; as many trials as there are can still hide z^2 / (n + z^2) of a case's
    fall, divided by the trials of the side that has fewer (the upper end of Wilson's interval at 0).
    """
    number = len(pairs)
    if all(before.trials == now.trials == 1 for before, now in pairs):
        regressed = sum(before.passed > now.passed for before, now in pairs)
        fixed = sum(before.passed < now.passed for before, now in pairs)
        return tango_interval(regressed, fixed, number)
    if number == 1:
        return Interval(-1.0, 1.0)
    z = NORMAL_QUANTILE
    unseen = z * z / (number + z * z) / min(min(before.trials, now.trials) for before, now in pairs)
    falls = [float(Fraction(*before) - Fraction(*now)) for before, now in pairs]
    mean, variance = mean_and_variance(falls)
    half = student_quantile((1 + CONFIDENCE) / 2, number - 1) * sqrt(variance / number)
    return Interval(max(-1.0, mean - half), min(1.0, max(mean + half, unseen)))


@dataclass(frozen=True)
class FallenCase:
    """A case that passes less often than in the release: shares of passed trials then and on main now."""

    case_id: str
    release: float
    main: float


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What main lost since a release, as `agent-eval history drift` says it.

    Attributes:
        cases: Cases that are compared.
        release: Cases that passed in each run of the release; with several trials, each is a run.
        main: The same in main's last runs, the newest first; a case with several trials counts by its share.
        p_value: One-sided, by Welch's t test of the totals; None with too few runs.
        runs: Main's runs that were held against the release, the newest first.
        left_out_runs: How many others were judged otherwise, judged too few of the cases, or are older.
        left_out_cases: How many cases of the release are not compared, because they changed or are gone.
        fallen: Cases that pass less often now, the worst first.
    """

    cases: int
    release: Sequence[float]
    main: Sequence[float]
    p_value: float | None
    runs: Sequence[HistoryRun] = ()
    left_out_runs: int = 0
    left_out_cases: int = 0
    fallen: Sequence[FallenCase] = ()

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

    def to_json(self) -> dict[str, Any]:
        """Return the figures: totals of runs in cases, `lost` and shares from 0 to 1."""
        return {
            "is_worse": self.is_worse,
            "lost": self.lost,
            "p_value": self.p_value,
            "cases": self.cases,
            "release_totals": list(self.release),
            "main_totals": list(self.main),
            "left_out_cases": self.left_out_cases,
            "left_out_runs": self.left_out_runs,
            "run_ids": [run.run_id for run in self.runs],
            "fallen": [asdict(case) for case in self.fallen],
        }


def drift(release: Sequence[float], main: Sequence[float], cases: int) -> Drift:
    """Hold the totals of main's last runs, the newest first, against those of a release."""
    latest = list(main[:LATEST])
    enough = min(len(latest), len(release)) >= FEWEST
    p_value = welch(release, latest) if enough else None
    return Drift(cases=cases, release=list(release), main=latest, p_value=p_value)
