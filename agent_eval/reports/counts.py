"""How the cases of a run did, as numbers and in words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from agent_eval.text.numbers import count, of_all, percent, verb

if TYPE_CHECKING:
    from agent_eval.contracts import (
        CaseResultRow,
        Comparison,
        ExecutionConfig,
        RunSummary,
        TrialChange,
        TrialCount,
        VerdictRow,
    )
    from agent_eval.contracts.run import ModelsUse


def redacted(execution: ExecutionConfig) -> str:
    """Say how much was redacted in a run, and never what; empty for nothing."""
    cases = execution.redacted_cases
    if not cases:
        return ""
    number = execution.redactions
    if number is None:
        return f"Secrets in {count(cases, 'case')} were redacted."
    parts = f"{number:,} {'secret or personal detail' if number == 1 else 'secrets or personal details'}"
    return f"{parts} in {count(cases, 'case')} {verb(number, 'was', 'were')} redacted."


def passing(summary: RunSummary) -> str:
    """Say how many cases passed, and how many of the others did not simply fail."""
    others = (
        (summary.error_cases, "could not be judged"),
        (summary.inconclusive_cases, "inconclusive"),
        (summary.skipped_cases, "without anything to judge"),
    )
    rest = [f"{number:,} {words}" for number, words in others if number]
    passed = of_all(summary.passed_cases, summary.total_cases, "case")
    sentence = f"{passed} passed ({percent(summary.pass_rate)})"
    if expects_nothing(summary):
        sentence = f"Nothing is expected of these cases yet; {passed} ran without a fault"
    return f"{'; '.join([sentence, *rest])}."


def not_judged(summary: RunSummary) -> list[str]:
    """Say which fields of cases nothing in the run looks at, and which judge would, a sentence each."""
    from agent_eval.judges.catalog import judges_of_field

    sentences = [_ADD_EXPECTATIONS] if expects_nothing(summary) else []
    for name, number in list(summary.fields_not_judged.items())[:_FIELDS_SHOWN]:
        judges = judges_of_field(name)
        would = f"; {' or '.join(judges)} would" if judges else ""
        sentences.append(f"No judge of the run looks at {name} of {count(number, 'case')}{would}.")
    for name, number in list(summary.nearly_forbidden.items())[:_FIELDS_SHOWN]:
        sentences.append(
            f"{name} was called in {count(number, 'case')}: its name ends as that of a forbidden tool, and "
            "only the whole name is forbidden."
        )
    more = len(summary.fields_not_judged) - _FIELDS_SHOWN
    return sentences + ([f"The same is true of {count(more, 'more field')}."] if more > 0 else [])


_FIELDS_SHOWN = 5
_ADD_EXPECTATIONS = (
    "Say in the suite what each case must do (`expected_output`, `regex_patterns`, `policy`), or import "
    "it again with --expect FILE."
)


def expects_nothing(summary: RunSummary) -> bool:
    """Tell whether no case says what the agent must do, although judges of that were there.

    A suite made of recordings is so at first: only how each run ended is judged then, which says little.
    Where every case is an error, no judge came to its expectations, and nothing is known of them.
    """
    judged = {name for name, counts in summary.judge_counts.items() if counts.judged}
    return (
        bool(judged)
        and judged <= _OF_EVERY_RUN < summary.judge_counts.keys() | _OF_EVERY_RUN
        and not summary.fields_not_judged
        and summary.error_cases < summary.total_cases
    )


_OF_EVERY_RUN = frozenset({"replay_contract", "trajectory_step", "execution"})
"""Judges of how a run went, which need nothing of its case."""


def judging_words(summary: RunSummary) -> list[str]:
    """Say what models took that judge and play users, and what kept replies saved; nothing without them."""
    users = [f"Simulated users: {_use(summary.simulating)}."] if summary.simulating is not None else []
    used = summary.judging
    if used is None:
        return users
    words = [f"LLM judges: {_use(used)}.", *users]
    if used.scripted:
        verdicts = count(used.scripted, "verdict")
        words.append(f"{verdicts} {verb(used.scripted, 'is', 'are')} `scripted`: from a file, by no model.")
    return words


def _use(used: ModelsUse) -> str:
    cost = f" for {used.cost_usd:.6g} USD" if used.cost_usd else ""
    unpriced = f" ({count(used.unpriced, 'call')} of unknown cost)" if used.unpriced else ""
    saved = f", which saved {used.saved_usd:.6g} USD" if used.saved_usd else ""
    replies = count(used.reused, "kept reply", "kept replies")
    reused = f"; {replies} {verb(used.reused, 'was', 'were')} reused{saved}" if used.reused else ""
    return f"{count(used.calls, 'call')}{cost}{unpriced}{reused}"


def objections(row: CaseResultRow) -> list[VerdictRow]:
    """List the verdicts that a case ended with: of a crash first, which explains the others."""
    from agent_eval.contracts.verdict import EXECUTION

    ended = (verdict for verdict in row["verdicts"] if verdict["outcome"] == row["outcome"])
    return sorted(ended, key=lambda verdict: verdict["judge_id"] != EXECUTION)


def fallen(comparison: Comparison | None) -> list[TrialChange]:
    """List cases of which fewer trials pass than before, the largest fall first; they may still pass."""
    if comparison is None or comparison.trials is None:
        return []
    of_cases = [row for row in comparison.trials.changes if row.judge_id is None]
    rows = [(_share(row.baseline) - _share(row.candidate), row) for row in of_cases]
    return [row for drop, row in sorted(rows, key=lambda fall: (-fall[0], fall[1].case_id)) if drop > 0]


def rates(row: TrialChange) -> str:
    """Write the trials of a case that passed, before and now: `4 of 4 → 3 of 5`."""
    before, now = (f"{trials.passed} of {trials.judged}" for trials in (row.baseline, row.candidate))
    return f"{before} → {now}"


def _share(trials: TrialCount) -> Fraction:
    return Fraction(trials.passed, trials.judged) if trials.judged else Fraction(0)
