"""Put the gate's decision into words: its name, and the sentence that says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent_eval.config.rules import RULES, find_rule
from agent_eval.contracts import Comparison, GateDecision, GateStatus, RuleResult, RunSummary
from agent_eval.gate.rules import rule_clause
from agent_eval.reports.counts import passing
from agent_eval.reports.decision import gate_reasons
from agent_eval.reports.model import EvaluationReport, SuiteReport, nothing_shared
from agent_eval.text.numbers import count, margin, of_all, verb

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

_OPENINGS = frozenset({"A", "All", "More", "No", "Nothing", "Only", "Suites", "The", "Unchanged"})
"""Words with which sentences of the gate begin, besides numbers and names."""

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


def why(
    decision: GateDecision,
    summary: RunSummary,
    comparison: Comparison | None,
    quote: Quote,
    *,
    note: bool = False,
) -> list[str]:
    """Say why the gate decided so: a clause for each reason, the weightiest first; never empty.

    Args:
        decision: What the gate decided.
        summary: Of the candidate.
        comparison: That it decided on; None without a baseline.
        quote: Escapes sentences that the gate quotes.
        note: Whether a note of the suite explains why there is no baseline.
    """
    broken = broken_rules(decision)
    messages = {rule.message for rule in broken}
    reasons = [rule_sentence(rule, quote) for rule in broken]
    reasons += [quote(failure).rstrip(".") for failure in decision.failures if failure not in messages]
    reasons += [quote(reason).rstrip(".") for reason in gate_reasons(decision)]
    if decision.gate_status is GateStatus.PASSED or not reasons:
        return [_without_reasons(decision, summary, comparison, note=note)]
    return reasons


def suite_why(suite: SuiteReport, quote: Quote) -> list[str]:
    """Say why the gate decided so on one suite of an evaluation."""
    return why(
        suite.decision, suite.candidate.summary, suite.comparison, quote, note=bool(suite.baseline_note)
    )


def _without_reasons(
    decision: GateDecision, summary: RunSummary, comparison: Comparison | None, *, note: bool
) -> str:
    status = decision.gate_status
    # A search that found nothing usable is explained in the note.
    alone = "There is no baseline" if note else "This run is the first: there is no baseline yet"
    if nothing_shared(comparison):
        alone = f"Nothing to compare: {_all_of(summary.total_cases)} new or changed since the baseline"
    if status is GateStatus.NO_BASELINE:
        reason = f"{alone}, and no absolute rule is set: nothing was decided"
    elif status is not GateStatus.PASSED:
        reason = "The gate gave no reason"
    elif comparison is None or nothing_shared(comparison):
        reason = f"{alone}; the absolute rules hold"
    elif comparison.overview.regressed_cases:
        reason = (
            f"{count(comparison.overview.regressed_cases, 'case')} regressed, which {_allowing(decision)}"
        )
    else:
        reason = "No case regressed"
    return f"{reason}. {passing(summary).rstrip('.')}"


def _all_of(cases: int) -> str:
    return "the only case is" if cases == 1 else f"all {cases:,} cases are"


def decision_word(status: GateStatus, *, shares_nothing: bool) -> str:
    """Choose the word for a decision in a heading.

    Args:
        status: Of the decision.
        shares_nothing: Whether there is a baseline, and none of its cases is unchanged.
    """
    return NOTHING_SHARED if status is GateStatus.NO_BASELINE and shares_nothing else WORDS[status]


def _allowing(decision: GateDecision) -> str:
    if decision.evidence is None:
        return "the rules allow"
    if decision.evidence.regressed:
        return f"stays within the margin of {margin(decision.evidence.margin)} points"
    return "is waived or in quarantine"


def sentence(clauses: Sequence[str]) -> str:
    """Join clauses to one sentence."""
    return f"{capital('; '.join(map(_within, clauses)))}."


def _within(clause: str) -> str:
    """Write the first word of a clause in lower case, unless it is a name."""
    word, space, rest = clause.partition(" ")
    return f"{word.lower()}{space}{rest}" if word in _OPENINGS else clause


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
    if number == total:
        return f"All {total} suites {word}."
    return f"{share} {word}."


def capital(sentence: str) -> str:
    """Write a sentence with a capital at its start."""
    return sentence[:1].upper() + sentence[1:]
