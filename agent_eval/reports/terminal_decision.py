"""Render the gate's decisions for a terminal, and what a whole evaluation came to."""

from __future__ import annotations

from functools import partial

from agent_eval.contracts import Comparison, GateDecision, GateStatus
from agent_eval.gate.confirmation_step import counts_in_words
from agent_eval.gate.explanation import expired
from agent_eval.reports.confirmation import in_order, took
from agent_eval.reports.counts import passing
from agent_eval.reports.headline import Headline
from agent_eval.reports.looks import looks_sentence
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.sentences import (
    WORDS,
    broken_rules,
    capital,
    decision_word,
    overall,
    rule_sentence,
)
from agent_eval.reports.standing import Voice
from agent_eval.reports.terminal import CASES_SHOWN, GREEN, RED, YELLOW, joined, painted, shown_name, wrapped
from agent_eval.reports.terminal_comparison import (
    case_set,
    first_conversation,
    less_often,
    moved_rates,
    regressed,
)
from agent_eval.reports.tiers import cases_apart, first_named, new_case_words
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

_LINES_OF_A_GATE = 10
_RUNS_NAMED = 100
_COLOURS = {
    GateStatus.PASSED: GREEN,
    GateStatus.FAILED: RED,
    GateStatus.INCONCLUSIVE: YELLOW,
    GateStatus.NO_BASELINE: YELLOW,
}


def gate_text(
    decision: GateDecision, path: str, *, comparison: Comparison | None = None, colour: bool = False
) -> str:
    """Render the result of `gate`: at most ten lines, the runs of a pool, and a regressed conversation.

    The lines are the decision, each rule with its figure, and the file. A decision by policy explains itself;
    its lines may be longer than the screen is wide.

    Args:
        decision: The decision.
        path: The file that it was written to.
        comparison: The comparison that it was made on; None for a run alone.
        colour: Whether the terminal shows colours.
    """
    conversation = [] if decision.passed or comparison is None else first_conversation(comparison)
    if decision.explanation:
        first, *rest = (clean(line, limit=600) for line in decision.explanation)
        first = painted(first, _COLOURS[decision.gate_status], colour)
        decided = [*conversation, *_pool(decision), f"Decision: {shown_name(path, 1000)}"]
        return joined([first, *rest, *decided])
    word = "not evaluated" if decision.not_evaluated else WORDS[decision.gate_status]
    lines = [painted(f"Gate: {word}", _COLOURS[decision.gate_status], colour)]
    broken = broken_rules(decision)
    for rule in [*broken, *(rule for rule in decision.rules if rule not in broken)]:
        mark = "--" if not rule.applied else "ok" if rule.passed else "NO"
        clause = clean(rule.message, limit=300) if not rule.applied else capital(rule_sentence(rule, clean))
        lines += wrapped([clause.rstrip(".") + "."], first=f"  {mark} ", rest="     ")
    messages = {rule.message for rule in decision.rules}
    other = [clean(failure, limit=300) for failure in decision.failures if failure not in messages]
    lines += wrapped(other, first="  NO ", rest="     ")
    lines += wrapped(_waived(decision), first="  -- ", rest="     ")
    if len(lines) > _LINES_OF_A_GATE - 1:
        lines = [*lines[: _LINES_OF_A_GATE - 2], "  .. and more, see the decision"]
    return joined([*lines, *conversation, f"Decision: {shown_name(path, 1000)}"])


def _pool(decision: GateDecision) -> list[str]:
    """Name every run that the decision rests on; a history has a hundred at most."""
    pooled = decision.evidence.pooled if decision.evidence is not None else None
    if pooled is None:
        return []
    names = [shown_name(run_id, 60) for run_id in pooled.run_ids[:_RUNS_NAMED]]
    more = len(pooled.run_ids) - len(names)
    listed = ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
    return wrapped([f"Held against {count(pooled.runs, 'run')}, the newest first: {listed}."], rest="  ")


def _waived(decision: GateDecision) -> list[str]:
    return [
        f"Waived by {shown_name(waiver.approved_by, 60)} ({shown_name(waiver.waiver_id, 40)}): "
        f"{count(len(waiver.case_ids), 'case')}."
        for waiver in decision.waivers
    ] + [capital(clean(expired(decision), limit=600)) + "."] * bool(decision.expired)


