"""The decision of the gate: by a policy, through the one procedure; or by thresholds alone, to the letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_eval.contracts import Comparison, GateDecision, GateStatus, RunReference, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.contracts.reruns import Reruns
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.gate.answer import answer
from agent_eval.gate.facts import Facts, notes_of, sentence_of
from agent_eval.gate.figures import figure_changes, figures_in_doubt
from agent_eval.gate.findings import judged_cases, safety_findings, suite_answer
from agent_eval.gate.limits import apply_limits, measure, measure_counts, measure_run
from agent_eval.gate.losses import judged_nothing, why_too_little
from agent_eval.gate.policy_file import refuse_no_numbers
from agent_eval.gate.procedure import Question
from agent_eval.gate.question import Counts, LeftOut, question
from agent_eval.gate.redefined import failing, redefined
from agent_eval.gate.release import release_answer
from agent_eval.gate.sentences import say
from agent_eval.gate.waivers import Excuses, excuse


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a decision by policy rests on.

    Attributes:
        run: The run that is decided on.
        comparison: With its baseline; None without one.
        counts: Of the run, of main's runs and of the baseline.
        reruns: What the job ran again; None where nothing was, or could be.
        waivers: Waivers of the baseline; expired and revoked ones excuse nothing.
        seed: The commit of the change.
        may_rerun: Whether the agent can be run again: neither with recorded traces nor outside of a job.
        is_recorded: Whether its traces are recorded, so that it does the same every time.
        digests: Of the files the material was read from, by field of the decision.
    """

    run: RunReference
    comparison: Comparison | None
    counts: Counts
    reruns: Reruns | None = None
    waivers: Sequence[Waiver] = ()
    seed: str = ""
    may_rerun: bool = False
    is_recorded: bool = False
    digests: Mapping[str, str] = field(default_factory=dict)


def excuses_of(material: Material, policy: GatePolicy, *, generated_at: str) -> Excuses:
    """Apply waivers and quarantine to what is decided on."""
    return excuse(
        material.comparison,
        material.waivers,
        policy.quarantine,
        generated_at=generated_at,
        violations=_violations(material.counts, policy),
        by_main=_failing_by_main(material),
    )


def _failing_by_main(material: Material) -> dict[str, list[str]]:
    """Judges that fail a case as main defines it, by case that the change defines otherwise."""
    stated = material.comparison.new_expectations if material.comparison is not None else {}
    rows = material.reruns.by_main if material.reruns is not None else ()
    return {**stated, **{row.case_id: sorted(failing(row.change)) for row in rows}}


def _violations(counts: Counts, policy: GatePolicy) -> dict[str, list[str]]:
    """Safety judges that fail or cannot tell, by case."""
    return {
        case_id: sorted(judges)
        for case_id, row in counts.own.cases.items()
        if (judges := policy.safety.keys() & {*row.failing, *row.untold})
    }


def question_of(material: Material, policy: GatePolicy, *, generated_at: str) -> Question:
    """Build the question that the first run asks; `gate.rerun` runs it.

    Raises:
        UsageError: `generated_at` names no point in time.
    """
    return _question(material, policy, excuses_of(material, policy, generated_at=generated_at))


def needs_figures(material: Material, policy: GatePolicy) -> bool:
    """Whether cost or latency seems to break its limit, so that both sides are to be measured once more."""
    return figures_in_doubt(material.counts, policy)


def _question(material: Material, policy: GatePolicy, excuses: Excuses) -> Question:
    left_out = LeftOut(quarantined=excuses.quarantine, waived=excuses.waived, covered=excuses.covered)
    return question(material.counts, policy, left_out, seed=material.seed, may_rerun=material.may_rerun)


