"""The job's own terms, which a decision must satisfy beside those of the policy."""

from __future__ import annotations

from agent_eval.ci.baseline import Lack, Search
from agent_eval.ci.context import JobContext
from agent_eval.ci.measured_base import MEASURED
from agent_eval.ci.replaying import replay_rule
from agent_eval.ci.seal import as_code
from agent_eval.contracts import GateDecision, GateStatus, RuleResult
from agent_eval.contracts.replay import ReplayReport

NAMED = 3
"""Suites that a sentence names at most."""


def with_terms_of_the_job(
    decision: GateDecision, job: JobContext, search: Search, slug: str, replayed: ReplayReport | None
) -> GateDecision:
    """Hold a decision to what the job asks for, and say first what a reader must know of what it rests on.

    Args:
        decision: By the policy.
        job: The job.
        search: How the search for baselines ended.
        slug: Of the suite.
        replayed: How judging the evidence again ended; None where that was not asked for.
    """
    lack = search.lack(slug)
    if slug not in search.baselines and search.outage is not None:
        decision = _open(decision, "The baseline could not be read: whether anything broke is not known.")
    elif lack is Lack.LOST:
        decision = _open(decision, search.nothing(job.place))
    elif lack is not None and (job.settings.require_baseline or job.rules.policy.is_release):
        decision = _failed(decision, job)
    if (broken := replay_rule(replayed)) is not None:
        decision = _open(decision, broken.message)
        decision = decision.model_copy(update={"rules": [*decision.rules, broken]})
    baseline = search.baselines.get(slug)
    if baseline is not None and baseline.origin.how == MEASURED:
        decision = _named_first(decision, "The base has no run; it was measured in this job.")
    if search.gone and job.place is not None and not job.place.is_reviewed:
        gone = ", ".join(as_code(dataset_id) for dataset_id in sorted(search.gone)[:NAMED])
        decision = _removed(decision, f"This change has no suite {gone} any more, so it was not run.", job)
    if job.rules.pending:
        pending = f"New rules hold once merged: {', '.join(job.rules.pending)}."
        decision = decision.model_copy(update={"notes": [*decision.notes, pending]})
    for sentence in job.rules.named_first:
        decision = _named_first(decision, sentence)
    for sentence in job.rules.unusable:
        named = f"{sentence} {decision.sentence}".strip()
        is_no_ground = job.rules.policy.is_release and decision.gate_status is GateStatus.PASSED
        decision = _open(decision, named) if is_no_ground else _named_first(decision, sentence)
    if job.place is not None and job.place.notice is not None:
        decision = _named_first(decision, job.place.notice)
    return decision


def _open(decision: GateDecision, sentence: str, *notes: str) -> GateDecision:
    """Copy a decision as one that is not settled, unless it failed anyway."""
    if decision.gate_status is GateStatus.FAILED:
        return decision.model_copy(update={"notes": [*decision.notes, sentence, *notes]})
    return decision.model_copy(
        update={
            "gate_status": GateStatus.INCONCLUSIVE,
            "passed": False,
            "blocks": True,
            "sentence": sentence,
            "notes": [*decision.notes, *notes],
        }
    )


def _removed(decision: GateDecision, sentence: str, job: JobContext) -> GateDecision:
    """Copy a decision as one that is open, which blocks a release alone, unless it is that anyway."""
    if decision.gate_status not in (GateStatus.PASSED, GateStatus.NO_BASELINE):
        return decision.model_copy(update={"notes": [*decision.notes, sentence]})
    opened = _open(decision, sentence)
    return opened.model_copy(update={"blocks": job.rules.policy.is_release})


def _failed(decision: GateDecision, job: JobContext) -> GateDecision:
    asks = "`require-baseline`" if job.settings.require_baseline else "preset `release`"
    rule = RuleResult(
        rule="require_baseline",
        threshold=1,
        value=0,
        passed=False,
        message=f"There is no baseline to compare with, and {asks} asks for one.",
    )
    return decision.model_copy(
        update={
            "gate_status": GateStatus.FAILED,
            "passed": False,
            "blocks": True,
            "sentence": rule.message,
            "rules": [*decision.rules, rule],
            "failures": [rule.message, *decision.failures],
        }
    )


def _named_first(decision: GateDecision, sentence: str) -> GateDecision:
    return decision.model_copy(update={"sentence": f"{sentence} {decision.sentence}".strip()})
