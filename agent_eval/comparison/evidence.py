"""What a decision by policy rests on: statistics, and how many cases were left out or could not be judged."""

from __future__ import annotations

from agent_eval.comparison.excuses import Excuses
from agent_eval.comparison.pairs import paired_statistics
from agent_eval.comparison.rules import Measured
from agent_eval.comparison.trial_pairs import trial_statistics
from agent_eval.contracts import Comparison, GateEvidence, Outcome, TrialComparison, TrialEvidence
from agent_eval.contracts.policy import GatePolicy


def gate_evidence(
    comparison: Comparison, measured: Measured, excuses: Excuses, policy: GatePolicy
) -> GateEvidence:
    """The evidence of a decision: by pass rates where cases have several trials, else by discordant pairs."""
    if comparison.trials is not None:
        found = trial_statistics(comparison.trials, measured.compared, excuses, policy)
    else:
        found = paired_statistics(comparison, excuses, policy)
    summary = comparison.candidate.summary
    return GateEvidence(
        method=found.method,
        trials=None if comparison.trials is None else _trials(comparison.trials),
        compared=measured.compared,
        paired=found.total,
        baseline_passed=measured.pair_passed[0],
        candidate_passed=measured.pair_passed[1],
        regressed=found.regressed,
        fixed=found.fixed,
        drop=found.drop,
        interval_low=found.interval.low,
        interval_high=found.interval.high,
        confidence=policy.confidence,
        margin=policy.effective_margin,
        p_value=found.p_value,
        e_value=found.e_value,
        stop_at=1 / policy.alpha,
        power_for_ten_points=found.power_for_ten_points,
        cases_needed=found.cases_needed,
        judges=found.judges,
        errors=summary.error_cases,
        new_errors=len(new_error_cases(comparison, excuses)),
        flaky=summary.flaky_cases,
        unscored=summary.inconclusive_cases + summary.skipped_cases,
        waived=len(excuses.waived | excuses.waived_rates),
        quarantined=len(excuses.quarantined),
    )


def _trials(trials: TrialComparison) -> TrialEvidence:
    return TrialEvidence(
        baseline_fewest=trials.baseline.fewest,
        baseline_most=trials.baseline.most,
        candidate_fewest=trials.candidate.fewest,
        candidate_most=trials.candidate.most,
        baseline_rate=trials.baseline.pass_rate,
        candidate_rate=trials.candidate.pass_rate,
        errors=trials.candidate.errors,
    )


def new_error_cases(comparison: Comparison, excuses: Excuses) -> list[str]:
    """Cases that could be judged in the baseline and cannot now, but for excused ones."""
    return [
        row.case_id
        for row in comparison.case_regressions
        if row.candidate_outcome is Outcome.ERROR
        and row.baseline_outcome is not Outcome.ERROR
        and row.case_id not in excuses.cases
        and row.case_id not in excuses.quarantine
    ]