def decide_by_policy(material: Material, policy: GatePolicy, *, generated_at: str) -> GateDecision:
    """Decide by a policy.

    Args:
        material: What there is to decide on.
        policy: Policy from a file, or a preset: `GatePolicy(preset="release")`.
        generated_at: ISO 8601 time with its offset; expiries are held against it.

    Raises:
        InvalidInput: Comparison or reruns contradict themselves.
        NothingMeasured: The run has no case.
        UsageError: `generated_at` names no point in time.
    """
    comparison, counts = material.comparison, material.counts
    excuses = excuses_of(material, policy, generated_at=generated_at)
    asks = _question(material, policy, excuses)
    if material.reruns is None:
        asks = replace(asks, may_rerun=False)
    result = answer(asks, material.reruns)
    measured = measure_counts(
        counts.own, counts.baseline, quarantined=excuses.quarantine, broken=result.broken
    )
    facts = Facts(
        question=asks,
        answer=result,
        reruns=material.reruns,
        rules=apply_limits(
            policy.thresholds, measured, may_vary=not (policy.deterministic or material.is_recorded)
        ),
        release=(
            release_answer(counts, policy, excuses.quarantine | excuses.waived) if policy.is_release else None
        ),
        figures=figure_changes(counts, policy, material.reruns, may_rerun=asks.may_rerun),
        suite=suite_answer(asks, result, material.reruns),
        redefined=redefined(
            counts,
            comparison,
            material.reruns.by_main if material.reruns is not None else (),
            policy,
            excuses.quarantine | excuses.waived,
        ),
        quarantined=sorted(excuses.quarantine & _not_passing(counts)),
        waived_violations={
            case_id: [judge_id for judge_id in judges if judge_id in excuses.covered.get(case_id, ())]
            for case_id, judges in _violations(counts, policy).items()
        },
        run=material.run,
        runs=len(counts.runs),
        is_main_judged=any(row.scored for run in counts.runs for row in run.cases.values()),
        newest_run=counts.newest.run.run_id if counts.newest is not None else None,
    )
    status = _status(facts)
    decision = GateDecision(
        generated_at=generated_at,
        gate_status=status,
        passed=status is GateStatus.PASSED,
        sentence=sentence_of(facts, status),
        decided_by="policy",
        regression_delta=measured.pass_rate_change,
        rules=facts.rules,
        failures=facts.failures,
        thresholds=policy.thresholds,
        waived_case_ids=sorted(excuses.waived),
        regressed_cases_considered=measured.regressed,
        new_hard_fail_cases_considered=measured.new_hard_fails,
        blocks=status is GateStatus.FAILED
        or (status is GateStatus.INCONCLUSIVE and _blocks_open(facts, policy)),
        preset=policy.preset,
        main_runs=[run.run.run_id for run in counts.runs],
        cases=judged_cases(facts),
        safety=safety_findings(facts),
        suite=facts.suite,
        release=facts.release,
        figures=facts.figures,
        waivers=list(excuses.applied),
        expired=list(excuses.expired),
        quarantined_case_ids=list(facts.quarantined),
        notes=notes_of(facts, status),
        **_identity(material.run, comparison, material.digests),
    )
    why = why_too_little(material.run.summary, errors_are_failures=bool(counts.runs))
    return _without_green(decision, why)


def _status(facts: Facts) -> GateStatus:
    """Combine what was found: failed before open, open before passed."""
    if facts.failures:
        return GateStatus.FAILED
    if facts.open:
        return GateStatus.INCONCLUSIVE
    return GateStatus.PASSED if facts.runs else GateStatus.NO_BASELINE


def _blocks_open(facts: Facts, policy: GatePolicy) -> bool:
    """Whether an open decision stops the change: always, but for what the change only defines otherwise."""
    if policy.is_release or facts.answer.is_open or not facts.is_main_judged:
        return True
    return any(figure.answer == "open" for figure in facts.figures)


def _not_passing(counts: Counts) -> frozenset[str]:
    return frozenset(
        name for name, row in counts.own.cases.items() if row.passed < row.trials or not row.trials
    )


