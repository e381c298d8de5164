"""Stability of cases over repeated runs: steady, flaky, or to be quarantined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from statistics import pstdev

from agent_eval.contracts.trials import (
    CaseStability,
    ShareInterval,
    StabilityReport,
    StabilityRun,
    StabilitySummary,
    pass_curve,
)
from agent_eval.errors import NothingMeasured
from agent_eval.gate.statistics import wilson

NOTABLE_FLAKE = 0.05
"""A case counts as steady once a flake of this rate would have shown."""
QUARANTINE_BELOW = 0.98


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The result of one case in one run."""

    passed: bool
    hard_failed: bool = False
    judged: bool = True
    """False where no judge had anything to judge: counts only where no other run of the case was judged."""


def stability(
    trials: Mapping[str, Sequence[TrialOutcome]],
    *,
    dataset_id: str,
    execution_mode: str,
    judge_names: Sequence[str] = (),
    quarantine_min_pass_rate: float = QUARANTINE_BELOW,
) -> StabilityReport:
    """Report on repeated runs: the outcome of each by case id, in run order, at least two runs a case.

    A flaky case that passes less often than `quarantine_min_pass_rate` should be quarantined. Raises
    `NothingMeasured` where there is no case, or a case has fewer than two runs.
    """
    short = [case_id for case_id, runs in trials.items() if len(runs) < 2]
    if not trials or short:
        raise NothingMeasured(
            "stability needs at least two runs of every case",
            remedy="Ask for more runs, or record several trials of every case.",
            case_id=short[0] if short else None,
        )
    cases = [_case(case_id, trials[case_id], quarantine_min_pass_rate) for case_id in sorted(trials)]
    runs = []
    for number in range(max(map(len, trials.values()))):
        outcomes = _counted([outcomes[number] for outcomes in trials.values() if number < len(outcomes)])
        passed = sum(outcome.passed for outcome in outcomes)
        runs.append(
            StabilityRun(
                run_index=number,
                cases=len(outcomes),
                passed_cases=passed,
                hard_fail_cases=sum(outcome.hard_failed for outcome in outcomes),
                pass_rate=passed / len(outcomes),
            )
        )
    flaky = [case.case_id for case in cases if case.flaky]
    failing = [case.case_id for case in cases if case.consistently_failing]
    quarantine = [case.case_id for case in cases if case.quarantine_recommended]
    return StabilityReport(
        dataset_id=dataset_id,
        runs=len(runs),
        execution_mode=execution_mode,
        judge_names=list(judge_names),
        run_results=runs,
        case_stability=cases,
        pass_curve=pass_curve((case.pass_count, case.runs, 1) for case in cases),
        flaky_case_ids=flaky,
        consistently_failing_case_ids=failing,
        quarantine_recommended_case_ids=quarantine,
        summary=StabilitySummary(
            cases=len(cases),
            avg_pass_rate=sum(case.pass_rate for case in cases) / len(cases),
            pass_rate_stddev=pstdev(run.pass_rate for run in runs),
            flaky_cases=len(flaky),
            consistently_failing_cases=len(failing),
            quarantine_recommended_cases=len(quarantine),
        ),
    )


def runs_to_see_flake(rate: float) -> int:
    """Compute after how many runs a case that fails with chance `rate` has failed with a chance of 95 %.

    The smallest n with 1 - (1 - rate)^n >= 0.95.
    """
    return max(1, ceil(log(0.05) / log(1 - rate)))


def _case(case_id: str, runs: Sequence[TrialOutcome], quarantine_below: float) -> CaseStability:
    runs = _counted(runs)
    total, passed = len(runs), sum(run.passed for run in runs)
    rate = passed / total
    flaky = 0 < passed < total
    needed = runs_to_see_flake(min(rate, 1 - rate) if flaky else NOTABLE_FLAKE)
    quarantine = flaky and rate < quarantine_below
    if passed == 0:
        reason = f"Failed all {total} runs: a defect, not a flake."
    elif passed == total:
        trusted = "" if total >= needed else f"; {needed} runs would rule out a flake of {NOTABLE_FLAKE:.0%}"
        reason = f"Passed all {total} runs{trusted}."
    elif quarantine:
        reason = (
            f"Passed {passed} of {total} runs, below {quarantine_below:g}: quarantine it until it is steady."
        )
    else:
        reason = f"Passed {passed} of {total} runs: flaky, but no less than {quarantine_below:g} of the time."
    return CaseStability(
        case_id=case_id,
        runs=total,
        pass_count=passed,
        hard_fail_count=sum(run.hard_failed for run in runs),
        pass_rate=rate,
        confidence_95=ShareInterval(**wilson(passed, total)._asdict()),
        flaky=flaky,
        consistently_failing=passed == 0,
        flake_score=2 * passed * (total - passed) / (total * (total - 1) or 1),
        minimum_runs=needed,
        quarantine_recommended=quarantine,
        reason=reason,
    )


def _counted(runs: Sequence[TrialOutcome]) -> Sequence[TrialOutcome]:
    return [run for run in runs if run.judged] or runs
