"""What to do about a decision: the second of the first lines of a report on a suite."""

from __future__ import annotations

from collections.abc import Callable

from agent_eval.contracts import GateDecision, GateStatus, RuleResult
from agent_eval.reports.advice import PUT_BACK, settled_by, them
from agent_eval.reports.causes import are_all_of
from agent_eval.reports.confirmation import confirmed_ids, unsettled_advice
from agent_eval.reports.standing import Standing


def what_to_do(standing: Standing) -> str:
    """Say what to do, as a sentence or two; empty for nothing."""
    return _TO_DO[standing.suite.status](standing)


def _to_do_when_failed(standing: Standing) -> str:
    failed = standing.steps("failed")
    if not standing.suite.worse:
        if standing.less_often and "regression" in failed:
            return "Look at the cases that pass less often, below: each failed trial has its reason."
        if {"coverage"} == set(failed) or _is_only_floor(standing.decision):
            return PUT_BACK
        limit = "`min-pass-rate`" if standing.broken("min_pass_rate") else "the limit"
        return f"Fix the failing cases below, or change {limit}."
    if are_all_of(standing.suite.causes, "service"):
        return "Check network, quotas and the machine, then run again."
    if are_all_of(standing.suite.causes, "judge"):
        return "Mend the judge, then run again: what the agent did was not judged."
    if len(standing.errors) == len(standing.suite.worse):
        again = "with the command below" if standing.suite.suite_path else "(`--case`)"
        return f"Repeat one of them {again}, and read what the agent writes to stderr."
    confirmed = confirmed_ids(standing.decision) if standing.is_confirmed else []
    these = (
        standing.named(confirmed)
        if confirmed
        else them(len(standing.suite.worse), len(standing.suite.causes))
    )
    also = f" Besides: {PUT_BACK[:1].lower()}{PUT_BACK[1:]}" if "coverage" in failed else ""
    repeats = ", and the command that repeats it, are" if standing.suite.suite_path else " is"
    return (
        f"Fix {these}: what changed{repeats} below. "
        f"If the new behaviour is right, change what the case expects, or have it waived.{also}"
    )


def _to_do_when_inconclusive(standing: Standing) -> str:
    undecided, evidence = standing.steps("inconclusive"), standing.decision.evidence
    if standing.broken("rules_of_the_base"):
        return "Merge the change of the rules first, by itself; then this change is judged by them."
    if "coverage" in undecided:
        return PUT_BACK
    if "integrity" in undecided:
        return ""
    if "confirmation" in undecided:
        return unsettled_advice(
            standing.decision,
            standing.suite.confirmation,
            standing.voice.prose,
            has_trials=standing.has_trials,
        )
    if "non-inferiority" not in undecided or evidence is None:
        return ""
    number = len(standing.worse)
    first = f"Look at {'it' if number == 1 else 'them'} below. " if number else ""
    comparison = standing.suite.comparison
    trials = comparison.trials if comparison is not None else None
    cases = standing.suite.candidate.summary.total_cases
    settle = settled_by(standing.decision, evidence, trials, cases)
    if standing.decision.blocks or not number:
        return f"{first}To tell, {settle}."
    these = "it" if number == 1 else "them"
    return f"{first}To tell, {settle}; or set `max-regressed-cases: 0` to block on {these}."


def _to_do_without_baseline(standing: Standing) -> str:
    if standing.suite.nothing_shared:
        return "Check that every case is meant to change; once merged, changes are compared with this run."
    return (
        "Nothing now: once this has run on the base branch, changes are compared with that run. "
        "To enforce a limit already, set `min-pass-rate`."
    )


_TO_DO: dict[GateStatus, Callable[[Standing], str]] = {
    GateStatus.FAILED: _to_do_when_failed,
    GateStatus.INCONCLUSIVE: _to_do_when_inconclusive,
    GateStatus.NO_BASELINE: _to_do_without_baseline,
    GateStatus.PASSED: lambda _standing: "",
}


def is_floor(rule: RuleResult) -> bool:
    """Tell whether a rule is the one on how much of the baseline is compared."""
    return rule.rule == "min_coverage"


def _is_only_floor(decision: GateDecision) -> bool:
    broken = [rule for rule in decision.rules if rule.applied and not rule.passed]
    return bool(broken) and all(map(is_floor, broken))