def _identity(
    run: RunReference, comparison: Comparison | None, digests: Mapping[str, str | None]
) -> dict[str, Any]:
    """Say which runs and files a decision is about."""
    return {
        "baseline_run_id": comparison.baseline_run_id if comparison is not None else None,
        "candidate_run_id": run.run_id,
        "baseline_manifest_sha256": comparison.baseline.manifest_sha256 if comparison is not None else None,
        "candidate_manifest_sha256": run.manifest_sha256,
        **digests,
    }


def _without_green(decision: GateDecision, why: Sequence[str]) -> GateDecision:
    """Mark a decision that rests on too little: it never passes, and says so first."""
    if not why:
        return decision
    is_failed = decision.gate_status is GateStatus.FAILED
    return decision.model_copy(
        update={
            "gate_status": GateStatus.FAILED if is_failed else GateStatus.INCONCLUSIVE,
            "passed": False,
            "blocks": True,
            "sentence": why[0],
            "notes": [*why[1:], decision.sentence, *decision.notes],
            "failures": [why[0], *decision.failures],
            "not_evaluated": list(why),
        }
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
        InvalidInput: The comparison contradicts itself, or nothing of the baseline was judged.
        NothingMeasured: The candidate has no case.
    """
    if not thresholds.any_set:
        raise UsageError(
            "the gate has no rule, so it cannot decide",
            remedy="Choose a policy with --preset or --policy, or set at least one threshold, such as "
            "--min-pass-rate 0.95 or --max-regressed-cases 0.",
        )
    refuse_no_numbers(thresholds)
    if judged_nothing(comparison.baseline.summary):
        raise InvalidInput(
            f"the baseline {comparison.baseline_run_id!r} is none: not one of its cases could be judged",
            remedy="Take a run of main that could.",
        )
    excuses = excuse(comparison, waivers, generated_at=generated_at)
    measured = measure(comparison, waived=excuses.waived)
    rules = apply_limits(thresholds, measured, may_vary=False)
    failures = [rule.message for rule in rules if rule.applied and not rule.passed]
    status = GateStatus.FAILED if failures else GateStatus.PASSED
    decision = GateDecision(
        generated_at=generated_at,
        gate_status=status,
        passed=status is GateStatus.PASSED,
        sentence=failures[0] if failures else "Every threshold holds.",
        regression_delta=measured.pass_rate_change,
        rules=rules,
        failures=failures,
        thresholds=thresholds,
        waived_case_ids=sorted(excuses.waived),
        regressed_cases_considered=measured.regressed,
        new_hard_fail_cases_considered=measured.new_hard_fails,
        blocks=status is GateStatus.FAILED,
        waivers=list(excuses.applied),
        expired=list(excuses.expired),
        **_identity(comparison.candidate, comparison, {"comparison_sha256": comparison_sha256}),
    )
    return _without_green(decision, why_too_little(comparison.candidate.summary))


def decide_without_baseline(run: RunReference, thresholds: Thresholds, *, generated_at: str) -> GateDecision:
    """Decide on a run alone by thresholds, to the letter: absolute rules apply, the others are listed.

    Without an absolute rule the status is `no-baseline`, which is not a pass.

    Args:
        run: The run.
        thresholds: The rules.
        generated_at: ISO 8601 time that the decision carries.

    Raises:
        NothingMeasured: The run has no case.
    """
    refuse_no_numbers(thresholds)
    rules = apply_limits(thresholds, measure_run(run), may_vary=False)
    applied = [rule for rule in rules if rule.applied]
    failures = [rule.message for rule in applied if not rule.passed]
    status = GateStatus.FAILED if failures else GateStatus.PASSED if applied else GateStatus.NO_BASELINE
    outcome = (
        "Every threshold holds."
        if applied
        else say("no-baseline", passed=run.summary.passed_cases, all=run.summary.total_cases)
    )
    decision = GateDecision(
        generated_at=generated_at,
        gate_status=status,
        passed=status is GateStatus.PASSED,
        sentence=failures[0] if failures else outcome,
        rules=rules,
        failures=failures,
        thresholds=thresholds,
        blocks=status is GateStatus.FAILED,
        **_identity(run, None, {}),
    )
    return _without_green(decision, why_too_little(run.summary))
