"""The decision of the gate: by a policy, through the one procedure; or by thresholds alone, to the letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from agent_eval.contracts import Comparison, GateDecision, GateStatus, RunReference, RunSummary, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import Fault, InvalidInput, UsageError
from agent_eval.gate.findings import find, judged_cases, notes_of, safety_findings, sentence_of
from agent_eval.gate.limits import Measured, apply_limits, measure, measure_run
from agent_eval.gate.policy_file import refuse_no_numbers
from agent_eval.gate.procedure import Material, Question, question
from agent_eval.gate.sentences import say
from agent_eval.gate.waivers import Excuses, excuse
from agent_eval.text.numbers import count, of_all, percent

MOST_UNJUDGED = Fraction(1, 5)
"""Share of a run's trials of which no judge could tell, above which the run says nothing."""


def question_of(material: Material, policy: GatePolicy, *, generated_at: str) -> Question:
    """Build the question that the first run asks; `gate.rerun` runs it.

    Raises `UsageError` where `generated_at` names no point in time.
    """
    excuses = material.excuses(policy, generated_at=generated_at)
    return question(material.counts, policy, excuses, seed=material.seed, may_rerun=material.may_rerun)


def decide_by_policy(material: Material, policy: GatePolicy, *, generated_at: str) -> GateDecision:
    """Decide by a policy, which may be a preset: `GatePolicy(preset="release")`.

    Expiries of waivers and quarantine are held against `generated_at`, an ISO 8601 time with its offset.

    Raises:
        InvalidInput: The reruns contradict themselves.
        NothingMeasured: The run has no case.
        UsageError: `generated_at` names no point in time.
    """
    excuses = material.excuses(policy, generated_at=generated_at)
    facts = find(material, policy, excuses)
    if facts.failures:
        status = GateStatus.FAILED
    elif facts.open:
        status = GateStatus.INCONCLUSIVE
    else:
        status = GateStatus.PASSED if facts.runs else GateStatus.NO_BASELINE
    # What is open stops the change always, but for what the change only defines otherwise.
    open_blocks = policy.is_release or facts.answer.is_open or not facts.is_main_judged
    open_blocks = open_blocks or any(figure.answer == "open" for figure in facts.figures)
    decision = GateDecision(
        **_about(material.run, material.comparison, facts.measured, excuses),
        **material.digests,
        generated_at=generated_at,
        gate_status=status,
        passed=status is GateStatus.PASSED,
        sentence=sentence_of(facts, status),
        rules=list(facts.rules),
        failures=facts.failures,
        thresholds=policy.thresholds,
        blocks=status is GateStatus.FAILED or (status is GateStatus.INCONCLUSIVE and open_blocks),
        decided_by="policy",
        preset=policy.preset,
        main_runs=[run.run.run_id for run in facts.runs],
        cases=judged_cases(facts),
        safety=safety_findings(facts),
        suite=facts.suite,
        release=facts.release,
        figures=list(facts.figures),
        quarantined_case_ids=list(facts.quarantined),
        notes=notes_of(facts, status),
    )
    why = why_too_little(material.run.summary, errors_are_failures=bool(facts.runs))
    return _without_green(decision, why)


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
    hard-failing, and every figure is that of the stored runs. `comparison_sha256` is the digest of the file
    that the comparison was read from.

    Raises:
        UsageError: No rule is set, or `generated_at` names no point in time.
        InvalidInput: Nothing of the baseline was judged.
        NothingMeasured: The candidate has no case.
    """
    if not thresholds.any_set:
        raise UsageError(
            "the gate has no rule, so it cannot decide",
            remedy="Choose a policy with --preset or --config, or set at least one threshold, such as "
            "--min-pass-rate 0.95 or --max-regressed-cases 0.",
        )
    refuse_no_numbers(thresholds)
    if _judged_nothing(comparison.baseline.summary):
        raise InvalidInput(
            f"the baseline {comparison.baseline_run_id!r} is none: not one of its cases could be judged",
            remedy="Take a run of main that could.",
        )
    excuses = excuse(comparison, waivers, generated_at=generated_at)
    measured = measure(comparison, waived=excuses.waived)
    about = _about(comparison.candidate, comparison, measured, excuses)
    about["comparison_sha256"] = comparison_sha256
    return _by_thresholds(comparison.candidate.summary, thresholds, measured, about, generated_at)


def decide_without_baseline(run: RunReference, thresholds: Thresholds, *, generated_at: str) -> GateDecision:
    """Decide on a run alone by thresholds, to the letter: absolute rules apply, the others are listed.

    Without an absolute rule the status is `no-baseline`, which is not a pass. Raises `NothingMeasured` where
    the run has no case.
    """
    refuse_no_numbers(thresholds)
    measured = measure_run(run)
    about = _about(run, None, measured, Excuses())
    return _by_thresholds(run.summary, thresholds, measured, about, generated_at)


def _by_thresholds(
    summary: RunSummary,
    thresholds: Thresholds,
    measured: Measured,
    about: Mapping[str, Any],
    generated_at: str,
) -> GateDecision:
    rules = apply_limits(thresholds, measured, may_vary=False)
    failures = [rule.message for rule in rules if rule.applied and not rule.passed]
    status, sentence = GateStatus.PASSED, "Every threshold holds."
    if failures:
        status, sentence = GateStatus.FAILED, failures[0]
    elif not measured.has_baseline and not any(rule.applied for rule in rules):
        status = GateStatus.NO_BASELINE
        sentence = say("no-baseline", passed=summary.passed_cases, all=summary.total_cases)
    decision = GateDecision(
        **about,
        generated_at=generated_at,
        gate_status=status,
        passed=status is GateStatus.PASSED,
        sentence=sentence,
        rules=rules,
        failures=failures,
        thresholds=thresholds,
        blocks=status is GateStatus.FAILED,
    )
    return _without_green(decision, why_too_little(summary))


def _about(
    run: RunReference, comparison: Comparison | None, measured: Measured, excuses: Excuses
) -> dict[str, Any]:
    return {
        "baseline_run_id": comparison.baseline_run_id if comparison is not None else None,
        "candidate_run_id": run.run_id,
        "baseline_manifest_sha256": comparison.baseline.manifest_sha256 if comparison is not None else None,
        "candidate_manifest_sha256": run.manifest_sha256,
        "regression_delta": measured.pass_rate_change,
        "waived_case_ids": sorted(excuses.waived),
        "regressed_cases_considered": measured.regressed,
        "new_hard_fail_cases_considered": measured.new_hard_fails,
        "waivers": list(excuses.applied),
        "expired": list(excuses.expired),
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


def why_too_little(summary: RunSummary, *, errors_are_failures: bool = False) -> list[str]:
    """Say why a run says nothing of the agent, and what to do, in sentences; none where it does.

    An error of the agent, or of what surrounds it, is a failure. Where the judges themselves fail, nothing is
    known of the agent, and no decision is made from what is left. `errors_are_failures`: a run in which every
    case ends in an error is held against main's.
    """
    if why := why_unjudged_trials(summary):
        return why
    if _judged_nothing(summary) and (summary.skipped_cases == summary.total_cases or not errors_are_failures):
        cases = count(summary.total_cases, "case")
        errors = f", {count(summary.error_cases, 'error')}" if summary.error_cases else ""
        return [
            f"Nothing was judged ({cases}{errors}), and that is no pass.",
            "Read why in the run's evidence, or give its cases what a judge needs.",
        ]
    return []


def _judged_nothing(summary: RunSummary) -> bool:
    return summary.error_cases + summary.skipped_cases >= summary.total_cases > 0


def why_unjudged_trials(summary: RunSummary) -> list[str]:
    """Say that too many trials could not be judged by fault of the judges, and what to do; none where not."""
    unjudged = summary.lost_trials.get(Fault.JUDGE.value, 0)
    trials = summary.trials or summary.total_cases
    if not unjudged or Fraction(unjudged, trials) <= MOST_UNJUDGED:
        return []
    return [
        f"{of_all(unjudged, trials, 'trial')} ({percent(unjudged / trials)}) could not be judged, and "
        f"more than {percent(float(MOST_UNJUDGED), decimals=0)} is too many to decide.",
        "Mend the judge, or check that its model answers, then run again.",
    ]
