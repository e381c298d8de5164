"""The job's own rules, which a decision must satisfy beside those of the policy or the thresholds."""

from __future__ import annotations

from typing import NamedTuple

from agent_eval.ci.baseline import Lack, Search
from agent_eval.ci.config import Settings
from agent_eval.ci.context import JobContext
from agent_eval.contracts import Comparison, GateDecision, GateStatus, RuleResult
from agent_eval.text.numbers import count


class OwnRules(NamedTuple):
    """Rules of the job itself that are broken; None where one holds.

    Example:
        >>> OwnRules().suites_gone is None
        True
    """

    suites_gone: RuleResult | None = None
    not_replayed: RuleResult | None = None
    baseline_lost: RuleResult | None = None


def with_own_rules(
    decision: GateDecision,
    comparison: Comparison | None,
    job: JobContext,
    search: Search,
    own: OwnRules,
) -> GateDecision:
    """Add the job's own rules, where they are broken, to what the policy or the thresholds decided."""
    rules, settings = job.rules, job.settings
    unknown = _baseline_unknown(comparison, search)
    missing = None if unknown is not None else _baseline_missing(comparison, job)
    # What is not compared fails a release and leaves any other change undecided.
    lost = [own.suites_gone] if own.suites_gone is not None else []
    fails = settings.on_case_removed == "fail" or rules.is_release
    failing = [*(lost if fails else []), _cases_removed(comparison, settings), missing]
    broken = [rule for rule in failing if rule is not None]
    open_rules = (unknown, own.baseline_lost, _rules_loosened(decision, job), own.not_replayed)
    undecided = [rule for rule in open_rules if rule is not None]
    undecided += [] if fails else lost
    added = [*broken, *undecided]
    if not added:
        return decision.model_copy(update={"blocks": decision.blocks or _blocks_as_base(decision, job)})
    failed = bool(broken) or decision.gate_status is GateStatus.FAILED
    status = GateStatus.FAILED if failed else GateStatus.INCONCLUSIVE
    return decision.model_copy(
        update={
            "gate_status": status,
            "passed": False,
            "blocks": decision.blocks
            or failed
            or unknown is not None
            or own.baseline_lost is not None
            or rules.blocks_on_inconclusive,
            "rules": [*decision.rules, *added],
            "failures": [*decision.failures, *(rule.message for rule in added)],
            "explanation": _explained(decision, status, " ".join(rule.message for rule in added)),
        }
    )


def _blocks_as_base(decision: GateDecision, job: JobContext) -> bool:
    """Tell whether the base branch's policy blocks where the decision is open, whatever the change's says."""
    return decision.gate_status is GateStatus.INCONCLUSIVE and job.rules.blocks_on_inconclusive


def _rules_loosened(decision: GateDecision, job: JobContext) -> RuleResult | None:
    """Build the rule that a change does not loosen what it is held to; what failed anyway needs no more."""
    rules = job.rules
    if not rules.loosened or decision.gate_status is GateStatus.FAILED:
        return None
    return RuleResult(
        rule="rules_of_the_base",
        threshold=0,
        value=len(rules.loosened),
        passed=False,
        message=f"This change loosens the rules that it is held to: {' '.join(rules.loosened)}",
    )


def _explained(decision: GateDecision, status: GateStatus, added: str) -> list[str]:
    """Put the job's own rules into the explanation of a decision by policy."""
    if not decision.explanation:
        return []
    if decision.gate_status is status:
        return [*decision.explanation, added]
    return [f"{status.value.upper()}, by the job's own rules. {added}", *decision.explanation[1:]]


def _baseline_unknown(comparison: Comparison | None, search: Search) -> RuleResult | None:
    if search.outage is None or comparison is not None:
        return None
    return RuleResult(
        rule="baseline_known",
        threshold=1,
        value=0,
        passed=False,
        message="The baseline could not be read, so it is not known whether anything got worse.",
    )


def baseline_lost(search: Search, slug: str, job: JobContext) -> RuleResult | None:
    """Build the rule that a suite is compared where reviewed runs left evidence."""
    if search.lack(slug) is not Lack.LOST:
        return None
    return RuleResult(
        rule="baseline_known", threshold=1, value=0, passed=False, message=search.nothing(job.place)
    )


def _cases_removed(comparison: Comparison | None, settings: Settings) -> RuleResult | None:
    removed = comparison.cases.removed if comparison is not None else []
    if settings.on_case_removed != "fail" or not removed:
        return None
    return RuleResult(
        rule="on_case_removed",
        threshold=0,
        value=len(removed),
        passed=False,
        message=f"{count(len(removed), 'case was', 'cases were')} removed from the suite, "
        "which `on-case-removed: fail` does not allow.",
    )


def _baseline_missing(comparison: Comparison | None, job: JobContext) -> RuleResult | None:
    is_required = job.settings.require_baseline
    compared_any = comparison is not None and comparison.overview.compared_cases
    if compared_any or not (is_required or job.rules.is_release):
        return None
    asks = "`require-baseline`" if is_required else "preset `release`"
    return RuleResult(
        rule="require_baseline",
        threshold=1,
        value=0,
        passed=False,
        message=f"There is no baseline to compare with, and {asks} asks for one.",
    )