def evaluation_text(report: EvaluationReport, *, colour: bool = False) -> str:
    """Render a report: each suite's decision and why, what regressed, where the evidence is."""
    lines: list[str] = []
    if report.not_evaluated:
        reason = f"Not evaluated: {clean(report.not_evaluated)}"
        lines += [*(painted(line, RED, colour) for line in wrapped([reason], rest="  ")), ""]
    if report.rule_changes.sentences:
        lines += [painted(report.rule_changes.title, YELLOW, colour)]
        lines += wrapped(map(clean, report.rule_changes.sentences), first="  ", rest="    ")
        lines.append("")
    if len(report.suites) > 1 and not report.not_evaluated:
        lines += [painted(overall(report), _COLOURS[report.status], colour), ""]
    for suite in report.worst_first:
        lines += [*(_suite(suite, colour) if report.is_evaluated(suite) else _no_decision(suite, colour)), ""]
    lines += wrapped((f"warning: {clean(warning)}" for warning in report.warnings), rest="  ")
    if report.evidence_name:
        lines.append(f"Evidence: {shown_name(report.evidence_name, 1000)}")
    return joined(lines)


def _suite(suite: SuiteReport, colour: bool) -> list[str]:
    title = (
        f"{shown_name(suite.slug, 60)}: {decision_word(suite.status, shares_nothing=suite.nothing_shared)}"
    )
    lines = [painted(title, _COLOURS[suite.status], colour)]
    headline = Headline(suite, Voice(code=partial(shown_name, limit=60), prose=clean))
    looks = clean(looks_sentence(suite.decision))
    sentences = [headline.what_happened, headline.why, headline.what_to_do, looks]
    named = first_named(headline.voice.code)
    branch = shown_name(suite.history.branch, 60) if suite.history is not None else ""
    sentences += [new_case_words(suite, named, clean), *cases_apart(suite).sentences(named, branch)]
    lines += wrapped(filter(None, sentences), first="  ", rest="  ")
    lines += _fresh_trials(suite)
    if suite.baseline_note:
        lines += wrapped([clean(suite.baseline_note)], first="  ", rest="  ")
    if suite.comparison is not None and suite.nothing_shared:
        lines += [f"  {line}" for line in case_set(suite.comparison)] + _failing(suite)
    elif suite.comparison is not None:
        inside = [
            *wrapped(clean(notice) for notice in suite.comparison.behaviour.notices),
            *moved_rates(suite.comparison),
            *case_set(suite.comparison),
            *regressed(suite.comparison, CASES_SHOWN),
            *less_often(suite.comparison, CASES_SHOWN, suite.excused),
        ]
        lines += [f"  {line}" for line in inside]
    else:
        lines += _failing(suite)
    return lines


_FRESH_SHOWN = 10
_FRESH_WORDS = {
    "confirmed": "confirmed",
    "inconclusive": "not settled",
    "not-yours": "not yours",
    "cleared": "cleared",
}


def _fresh_trials(suite: SuiteReport) -> list[str]:
    """List the cases that both agents were to run again, with the verdict and the trials or the reason."""
    rows = in_order(suite.decision.confirmed)
    if not rows:
        return []
    lines = ["  Run again by both agents:"]
    for row in rows[:_FRESH_SHOWN]:
        before = f"; before {row.history_passed} of {row.history_scored} ({row.tier})"
        counts = counts_in_words(row) or row.reason.rstrip(".")
        words = f"{clean(counts, limit=200)}{before if row.history_scored else ''}"
        name = f"{_FRESH_WORDS[row.verdict]}: {shown_name(row.case_id, 60)}"
        lines += wrapped([f"{name}: {words}"], first="    ", rest="      ")
    if len(rows) > _FRESH_SHOWN:
        lines.append(f"    and {len(rows) - _FRESH_SHOWN:,} more")
    return lines + wrapped(filter(None, [clean(took(suite.confirmation))]), first="    ", rest="    ")


def _no_decision(suite: SuiteReport, colour: bool) -> list[str]:
    """Render a suite that nothing was decided on: how its cases did, and no change of them."""
    title = painted(f"{shown_name(suite.slug, 60)}: not evaluated", RED, colour)
    sentences = [passing(suite.candidate.summary), clean(suite.baseline_note)]
    return [title, *wrapped(filter(None, sentences), first="  ", rest="  "), *_failing(suite)]


def _failing(suite: SuiteReport) -> list[str]:
    lines = []
    for row in suite.failing[:CASES_SHOWN]:
        lines.append(f"    {shown_name(row['case_id'], 70)}")
        objections = [verdict for verdict in row["verdicts"] if verdict["outcome"] == row["outcome"]]
        reasons = [
            f"{shown_name(verdict['judge_id'], 40)}: {clean(verdict['reason'], limit=200)}"
            for verdict in objections[:1]
        ]
        lines += wrapped(reasons, first="      ", rest="      ")
    if len(suite.failing) > CASES_SHOWN:
        lines.append(f"    and {len(suite.failing) - CASES_SHOWN:,} more")
    return ["  Not passed:", *lines] if lines else []
