"""Name the gate's decision and its rules in words."""

from __future__ import annotations

from collections.abc import Callable

from agent_eval.config.rules import RULES, find_rule
from agent_eval.contracts import GateDecision, GateStatus, RuleResult
from agent_eval.gate.rules import rule_clause
from agent_eval.reports.model import EvaluationReport
from agent_eval.text.numbers import count, of_all, verb

ICONS = {
    GateStatus.PASSED: "✅",
    GateStatus.FAILED: "❌",
    GateStatus.INCONCLUSIVE: "⚠️",
    GateStatus.NO_BASELINE: "➖",
}
WORDS = {
    GateStatus.PASSED: "passed",
    GateStatus.FAILED: "failed",
    GateStatus.INCONCLUSIVE: "inconclusive",
    GateStatus.NO_BASELINE: "no baseline",
}

NOTHING_SHARED = "nothing to compare"
"""Used instead of "no baseline" where there is a baseline, but no case of it is unchanged."""

COVERAGE = "min_coverage"
"""The rule on how much of the baseline is compared."""

_LAST = max(rule.rank for rule in RULES)

Quote = Callable[[str], str]
"""Escapes a sentence for the place where it is shown (markdown, terminal)."""


def rule_sentence(rule: RuleResult, quote: Quote) -> str:
    """Say what one rule measured and allows, without a capital and a full stop.

    Args:
        rule: Its own message is quoted where the table of rules has no words for it.
        quote: Escapes that message.
    """
    if rule.rule == COVERAGE and rule.value is not None:
        # Its own message also says by what the baseline's verdicts were lost.
        return quote(rule.message).rstrip(".")
    return rule_clause(rule) or quote(rule.message).rstrip(".")


def broken_rules(decision: GateDecision) -> list[RuleResult]:
    """List the rules that were applied and do not hold, the ones that people ask for first in front."""
    broken = [
        rule
        for rule in decision.rules
        # A decision by policy has a step on coverage, which says it.
        if rule.applied and not rule.passed and not (decision.steps and rule.rule == COVERAGE)
    ]
    return sorted(broken, key=_rank)


def _rank(result: RuleResult) -> int:
    rule = find_rule(result.rule)
    return rule.rank if rule is not None else _LAST


def decision_word(status: GateStatus, *, shares_nothing: bool) -> str:
    """Choose the word for a decision in a heading.

    Args:
        status: Of the decision.
        shares_nothing: Whether there is a baseline, and none of its cases is unchanged.
    """
    return NOTHING_SHARED if status is GateStatus.NO_BASELINE and shares_nothing else WORDS[status]


def overall(report: EvaluationReport) -> str:
    """Summarize several suites in one sentence."""
    status = report.status
    number = sum(suite.status is status for suite in report.suites)
    total = len(report.suites)
    share = of_all(number, total, "suite")
    if status is GateStatus.NO_BASELINE:
        missing = "nothing to compare with" if report.nothing_shared else "no baseline to compare with"
        return f"{share} {verb(number, 'has', 'have')} {missing}."
    word = {GateStatus.INCONCLUSIVE: verb(number, "is inconclusive", "are inconclusive")}.get(
        status, WORDS[status]
    )
    regressed = sum(len(suite.comparison.regressed_case_ids) for suite in report.suites if suite.comparison)
    cases = f": {count(regressed, 'case')} regressed" if regressed and status is GateStatus.FAILED else ""
    if number == total:
        return f"All {total} suites {word}{cases}."
    return f"{share} {word}{cases}."


def capital(sentence: str) -> str:
    """Write a sentence with a capital at its start."""
    return sentence[:1].upper() + sentence[1:]
