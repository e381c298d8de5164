"""The steps of a decision by policy, in the order they are taken, and the statistics they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agent_eval.comparison.facts import cut
from agent_eval.contracts import (
    Comparison,
    Coverage,
    GateEvidence,
    GateStep,
    JudgeEvidence,
    Outcome,
    RuleResult,
    TopicEvidence,
    TrialComparison,
    TrialEvidence,
)
from agent_eval.contracts.gate import PooledEvidence
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.coverage import coverage_sentence
from agent_eval.gate.fitness import judged_nothing
from agent_eval.gate.paired import CASES, paired_statistics, trial_statistics
from agent_eval.gate.rules import Measured, unchecked_answers
from agent_eval.gate.waivers import Excuses
from agent_eval.text.numbers import apart, beside, confidence_text, count, margin, of_all, percent, verb

Status = Literal["passed", "failed", "inconclusive", "not-applied"]

NAMED = 3
"""Most cases that a sentence names; it always gives the number of all of them."""
NAME_LIMIT = 60


def coverage(counted: Coverage | None, policy: GatePolicy, *, is_below_floor: bool) -> GateStep:
    """Stop where less of the baseline is compared than the floor asks for, and where nothing is.

    That is no pass: preset `release` fails, any other is inconclusive.
    """
    status: Status = "passed"
    if is_below_floor or counted is None or counted.is_nothing:
        status = "failed" if policy.preset == "release" else "inconclusive"
    message = coverage_sentence(counted)
    if status != "passed" and counted is not None and not counted.losses:
        message = "No case of the baseline is compared: every one is waived or in quarantine"
    return GateStep(name="coverage", status=status, message=f"{message}.")


def integrity(comparison: Comparison, excuses: Excuses, policy: GatePolicy) -> GateStep:
    """Fail where nothing could be judged, where too many cases newly cannot, or where cases were removed.

    For a release, answers that were not checked and records that were damaged leave the decision open.
    """
    summary = comparison.candidate.summary
    errors = new_error_cases(comparison, excuses)
    removed = comparison.cases.removed
    status: Status = "failed"
    if judged_nothing(summary):
        message = f"{of_all(0, summary.total_cases, 'case')} could be judged; nothing measured is not a pass."
    elif len(errors) > policy.max_new_error_cases:
        message = (
            f"{case_list(errors)} could be judged in the baseline and cannot now, "
            f"above max_new_error_cases {policy.max_new_error_cases}."
        )
    elif removed and policy.on_case_removed == "fail":
        gone = f"of the baseline {verb(len(removed), 'is', 'are')} gone"
        message = f"{case_list(removed)} {gone}, and on_case_removed is fail."
    elif summary.answers_not_checked and policy.preset == "release":
        status = "inconclusive"
        message = f"{unchecked_answers(summary.answers_not_checked)}, and that is no pass."
    elif comparison.candidate.damaged_records and policy.preset == "release":
        status = "inconclusive"
        damaged = comparison.candidate.damaged_records
        message = (
            f"{count(damaged, 'record')} of done trials {verb(damaged, 'was', 'were')} damaged before the "
            "run was resumed. The agent can have done that: run it again with --fresh."
        )
    else:
        status = "passed"
        message = (
            f"{count(len(errors), 'new error')}, {summary.error_cases} in all; "
            f"{count(len(removed), 'case')} removed."
        )
    return GateStep(name="integrity", status=status, message=message)


def thresholds(rules: Sequence[RuleResult]) -> GateStep:
    """Fail where a rule of the thresholds does not hold."""
    rules = [rule for rule in rules if rule.applied]
    broken = [rule for rule in rules if not rule.passed]
    if not rules:
        return GateStep(name="thresholds", status="not-applied", message="No threshold is set.")
    if broken:
        return GateStep(name="thresholds", status="failed", message=" ".join(rule.message for rule in broken))
    return GateStep(
        name="thresholds",
        status="passed",
        message=f"{'The threshold holds' if len(rules) == 1 else f'All {len(rules)} thresholds hold'}.",
    )


def regression(evidence: GateEvidence, policy: GatePolicy) -> GateStep:
    """Fail where cases, or the verdicts of a judge, regressed by more than chance explains."""
    tested: list[tuple[str, JudgeEvidence | TopicEvidence]] = [
        *(("cases" if test.judge_id == CASES else test.judge_id, test) for test in evidence.judges),
        *((f"topic '{cut(test.topic, NAME_LIMIT)}'", test) for test in evidence.topics),
    ]
    significant = [(name, test) for name, test in tested if test.significant]
    if not evidence.compared:
        return GateStep(name="regression", status="not-applied", message="No case was compared.")
    if evidence.pooled is not None:
        return _unusual(evidence, evidence.pooled, policy, is_unusual=bool(significant))
    worse, better = ("regressed", "fixed") if evidence.trials is None else ("lower", "higher")
    if significant:
        clauses = "; ".join(
            f"{name}: {test.regressed:,} {worse}, {test.fixed:,} {better}, "
            f"{_probability(test.p_value, policy.alpha)}"
            for name, test in significant
        )
        return GateStep(
            name="regression",
            status="failed",
            message=f"More {'regressed' if evidence.trials is None else 'fell'} than chance explains at "
            f"{policy.alpha:g} (one-sided, Holm): {clauses}.",
        )
    change = f"{evidence.regressed:,} {worse} and {evidence.fixed:,} {better}"
    if evidence.trials is not None:
        change = f"A pass rate that is {worse} in {count(evidence.regressed, 'case')} and {better} in "
        change += f"{evidence.fixed:,}"
    chance = _probability(evidence.p_value, policy.alpha)
    return GateStep(
        name="regression",
        status="passed",
        message=f"{change} is what chance explains (one-sided {chance}).",
    )


def _unusual(
    evidence: GateEvidence, pooled: PooledEvidence, policy: GatePolicy, *, is_unusual: bool
) -> GateStep:
    """Fail where the run is below what the pooled runs of the base branch make likely."""
    decimals = max(apart(pooled.rate, pooled.low), apart(pooled.rate, pooled.mean))
    rate, mean, low = (percent(share, decimals=decimals) for share in (pooled.rate, pooled.mean, pooled.low))
    runs = f"the last {pooled.runs} runs of the base branch"
    chance = f"mean {mean}, one-sided {_probability(evidence.p_value, policy.alpha)}"
    likely = f"{rate} of the scored trials passed, and {runs} make {low} or more likely ({chance})."
    if pooled.rate < pooled.low:
        likely = (
            f"{rate} of the scored trials passed, below the {low} that {runs} make likely, but the exact "
            f"test of the trials does not tell that from chance ({chance})."
        )
    if is_unusual:
        likely = f"{rate} of the scored trials passed, less than chance explains after {runs} ({chance})."
    return GateStep(name="regression", status="failed" if is_unusual else "passed", message=likely)


def non_inferiority(evidence: GateEvidence, policy: GatePolicy, *, is_any_worse: bool = False) -> GateStep:
    """Pass where a drop as large as the margin is ruled out; otherwise the step is inconclusive.

    Where no case and no verdict of a judge is worse than before, that is said with the drop that could hide
    in so few cases. That passes, but under preset `release` only where that drop is below the margin, or the
    agent is declared deterministic and no trial refutes it.

    Args:
        evidence: What was tested.
        policy: Its margin, preset and whether the agent is declared deterministic.
        is_any_worse: Whether a case that counts regressed. With looks, a case is held against as many first
            trials of the baseline, while the tests take all of them: a case can regress whose rate rose.
    """
    high = evidence.interval_high
    allowed, upper_end = margin(evidence.margin), beside(high, evidence.margin)
    status: Status = "passed"
    if not evidence.compared:
        status = "inconclusive"
        message = "No case was compared, so nothing is known about a drop."
    elif (
        evidence.pooled is None and not is_any_worse and not any(judge.regressed for judge in evidence.judges)
    ):
        message = f"Unchanged: no verdict is worse in {count(evidence.compared, 'compared case')}"
        if policy.deterministic and not evidence.flaky:
            message += ", and the agent is declared deterministic."
        else:
            message += f"; a drop of up to {upper_end} points could hide."
            if policy.deterministic:
                message += f" Trials differ in {count(evidence.flaky or 0, 'case')}: it is not deterministic."
            if policy.preset == "release" and high >= evidence.margin:
                status = "inconclusive"
                message += f" A release allows less than {allowed} points."
    elif high < evidence.margin:
        confidence = confidence_text(evidence.confidence)
        message = f"A drop of {allowed} points is ruled out: with {confidence} confidence "
        message += "the pass rate rose." if high < 0 else f"it is at most {upper_end} points."
    else:
        status = "inconclusive"
        message = f"A drop of {allowed} points cannot be ruled out: it may be as large as {upper_end} points."
    return GateStep(name="non-inferiority", status=status, message=message)


def cut_name(case_id: str) -> str:
    """Cut the name of a case to what a sentence has room for."""
    return cut(case_id, NAME_LIMIT)


def case_list(case_ids: Sequence[str]) -> str:
    """Count cases and name the first of them, as a clause."""
    named = ", ".join(cut_name(case_id) for case_id in case_ids[:NAMED])
    more = ", …" if len(case_ids) > NAMED else ""
    return f"{count(len(case_ids), 'case')} ({named}{more})"


def _probability(p_value: float, alpha: float) -> str:
    """Format a p value with enough digits not to look like `alpha`; a very small one is only bounded."""
    if p_value < 1e-300:
        return "p under 1e-300"
    digits = 2
    while digits < 6 and p_value != alpha and float(f"{p_value:.{digits}g}") == alpha:
        digits += 1
    return f"p = {p_value:.{digits}g}"


def gate_evidence(
    comparison: Comparison, measured: Measured, excuses: Excuses, policy: GatePolicy
) -> GateEvidence:
    """Compute the evidence of a decision: from pass rates with several trials, else from discordant pairs."""
    if comparison.trials is not None:
        statistics = trial_statistics(
            comparison.trials, measured.compared, excuses, policy, comparison.topics
        )
    else:
        statistics = paired_statistics(comparison, excuses, policy)
    summary = comparison.candidate.summary
    return GateEvidence(
        method=statistics.method,
        trials=None if comparison.trials is None else _trials(comparison.trials),
        looks=comparison.candidate.looks,
        compared=measured.compared,
        paired=statistics.total,
        baseline_passed=measured.pair_passed[0],
        candidate_passed=measured.pair_passed[1],
        regressed=statistics.regressed,
        fixed=statistics.fixed,
        drop=statistics.drop,
        interval_low=statistics.interval.low,
        interval_high=statistics.interval.high,
        confidence=policy.confidence,
        margin=policy.effective_margin,
        p_value=statistics.p_value,
        e_value=statistics.e_value,
        stop_at=1 / policy.alpha,
        power_for_ten_points=statistics.power_for_ten_points,
        cases_needed=statistics.cases_needed,
        judges=statistics.judges,
        topics=statistics.topics,
        topic_clusters=statistics.topic_clusters,
        errors=summary.error_cases,
        new_errors=len(new_error_cases(comparison, excuses)),
        flaky=summary.flaky_cases,
        unscored=summary.inconclusive_cases + summary.skipped_cases,
        waived=len(excuses.waived | excuses.waived_rates),
        quarantined=len(excuses.quarantined.union(comparison.cases.quarantined)),
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
    """List the cases that could be judged in the baseline and cannot now, without the excused ones."""
    return [
        row.case_id
        for row in comparison.case_regressions
        if row.candidate_outcome is Outcome.ERROR
        and row.baseline_outcome is not Outcome.ERROR
        and row.case_id not in excuses.cases | excuses.quarantine | excuses.never_blocking
    ]
