"""The decision of the gate, by policy or by thresholds alone: passed, failed or inconclusive.

A policy takes these steps in this order: coverage → integrity → zero-tolerance judges → confirmation, where
one was made → thresholds → regression test → non-inferiority. The first step that fails decides. Without a
failure the decision is inconclusive where a step is, and passed where none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agent_eval.config.rules import RULES
from agent_eval.contracts import (
    Comparison,
    GateDecision,
    GateEvidence,
    GateStatus,
    GateStep,
    RuleResult,
    RunReference,
    Thresholds,
)
from agent_eval.contracts.base import instant
from agent_eval.contracts.confirmation import Confirmation
from agent_eval.contracts.history import PooledRuns
from agent_eval.contracts.policy import MAX_BASELINE_ERROR_RATE, GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import UsageError
from agent_eval.gate import steps
from agent_eval.gate.confirmation import Confirmed, suspect_results
from agent_eval.gate.confirmation_step import confirmation_step
from agent_eval.gate.explanation import explain
from agent_eval.gate.fitness import refuse_unfit_baseline
from agent_eval.gate.looks import policy_at_look, refuse_impossible_looks
from agent_eval.gate.losses import marked_not_evaluated, why_not_evaluated, why_too_little
from agent_eval.gate.policy_file import refuse_no_numbers
from agent_eval.gate.pooled import pooled_evidence, worse_outside
from agent_eval.gate.rules import Measured, answers_unchecked, apply_rules, measure, measure_run
from agent_eval.gate.steps import gate_evidence
from agent_eval.gate.tiers import excuses_by
from agent_eval.gate.waivers import Excuses, excuse
from agent_eval.gate.zero_tolerance import zero_tolerance

FLOOR = "min_coverage"
"""The rule that the step on coverage takes; a policy does not count it among its thresholds."""


def decide_by_policy(
    comparison: Comparison,
    policy: GatePolicy,
    *,
    generated_at: str,
    thresholds: Thresholds | None = None,
    comparison_sha256: str | None = None,
    waivers: Sequence[Waiver] = (),
    confirmation: Confirmed | None = None,
    pool: PooledRuns | None = None,
) -> GateDecision:
    """Decide on a candidate that was compared with a baseline, by a policy.

    More than six parameters: they are the sources of a decision, and most have a default.

    Args:
        comparison: Result of `compare`, also one that was read from a file.
        policy: Policy from `gate.yml`, or a preset: `GatePolicy(preset="release")`.
        generated_at: ISO 8601 time with its offset; expiries are held against it.
        thresholds: Rules from flags, which override those of the policy one by one.
        comparison_sha256: Digest of the file the comparison was read from.
        waivers: Waivers of the baseline; expired and revoked ones excuse nothing.
        confirmation: Fresh trials of the cases that newly fail; None where none were asked for. What they
            clear does not count as regressed; rates and the tests over the suite stay those of the first run.
        pool: Runs of the base branch that the tests over the suite hold the candidate against; None where
            that is the baseline alone.

    Raises:
        InvalidInput: The comparison or the confirmation contradicts itself, or the baseline is none; or the
            looks that the candidate states are not those it can have had.
        NothingMeasured: The candidate has no case.
        UsageError: `generated_at` names no point in time.
    """
    refuse_unfit_baseline(comparison, policy.max_baseline_error_rate)
    refuse_impossible_looks(comparison)
    at_look = policy_at_look(policy, comparison.candidate.looks)
    excuses = excuses_by(comparison, policy, waivers, now=decision_time(generated_at))
    measured = measure(comparison)
    if pool is not None and worse_outside(pool, comparison, excuses):
        pool = None
    evidence = pooled_evidence(gate_evidence(comparison, measured, excuses, at_look), pool, excuses, at_look)
    results = suspect_results(comparison, policy, excuses, confirmation)
    cleared = frozenset(result.case_id for result in results if result.verdict in ("cleared", "not-yours"))
    counted = measured.without(excuses.uncounted | cleared, comparison, excuses.coverage)
    merged = merge_thresholds(policy.thresholds, thresholds)
    rules = _applicable(apply_rules(merged, counted), counted)
    record = confirmation.record if confirmation is not None else None
    decided = _decided_steps(comparison, at_look, excuses, rules, evidence, record)
    if confirmation is not None:
        decided.insert(3, confirmation_step(results, confirmation.record))
    decision = decision_of(
        merged,
        rules,
        counted,
        status=status_of(decided),
        generated_at=generated_at,
        candidate=comparison.candidate,
        baseline=comparison.baseline,
        comparison_sha256=comparison_sha256,
    )
    if confirmation is not None:
        decision.confirmed, decision.confirmation_sha256 = results, confirmation.sha256
    decision = _with_policy(decision, comparison, policy, decided, evidence, excuses)
    return marked_not_evaluated(decision, why_not_evaluated(comparison, policy, excuses))


def _applicable(rules: Sequence[RuleResult], measured: Measured) -> list[RuleResult]:
    """Leave the rules on compared cases out where there are none: the step on coverage says so."""
    relative = {rule.field for rule in RULES if not rule.is_absolute and rule.field != FLOOR}
    if measured.compared:
        return list(rules)
    return [rule.model_copy(update={"applied": False}) if rule.rule in relative else rule for rule in rules]


def _decided_steps(
    comparison: Comparison,
    policy: GatePolicy,
    excuses: Excuses,
    rules: Sequence[RuleResult],
    evidence: GateEvidence,
    record: Confirmation | None,
) -> list[GateStep]:
    """Take every step, in the order in which they decide."""
    below = any(rule.rule == FLOOR and not rule.passed for rule in rules)
    is_any_worse = not excuses.cases.issuperset(comparison.regressed_case_ids)
    return [
        steps.coverage(excuses.coverage, policy, is_below_floor=below),
        steps.integrity(comparison, excuses, policy),
        zero_tolerance(comparison, excuses, policy, record),
        steps.thresholds([rule for rule in rules if rule.rule != FLOOR]),
        steps.regression(evidence, policy),
        steps.non_inferiority(evidence, policy, is_any_worse=is_any_worse),
    ]


def _with_policy(
    decision: GateDecision,
    comparison: Comparison,
    policy: GatePolicy,
    decided: list[GateStep],
    evidence: GateEvidence,
    excuses: Excuses,
) -> GateDecision:
    """Add the fields that only a decision by policy has."""
    failed = [
        step.message
        for step in decided
        if step.status == "failed" and step.name not in ("coverage", "thresholds")
    ]
    # An inconclusive step is no failure, and the step says more than the rule.
    floor = [rule.message for rule in decision.rules if rule.rule == FLOOR]
    stated = [message for message in decision.failures if message not in floor]
    failed = [step.message for step in decided[:1] if step.status == "failed"] + failed
    undecided = decision.gate_status is GateStatus.INCONCLUSIVE
    extended = decision.model_copy(
        update={
            "failures": [*stated, *failed],
            "coverage": excuses.coverage,
            "blocks": decision.blocks or (undecided and policy.blocks_on_inconclusive),
            "preset": policy.preset,
            "steps": decided,
            "evidence": evidence,
            "waivers": excuses.applied,
            "expired": excuses.expired,
            "waived_case_ids": sorted(excuses.waived | excuses.waived_rates),
            "quarantined_case_ids": sorted(excuses.quarantined.union(comparison.cases.quarantined)),
            "tracked_case_ids": sorted(excuses.tracked.difference(policy.expected_fail)),
            "expected_fail_case_ids": sorted(excuses.tracked.intersection(policy.expected_fail)),
        }
    )
    return extended.model_copy(update={"explanation": explain(extended)})


def status_of(decided: Sequence[GateStep]) -> GateStatus:
    """Combine the steps of a decision: failed if any is, else inconclusive if any is, else passed."""
    statuses = {step.status for step in decided}
    if "failed" in statuses:
        return GateStatus.FAILED
    return GateStatus.INCONCLUSIVE if "inconclusive" in statuses else GateStatus.PASSED


def merge_thresholds(stated: Thresholds, override: Thresholds | None) -> Thresholds:
    """Copy the thresholds of a policy, with those of `override` in place of its own.

    Args:
        stated: Thresholds of the policy.
        override: Thresholds from flags; a rule that it does not set keeps the limit of the policy.
    """
    if override is None:
        return stated
    flags = {name: getattr(override, name) for name in Thresholds.model_fields}
    return stated.model_copy(update={name: value for name, value in flags.items() if value is not None})


def decide(
    comparison: Comparison,
    thresholds: Thresholds,
    *,
    generated_at: str,
    comparison_sha256: str | None = None,
    waivers: Sequence[Waiver] = (),
    max_baseline_error_rate: float = MAX_BASELINE_ERROR_RATE,
) -> GateDecision:
    """Decide on a candidate that was compared with a baseline, by thresholds alone.

    Absolute rules, such as `min_pass_rate`, are held against the candidate's run without its new cases, the
    others against the compared cases. With no case compared none of the others can hold.

    More than six parameters: they are the sources of a decision, and most have a default.

    Args:
        comparison: Result of `compare`, also one that was read from a file.
        thresholds: At least one rule.
        generated_at: ISO 8601 time that the decision carries.
        comparison_sha256: Digest of the file the comparison was read from.
        waivers: Waivers of the baseline; a waived case does not count as regressed or newly hard-failed.
        max_baseline_error_rate: The share of the baseline's cases that may have ended in an error.

    Raises:
        UsageError: No rule is set, or a threshold is no number.
        InvalidInput: The comparison contradicts itself, or its baseline is none.
        NothingMeasured: The candidate has no case.
    """
    refuse_no_numbers(thresholds)
    if not thresholds.any_set:
        raise UsageError(
            "the gate has no rule, so it cannot decide",
            remedy=f"Set at least one of {', '.join(rule.flag for rule in RULES)}.",
        )
    refuse_unfit_baseline(comparison, max_baseline_error_rate)
    excuses = Excuses(coverage=comparison.coverage)
    if waivers:
        excuses = excuse(comparison, waivers, now=decision_time(generated_at))
    measured = measure(comparison).without(excuses.cases, comparison, excuses.coverage)
    rules = apply_rules(thresholds, measured)
    decision = decision_of(
        thresholds,
        rules,
        measured,
        status=GateStatus.PASSED if all(rule.passed for rule in rules) else GateStatus.FAILED,
        generated_at=generated_at,
        candidate=comparison.candidate,
        baseline=comparison.baseline,
        comparison_sha256=comparison_sha256,
    )
    decision.coverage = excuses.coverage
    decision.waivers = excuses.applied
    decision.expired = excuses.expired
    decision.waived_case_ids = sorted(excuses.waived)
    return marked_not_evaluated(decision, why_not_evaluated(comparison))


def decide_without_baseline(
    run: RunReference, thresholds: Thresholds, *, generated_at: str, policy: GatePolicy | None = None
) -> GateDecision:
    """Decide on a first run: absolute rules apply, the others are listed as not applied.

    Without an absolute rule the status is `no-baseline`, which is not a pass.

    Args:
        run: The run.
        thresholds: The rules, of flags and policy.
        generated_at: ISO 8601 time that the decision carries.
        policy: With preset `release`, answers that were not checked are no pass.

    Raises:
        UsageError: A threshold is no number.
        NothingMeasured: The run has no case.
    """
    refuse_no_numbers(thresholds)
    measured = measure_run(run)
    rules = apply_rules(thresholds, measured)
    if policy is not None and policy.preset == "release" and run.summary.answers_not_checked:
        rules.append(answers_unchecked(run.summary.answers_not_checked))
    applied = [rule for rule in rules if rule.applied]
    status = GateStatus.NO_BASELINE
    if applied:
        status = GateStatus.PASSED if all(rule.passed for rule in applied) else GateStatus.FAILED
    decision = decision_of(
        thresholds,
        rules,
        measured,
        status=status,
        generated_at=generated_at,
        candidate=run,
        baseline=None,
        comparison_sha256=None,
    )
    return marked_not_evaluated(decision, why_too_little(run.summary, policy))


def decision_of(
    thresholds: Thresholds,
    rules: list[RuleResult],
    measured: Measured,
    *,
    status: GateStatus,
    generated_at: str,
    candidate: RunReference,
    baseline: RunReference | None,
    comparison_sha256: str | None,
) -> GateDecision:
    """Build a decision with this status, and with the numbers that were measured.

    More than six parameters: they are the fields of the decision that differ between the ways to reach one.
    """
    change = measured.pass_rate_change
    return GateDecision(
        generated_at=generated_at,
        gate_status=status,
        passed=status is GateStatus.PASSED,
        regression_delta=None if change is None else float(change),
        rules=rules,
        failures=[rule.message for rule in rules if rule.applied and not rule.passed],
        thresholds=thresholds,
        regressed_cases_considered=measured.regressed,
        new_hard_fail_cases_considered=measured.new_hard_fails,
        baseline_run_id=baseline.run_id if baseline else None,
        candidate_run_id=candidate.run_id,
        baseline_manifest_sha256=baseline.manifest_sha256 if baseline else None,
        candidate_manifest_sha256=candidate.manifest_sha256,
        comparison_sha256=comparison_sha256,
        blocks=status is GateStatus.FAILED,
    )


def decision_time(generated_at: str) -> datetime:
    """Read the time of a decision, with which expiries are compared.

    Raises:
        UsageError: It names no point in time.
    """
    try:
        return instant(generated_at)
    except ValueError as error:
        raise UsageError(
            f"the time of the decision is not a point in time: {error}",
            remedy="Give it as ISO 8601 with an offset.",
            field="generated_at",
        ) from None
