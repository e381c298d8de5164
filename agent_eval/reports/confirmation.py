"""Render what fresh trials of both sides say of the cases that newly fail."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from agent_eval.contracts import GateDecision
from agent_eval.contracts.confirmation import Confirmation, Spending, SuspectResult, SuspectVerdict
from agent_eval.gate.confirmation_step import counts_in_words
from agent_eval.reports.advice import first_of
from agent_eval.reports.blocks import table
from agent_eval.reports.detail import Detail
from agent_eval.text.escape import code_span, prose
from agent_eval.text.numbers import count, verb

_SHA = 7
NBSP = "\u00a0"
_TO_LOOK_AT = ("confirmed", "inconclusive")
_ORDER = ("confirmed", "inconclusive", "not-yours", "cleared")
_VERDICTS = {
    "confirmed": "❌ **Confirmed: yours**",
    "inconclusive": "⚠️ Not settled",
    "not-yours": "➖ Not yours",
    "cleared": "✅ Cleared",
}
_OTHERS: dict[SuspectVerdict, str] = {
    "inconclusive": "{:,} not settled",
    "not-yours": "{:,} not yours",
    "cleared": "{:,} cleared",
}
_OPTION = re.compile(r"`[a-z]+(?:-[a-z]+)+`")


def excused_by_trials(decision: GateDecision) -> list[str]:
    """List the cases that fresh trials excuse, by id: cleared, or failing on the merge base as well."""
    return [row.case_id for row in decision.confirmed if row.verdict in ("cleared", "not-yours")]


def excuse_of(decision: GateDecision, case_id: str) -> str:
    """Name what excuses a case."""
    if case_id in decision.waived_case_ids:
        return "a waiver"
    if case_id in decision.tracked_case_ids:
        return "the policy, which tracks it"
    if case_id in decision.expected_fail_case_ids:
        return "the policy, which expects it to fail"
    return "fresh trials" if case_id in excused_by_trials(decision) else "its quarantine"


def whose_by_trials(decision: GateDecision, worse: int) -> str:
    """Say whose the regressions are, where fresh trials confirmed every one; else empty."""
    confirmed = [row for row in decision.confirmed if row.verdict == "confirmed"]
    if not confirmed or len(confirmed) != worse:
        return ""
    fails = "It fails again, and passes" if len(confirmed) == 1 else "They fail again, and pass"
    when = " in the same hour" if not any(row.base_cached for row in confirmed) else ""
    return f"{fails} on the merge base{when}: this change did it."


def is_confirmed(decision: GateDecision) -> bool:
    """Tell whether fresh trials confirmed that a case got worse."""
    return any(row.verdict == "confirmed" for row in decision.confirmed)


def confirmed_clause(decision: GateDecision, worse: int, code: Callable[[str], str]) -> str:
    """Name the cases that fresh trials confirmed, each with its trials, and count those they did not.

    Args:
        decision: Of the gate; at least one case is confirmed.
        worse: The number of cases that got worse and count.
        code: Sets a name as code.
    """
    confirmed = [row for row in decision.confirmed if row.verdict == "confirmed"]
    named = first_of([f"{code(row.case_id)} ({counts_in_words(row)})" for row in confirmed])
    of_them = f"{len(confirmed):,} of them " if len(confirmed) < worse else ""
    verdicts = Counter(row.verdict for row in decision.confirmed)
    others = [words.format(verdicts[name]) for name, words in _OTHERS.items() if verdicts[name]]
    return "; ".join([f"{of_them}confirmed by fresh trials: {named}", *others])


def unsettled_advice(
    decision: GateDecision, confirmation: Confirmation | None, prose: Callable[[str], str]
) -> str:
    """Say why fresh trials did not tell, and what to do about that; empty where they did.

    Args:
        decision: Of the gate.
        confirmation: The record of the fresh trials; None where it is not at hand.
        prose: Escapes a sentence that may quote anything.
    """
    unsettled = [row for row in decision.confirmed if row.verdict == "inconclusive"]
    if not unsettled:
        return ""
    ((reason, _),) = Counter(row.reason for row in unsettled).most_common(1)
    row = next(row for row in unsettled if row.reason == reason)
    return " ".join(filter(None, [prose(reason), _remedy(row, confirmation)]))


def _remedy(row: SuspectResult, confirmation: Confirmation | None) -> str:
    reason = row.reason
    if _OPTION.search(reason):
        return ""  # It names the option to set.
    if confirmation is not None and reason in (confirmation.problem, confirmation.doubt_of_base):
        return "Mend that, then run the job again."
    if confirmation is not None and reason == confirmation.stopped:
        return (
            "Raise `max-run-seconds` or `max-run-cost`, or lower `max-confirm-cases`, then run the job again."
        )
    if row.candidate_trials and row.base_trials and not row.candidate_passed + row.base_passed:
        # More trials would fail on both sides as well.
        return "Compare the failures of both sides; where they are alike, have the case waived."
    return "Look at the trials below; run the job again, or raise `confirm-pairs` for more of them."


def run_again(decision: GateDecision, confirmation: Confirmation | None, detail: Detail) -> str:
    """Render what was run again and needs a reader as a table, and what all of that took; empty for nothing.

    What fresh trials excuse is in `run_again_and_excused`, which is folded away.
    """
    rows = [row for row in decision.confirmed if row.verdict in _TO_LOOK_AT]
    commit = confirmation.base.commit if confirmation is not None else None
    base = f"merge base {code_span(commit[:_SHA])}" if commit else "merge base"
    blocks = [
        f"**Run again by both agents**, this change's and that of the {base}; only these trials decide:",
        _table(rows, detail),
    ]
    blocks = blocks if rows else []
    notes = []
    if confirmation is not None and confirmation.spent.trials:
        most_expected = spending_text(confirmation.expected, most=True)
        notes.append(f"Took {spending_text(confirmation.spent)}; expected {most_expected}")
    if cached := sum(row.base_cached for row in decision.confirmed):
        notes.append(
            f"{count(cached, 'trial')} of the merge base {verb(cached, 'is', 'are')} of an earlier run "
            "within 24 hours (`base-cache`)"
        )
    return "\n\n".join([*blocks, *(f"{note}." for note in notes)])


def run_again_and_excused(decision: GateDecision, detail: Detail) -> str:
    """Render the cases that fresh trials excuse as a table; empty where there are none."""
    return _table([row for row in decision.confirmed if row.verdict not in _TO_LOOK_AT], detail)


def _table(rows: Sequence[SuspectResult], detail: Detail) -> str:
    if not rows:
        return ""
    ordered = sorted(rows, key=lambda row: (_ORDER.index(row.verdict), row.case_id))
    lines = [_row(row, detail) for row in ordered[: max(detail.cases + detail.listed, 1)]]
    hidden = len(rows) - len(lines)
    rendered = table(("Case", "Now", "Base", "Verdict"), (":--", "--:", "--:", ":--"), lines)
    return f"{rendered}\n\nand {hidden:,} more, {detail.elsewhere}." if hidden else rendered


def _row(row: SuspectResult, detail: Detail) -> tuple[str, str, str, str]:
    chance = f", p = {row.p_value:.3f}" if row.verdict == "confirmed" and row.p_value is not None else ""
    return (
        code_span(row.case_id, limit=detail.name),
        _counts(row.candidate_passed, row.candidate_trials),
        _counts(row.base_passed, row.base_trials),
        f"{_VERDICTS[row.verdict]}{chance}. {prose(row.reason, limit=2 * detail.quote)}{_before(row)}",
    )


def _before(row: SuspectResult) -> str:
    """Say how often the case passed on the base branch before, and its tier; empty without a history."""
    if not row.history_scored:
        return ""
    return f" Before: {row.history_passed} of {row.history_scored} ({row.tier})."


def _counts(passed: int, trials: int) -> str:
    return f"{passed} of {trials}".replace(" ", NBSP) if trials else ""


def spending_text(spending: Spending, *, most: bool = False) -> str:
    """Write trials, minutes and money on one line; a cost that is not known is no cost of zero.

    Example:
        >>> spending_text(Spending(trials=12, minutes=3.0, cost_usd=0.25), most=True)
        'at most 12 trials, 3 min, $0.25'
        >>> spending_text(Spending(trials=1, minutes=0.2))
        '1 trial, under a minute, cost unknown'
    """
    parts = [f"{'at most ' if most else ''}{count(spending.trials, 'trial')}"]
    if spending.minutes is not None:
        parts.append(f"{spending.minutes:.0f} min" if spending.minutes >= 1 else "under a minute")
    parts.append("cost unknown" if spending.cost_usd is None else f"${spending.cost_usd:.2f}")
    return ", ".join(parts)
