"""The decision of the gate: by a policy, through the one procedure; or by thresholds alone, to the letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.contracts import Comparison, GateDecision, GateStatus, RuleResult, RunReference, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.contracts.reruns import Reruns
from agent_eval.errors import UsageError
from agent_eval.gate.answer import Answer, answer
from agent_eval.gate.figures import figure_changes
from agent_eval.gate.findings import judged_cases, safety_findings, suite_answer
from agent_eval.gate.limits import Measured, apply_limits, measure, measure_run
from agent_eval.gate.losses import why_too_little
from agent_eval.gate.procedure import Question
from agent_eval.gate.question import Counts, LeftOut, question
from agent_eval.gate.release import release_answer
from agent_eval.gate.sentences import Facts, notes_of, sentence_of
from agent_eval.gate.waivers import Excuses, excuse


@dataclass(frozen=True, kw_only=True)
class Redefined:
    """Cases that the change defines otherwise than the base, and how they end by either version.

    Attributes:
        only_by_change: They fail by main's expectation, and pass by what the change expects.
        removed_failing: They are removed or given another input, and fail by main's version.
        removed_passing: They are removed or given another input, and pass by main's version.
        unknown: They are removed or given another input, and were not run by main's version.
    """

    only_by_change: Sequence[str] = ()
    removed_failing: Sequence[str] = ()
    removed_passing: Sequence[str] = ()
    unknown: Sequence[str] = ()

    @property
    def is_open(self) -> bool:
        """Whether no green may come of it."""
        return bool(self.only_by_change or self.removed_failing or self.unknown)


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a decision by policy rests on.

    Attributes:
        run: The run that is decided on.
        comparison: With its baseline; None without one.
        counts: Of the run, of main's runs and of the baseline.
        reruns: What the job ran again; None where nothing was, or could be.
        redefined: What the change defines otherwise.
        waivers: Waivers of the baseline; expired and revoked ones excuse nothing.
        seed: The commit of the change.
        may_rerun: Whether the agent can be run again: neither with recorded traces nor outside of a job.
        digests: Of the files the material was read from, by field of the decision.
    """

    run: RunReference
    comparison: Comparison | None
    counts: Counts
    reruns: Reruns | None = None
    redefined: Redefined = field(default_factory=Redefined)
    waivers: Sequence[Waiver] = ()
    seed: str = ""
    may_rerun: bool = False
    digests: Mapping[str, str] = field(default_factory=dict)


def excuses_of(material: Material, policy: GatePolicy, *, generated_at: str) -> Excuses:
    """Apply waivers and quarantine to what is decided on."""
    return excuse(material.comparison, material.waivers, policy.quarantine, generated_at=generated_at)


def question_of(material: Material, policy: GatePolicy, *, generated_at: str) -> Question:
    """Build the question that the first run asks; `gate.rerun` runs it.

    Raises:
        UsageError: `generated_at` names no point in time.
    """
    return _question(material, policy, excuses_of(material, policy, generated_at=generated_at))


def _question(material: Material, policy: GatePolicy, excuses: Excuses) -> Question:
    redefined = material.redefined
    left_out = LeftOut(
        quarantined=excuses.quarantine,
        waived=excuses.waived,
        covered=excuses.covered,
        redefined=frozenset(
            (*redefined.only_by_change, *redefined.removed_failing, *redefined.removed_passing)
        ),
    )
    return question(material.counts, policy, left_out, seed=material.seed, may_rerun=material.may_rerun)


