"""Whether enough of a run was scored to decide on the change, and what to do where it was not.

Losing trials never makes a gate greener: a decision that would rest on what is left never passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from fractions import Fraction

from agent_eval.comparison.facts import cut
from agent_eval.contracts import Comparison, Coverage, GateDecision, GateStatus, RunSummary
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import Fault
from agent_eval.gate.explanation import explain
from agent_eval.gate.rules import exact
from agent_eval.gate.waivers import Excuses
from agent_eval.text.numbers import allowed, apart, count, of_all, percent, verb

NAMED = 3
"""Most cases that a sentence names; it always gives the number of all of them."""
NAME_LIMIT = 60

_LOST_TO = {
    Fault.INFRASTRUCTURE: "the infrastructure",
    Fault.ENVIRONMENT: "the agent's environment",
    Fault.JUDGE: "a judge",
}
_TO_DO = {
    Fault.INFRASTRUCTURE: "Check that the agent's address and its model's provider answer, then run again.",
    Fault.ENVIRONMENT: "Check set-up commands, live tools and the simulated user, then run again.",
    Fault.JUDGE: "Mend the judge, or check that its model answers, then run again.",
}


def why_not_evaluated(
    comparison: Comparison, policy: GatePolicy | None = None, excuses: Excuses | None = None
) -> list[str]:
    """Say why a candidate says nothing of the change, and what to do, as sentences; none where it does.

    That is where more trials than the policy allows were lost through no fault of the agent, and where a case
    that passed in the baseline has no scored trial. A waiver excuses what the agent does, not that.

    Args:
        comparison: The candidate compared with its baseline.
        policy: Says which share of the candidate's trials may be lost; None for the default.
        excuses: Names the cases that never block, which may have no scored trial.
    """
    may_be_lost = excuses.quarantine | excuses.never_blocking if excuses is not None else frozenset[str]()
    cases = unscored_cases(comparison.coverage, may_be_lost)
    return _why(comparison.candidate.summary, cases, policy)


def why_too_little(summary: RunSummary, policy: GatePolicy | None = None) -> list[str]:
    """Say why a run alone says nothing, as `why_not_evaluated` does.

    Example:
        >>> from agent_eval.contracts import Tally
        >>> summary = Tally().summary("run-1", "shop").model_copy(
        ...     update={"total_cases": 8, "trials": 8, "lost_trials": {"judge": 2}}
        ... )
        >>> for sentence in why_too_little(summary):
        ...     print(sentence)
        2 of 8 trials (25.0%) were lost to a judge, above max_lost_share 20%.
        Mend the judge, or check that its model answers, then run again.
    """
    return _why(summary, [], policy)


def _why(summary: RunSummary, cases: Sequence[str], policy: GatePolicy | None) -> list[str]:
    max_lost_share = (policy or GatePolicy()).max_lost_share
    lost = {Fault(name): number for name, number in summary.lost_trials.items() if number}
    sentences = []
    number, total = sum(lost.values()), summary.trials or summary.total_cases
    share = Fraction(number, total) if total else Fraction(0)
    if share > exact(max_lost_share):
        stated = percent(float(share), decimals=apart(float(share), max_lost_share))
        sentences.append(
            f"{of_all(number, total, 'trial')} ({stated}) {verb(number, 'was', 'were')} lost to "
            f"{lost_to_words(lost)}, above max_lost_share {allowed(max_lost_share)}."
        )
    if cases:
        by = "" if sentences or not lost else f" Lost to {lost_to_words(lost)}."
        sentences.append(
            f"{_cases(cases)} of the baseline {verb(len(cases), 'has', 'have')} no scored trial.{by}"
        )
    return [*sentences, *(_TO_DO[fault] for fault in _TO_DO if sentences and fault in lost)]


def unscored_cases(coverage: Coverage | None, never_blocking: Set[str] = frozenset()) -> list[str]:
    """List the cases that passed in the baseline, could block, and have no scored trial, by id."""
    losses = coverage.losses if coverage is not None else ()
    unscored = {case_id for loss in losses if loss.cause == "lost" for case_id in loss.cases}
    return sorted(unscored - never_blocking)


def lost_to_words(lost: Mapping[Fault, int]) -> str:
    """Say what trials were lost to: `the infrastructure`, or `a judge (3) and the infrastructure (2)`."""
    ordered = sorted(lost.items(), key=lambda pair: (-pair[1], pair[0].value))
    if len(ordered) == 1:
        return _LOST_TO[ordered[0][0]]
    named = [f"{_LOST_TO[fault]} ({number:,})" for fault, number in ordered]
    return f"{', '.join(named[:-1])} and {named[-1]}"


def marked_not_evaluated(decision: GateDecision, sentences: Sequence[str]) -> GateDecision:
    """Mark a decision that rests on too little: it never passes, and says so first."""
    if not sentences:
        return decision
    failed = decision.gate_status is GateStatus.FAILED
    marked = decision.model_copy(
        update={
            "gate_status": GateStatus.FAILED if failed else GateStatus.INCONCLUSIVE,
            "passed": False,
            "blocks": True,
            "not_evaluated": list(sentences),
            "failures": [*sentences[:1], *decision.failures],
        }
    )
    return marked.model_copy(update={"explanation": explain(marked)}) if decision.explanation else marked


def _cases(case_ids: Sequence[str]) -> str:
    named = ", ".join(cut(case_id, NAME_LIMIT) for case_id in case_ids[:NAMED])
    return f"{count(len(case_ids), 'case')} ({named}{', …' if len(case_ids) > NAMED else ''})"
