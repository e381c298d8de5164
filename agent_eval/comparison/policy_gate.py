"""The gate by policy: pass, fail or inconclusive, decided in a fixed order.

Integrity → zero-tolerance judges → explicit thresholds → regression test → non-inferiority. The first step
that fails decides; without a failure the last step says whether it passed or nobody can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from agent_eval.comparison import steps
from agent_eval.comparison.evidence import gate_evidence
from agent_eval.comparison.excuses import Excuses, excuse
from agent_eval.comparison.explanation import explain
from agent_eval.comparison.gate import decision_of, decision_time, parse_thresholds
from agent_eval.comparison.rules import apply_rules, measure
from agent_eval.contracts import (
    Comparison,
    GateDecision,
    GateEvidence,
    GateStatus,
    GateStep,
    RuleResult,
    Thresholds,
)
from agent_eval.contracts.instants import instant
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import InvalidInput, UsageError


def decide_by_policy(
    comparison: Comparison,
    policy: GatePolicy,
    *,
    generated_at: str,
    thresholds: Thresholds | None = None,
    comparison_sha256: str | None = None,
    waivers: Sequence[Waiver] = (),
) -> GateDecision:
    """Decide on a candidate that was compared with a baseline, by a policy.

    Args:
        comparison: From `compare`, perhaps read back from a file.
        policy: From `gate.yml`, or a preset: `GatePolicy(preset="release")`.
        generated_at: ISO 8601 time with its offset; expiries are held against it.
        thresholds: Rules from flags, which override those of the policy one by one.
        comparison_sha256: Digest of the file the comparison was read from.
        waivers: Of the baseline; expired and revoked ones excuse nothing.

    Raises:
        InvalidInput: The comparison contradicts itself.
        NothingMeasured: The candidate has no case.
        UsageError: `generated_at` names no point in time.
    """
    excuses = excuse(comparison, waivers, policy.quarantine, now=decision_time(generated_at))
    measured = measure(comparison)
    evidence = gate_evidence(comparison, measured, excuses, policy)
    counted = measured.without(excuses.cases, comparison.new_hard_fail_case_ids)
    merged = merge_thresholds(policy.thresholds, thresholds)
    rules = apply_rules(merged, counted)
    taken = _take_steps(comparison, policy, excuses, rules, evidence)
    decision = decision_of(
        merged,
        rules,
        counted,
        status=status_of(taken),
        generated_at=generated_at,
        candidate=comparison.candidate,
        baseline=comparison.baseline,
        comparison_sha256=comparison_sha256,
    )
    return _in_full(decision, policy, taken, evidence, excuses)


def _take_steps(
    comparison: Comparison,
    policy: GatePolicy,
    excuses: Excuses,
    rules: Sequence[RuleResult],
    evidence: GateEvidence,
) -> list[GateStep]:
    """All steps, in the order in which they decide."""
    return [
        steps.integrity(comparison, excuses, policy),
        steps.zero_tolerance(comparison, excuses, policy),
        steps.thresholds(rules),
        steps.regression(evidence, policy),
        steps.non_inferiority(evidence),
    ]


def _in_full(
    decision: GateDecision,
    policy: GatePolicy,
    taken: list[GateStep],
    evidence: GateEvidence,
    excuses: Excuses,
) -> GateDecision:
    """A decision by thresholds with what only a policy has to say."""
    failed = [step.message for step in taken if step.status == "failed" and step.name != "thresholds"]
    undecided = decision.gate_status is GateStatus.INCONCLUSIVE
    told = decision.model_copy(
        update={
            "failures": [*decision.failures, *failed],
            "blocks": decision.blocks or (undecided and policy.blocks_on_inconclusive),
            "preset": policy.preset,
            "steps": taken,
            "evidence": evidence,
            "waivers": excuses.applied,
            "expired": excuses.expired,
            "waived_case_ids": sorted(excuses.waived | excuses.waived_rates),
            "quarantined_case_ids": sorted(excuses.quarantined),
        }
    )
    return told.model_copy(update={"explanation": explain(told)})


def status_of(taken: Sequence[GateStep]) -> GateStatus:
    """What the steps amount to: failed, else inconclusive, else passed."""
    said = {step.status for step in taken}
    if "failed" in said:
        return GateStatus.FAILED
    return GateStatus.INCONCLUSIVE if "inconclusive" in said else GateStatus.PASSED


def merge_thresholds(stated: Thresholds, override: Thresholds | None) -> Thresholds:
    """The rules of a policy with those that a flag sets in their place."""
    if override is None:
        return stated
    flags = {name: getattr(override, name) for name in Thresholds.model_fields}
    return stated.model_copy(update={name: value for name, value in flags.items() if value is not None})


def parse_policy(values: Mapping[str, Any], *, source: str) -> GatePolicy:
    """A policy from a file's content.

    Args:
        values: The parsed file.
        source: What to call the file in an error.

    Raises:
        InvalidInput: An unknown key (names the nearest one), or a value out of range.
    """
    rules = values.get("thresholds") or {}
    if not isinstance(rules, Mapping):
        raise _invalid(source, "thresholds", "must be an object")
    _check_keys(values, list(GatePolicy.model_fields), source, "")
    _check_keys(rules, list(Thresholds.model_fields), source, "thresholds.")
    try:
        parsed = parse_thresholds(rules)
    except UsageError as error:
        raise _invalid(source, f"thresholds.{error.details.get('field')}", error.message) from None
    try:
        policy = GatePolicy.model_validate({**values, "thresholds": parsed})
    except ValidationError as error:
        first = error.errors()[0]
        raise _invalid(source, ".".join(str(step) for step in first["loc"]), first["msg"]) from None
    for place, held in enumerate(policy.quarantine):
        _check_expiry(held, f"quarantine.{place}.expires_at", source)
    return policy


def _check_keys(values: Mapping[str, Any], known: list[str], source: str, place: str) -> None:
    for name in values:
        if name not in known:
            nearest = get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(known)}"
            raise _invalid(source, f"{place}{name}", f"there is no such key{hint}")


def _check_expiry(held: Quarantine, field: str, source: str) -> None:
    if held.expires_at is not None:
        try:
            instant(held.expires_at)
        except ValueError as error:
            raise _invalid(source, field, str(error)) from None


def _invalid(source: str, field: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{source}: {field}: {problem}",
        remedy="Correct the policy; an unreadable policy decides nothing.",
        file=source,
        field=field,
    )