def decide_by_policy(material: Material, policy: GatePolicy, *, generated_at: str) -> GateDecision:
    """Decide by a policy.

    Args:
        material: What there is to decide on.
        policy: Policy from a file, or a preset: `GatePolicy(preset="release")`.
        generated_at: ISO 8601 time with its offset; expiries are held against it.

    Raises:
        InvalidInput: Comparison or reruns contradict themselves, or the baseline is none.
        NothingMeasured: The run has no case.
        UsageError: `generated_at` names no point in time.
    """
    comparison, counts = material.comparison, material.counts
    excuses = excuses_of(material, policy, generated_at=generated_at)
    asks = _question(material, policy, excuses)
    result = answer(asks, material.reruns)
    measured = measure(comparison) if comparison is not None else measure_run(material.run)
    is_literal = policy.deterministic or not material.may_rerun
    rules = apply_limits(
        policy.thresholds,
        measured.counting(broken=result.broken, quarantined=excuses.quarantine),
        may_vary=not is_literal,
    )
    release = release_answer(counts, policy, excuses.quarantine) if policy.is_release else None
    figures = figure_changes(counts, policy, material.reruns)
    facts = Facts(
        question=asks,
        answer=result,
        reruns=material.reruns,
        rules=rules,
        release=release,
        figures=figures,
        redefined=material.redefined,
        quarantined=sorted(excuses.quarantine & _not_passing(counts)),
        run=material.run,
        newest_run=counts.newest.run.run_id if counts.newest is not None else None,
    )
    status = _status(facts, has_baseline=asks.has_baseline)
    return GateDecision(
        generated_at=generated_at,
        gate_status=status,
        passed=status is GateStatus.PASSED,
        sentence=sentence_of(facts, status),
        decided_by="policy",
        regression_delta=measured.pass_rate_change,
        rules=rules,
        failures=facts.failures,
        thresholds=policy.thresholds,
        waived_case_ids=sorted(excuses.waived),
        regressed_cases_considered=len(result.broken),
        new_hard_fail_cases_considered=len(measured.new_hard_fails & result.broken),
        blocks=status is GateStatus.FAILED
        or (status is GateStatus.INCONCLUSIVE and _blocks_open(facts, policy)),
        preset=policy.preset,
        main_runs=[run.run.run_id for run in counts.runs],
        cases=judged_cases(asks, result, material.reruns),
        safety=safety_findings(asks, result, material.reruns),
        suite=suite_answer(asks, result, material.reruns),
        release=release,
        figures=figures,
        waivers=excuses.applied,
        expired=excuses.expired,
        quarantined_case_ids=facts.quarantined,
        notes=notes_of(facts, status),
        not_evaluated=why_too_little(material.run.summary),
        **_identity(material.run, comparison, material.digests),
    ).without_green_if_not_evaluated()


def _status(facts: Facts, *, has_baseline: bool) -> GateStatus:
    """Combine what was found: failed before open, open before passed."""
    if facts.failures:
        return GateStatus.FAILED
    if facts.answer.is_open or facts.redefined.is_open or (facts.release and facts.release.answer == "open"):
        return GateStatus.INCONCLUSIVE
    return GateStatus.PASSED if has_baseline else GateStatus.NO_BASELINE


def _blocks_open(facts: Facts, policy: GatePolicy) -> bool:
    """Whether an open decision stops the change: always, but for what it only defines otherwise."""
    return facts.answer.is_open or policy.is_release


def _not_passing(counts: Counts) -> frozenset[str]:
    return frozenset(
        name for name, row in counts.own.cases.items() if row.passed < row.trials or not row.trials
    )


def decide(
    comparison: Comparison,
    thresholds: Thresholds,
    *,
    generated_at: str,
    comparison_sha256: str | None = None,
    waivers: Sequence[Waiver] = (),
) -> GateDecision:
    """Decide on a candidate that was compared with a baseline, by thresholds alone and to the letter.

    No significance, history or reruns: a case that a waiver covers counts neither as regressed nor as newly
    hard-failing, and every figure is that of the stored runs.

    Args:
        comparison: Result of `compare`, also one that was read from a file.
        thresholds: At least one rule.
        generated_at: ISO 8601 time that the decision carries.
        comparison_sha256: Digest of the file the comparison was read from.
        waivers: Waivers of the baseline.

    Raises:
        UsageError: No rule is set, or `generated_at` names no point in time.
        InvalidInput: The comparison contradicts itself.
        NothingMeasured: The candidate has no case.
    """
    if not thresholds.any_set:
        raise UsageError(
            "the gate has no rule, so it cannot decide",
            remedy="Choose a policy with --preset or --policy, or set at least one threshold, such as "
            "--min-pass-rate 0.95 or --max-regressed-cases 0.",
        )
    excuses = excuse(comparison, waivers, (), generated_at=generated_at)
    measured = measure(comparison)
    regressed = frozenset(comparison.regressed_case_ids) - excuses.waived
    rules = apply_limits(thresholds, measured.counting(broken=regressed), may_vary=False)
    failures = [rule.message for rule in rules if rule.applied and not rule.passed]
    status = GateStatus.FAILED if failures else GateStatus.PASSED
    return GateDecision(
        generated_at=generated_at,
        gate_status=status,
        passed=status is GateStatus.PASSED,
        sentence=failures[0] if failures else "Every threshold holds.",
        regression_delta=measured.pass_rate_change,
        rules=rules,
        failures=failures,
        thresholds=thresholds,
        waived_case_ids=sorted(excuses.waived),
        regressed_cases_considered=len(regressed),
        new_hard_fail_cases_considered=len(measured.new_hard_fails & regressed),
        blocks=status is GateStatus.FAILED,
        waivers=excuses.applied,
        expired=excuses.expired,
        not_evaluated=why_too_little(comparison.candidate.summary),
        **_identity(comparison.candidate, comparison, {"comparison_sha256": comparison_sha256}),
    ).without_green_if_not_evaluated()
