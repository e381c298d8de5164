"""The job's own terms, which a decision must satisfy beside those of the policy, and what it warns of."""

from __future__ import annotations

from agent_eval.ci.baseline import Lack, Search
from agent_eval.ci.context import JobContext
from agent_eval.ci.first_run import MEASURED
from agent_eval.ci.seal import as_code
from agent_eval.contracts import GateDecision, GateStatus, RuleResult
from agent_eval.text.numbers import count

NAMED = 3
"""Suites or cases that a sentence names at most."""


def with_terms_of_the_job(
    decision: GateDecision, job: JobContext, search: Search, slug: str
) -> GateDecision:
    """Hold a decision to what the job asks for, and say first what a reader must know of what it rests on."""
    lack = search.lack(slug)
    if slug not in search.baselines and search.outage is not None:
        decision = _open(decision, "The baseline could not be read: whether anything broke is not known.")
    elif lack is Lack.LOST:
        decision = _open(decision, search.nothing(job.place))
    elif lack is not None and (job.settings.require_baseline or job.rules.policy.is_release):
        asks = "`require-baseline`" if job.settings.require_baseline else "preset `release`"
        message = f"There is no baseline to compare with, and {asks} asks for one."
        rule = RuleResult(rule="require_baseline", threshold=1, value=0, passed=False, message=message)
        failed = {"gate_status": GateStatus.FAILED, "passed": False, "blocks": True, "sentence": message}
        more = {"rules": [*decision.rules, rule], "failures": [message, *decision.failures]}
        decision = decision.model_copy(update={**failed, **more})
    baseline = search.baselines.get(slug)
    if baseline is not None and baseline.origin.how == MEASURED:
        decision = _named_first(decision, "The base has no run; it was measured in this job.")
    if search.gone and job.place is not None and not job.place.is_reviewed:
        gone = ", ".join(as_code(dataset_id) for dataset_id in sorted(search.gone)[:NAMED])
        sentence = f"This change has no suite {gone} any more, so it was not run."
        if decision.gate_status in (GateStatus.PASSED, GateStatus.NO_BASELINE):
            blocks = job.rules.policy.is_release
            decision = _open(decision, sentence).model_copy(update={"blocks": blocks})
        else:
            decision = decision.model_copy(update={"notes": [*decision.notes, sentence]})
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


def _open(decision: GateDecision, sentence: str) -> GateDecision:
    """Copy a decision as one that is not settled, unless it failed anyway."""
    if decision.gate_status is GateStatus.FAILED:
        return decision.model_copy(update={"notes": [*decision.notes, sentence]})
    status = {"gate_status": GateStatus.INCONCLUSIVE, "passed": False, "blocks": True}
    return decision.model_copy(update={**status, "sentence": sentence})


def _named_first(decision: GateDecision, sentence: str) -> GateDecision:
    return decision.model_copy(update={"sentence": f"{sentence} {decision.sentence}".strip()})


def lost_datasets(search: Search) -> list[str]:
    """Warn of datasets of the baseline that no suite of the run evaluates any more."""
    if not search.gone:
        return []
    named = [f"{as_code(name)} ({count(cases, 'case')})" for name, cases in sorted(search.gone.items())]
    more = f" and {count(len(named) - NAMED, 'more dataset')}" if len(named) > NAMED else ""
    return [
        f"The baseline has evidence of {', '.join(named[:NAMED])}{more}, which no suite of this run "
        "evaluates. If it was removed or renamed, these cases are compared with nothing."
    ]
