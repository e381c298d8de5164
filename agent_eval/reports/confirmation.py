"""Render what fresh trials of both sides say of the cases that newly fail."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from agent_eval.contracts import GateDecision
from agent_eval.contracts.confirmation import Confirmation, Spending, SuspectResult, SuspectVerdict
from agent_eval.gate.confirmation_step import counts_in_words
from agent_eval.reports.advice import first_of
from agent_eval.reports.blocks import names, table
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
_INSTRUCTION = re.compile(r"(?:\bin |\()`[a-z]+(?:-[a-z]+)+`")
"""What a reason says that names the option to set: "name it in `base-agent`", "(`confirm-pairs`)". An option
in backticks alone may be what failed."""
_CAP = "max-confirm-cases"
_OF_THE_RUN = "`max-run-seconds`"
_NOT_BUILT = "The merge base could not be built:"
_IN_ITS_WORKTREE = "It fails in the merge base's worktree as well"


def excused_by_trials(decision: GateDecision) -> list[str]:
    """List the cases that fresh trials excuse, by id: cleared, or failing on the merge base as well."""
    return [row.case_id for row in decision.confirmed if row.verdict in ("cleared", "not-yours")]


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


def confirmed_ids(decision: GateDecision) -> list[str]:
    """List the cases that fresh trials confirmed, by id."""
    return [row.case_id for row in decision.confirmed if row.verdict == "confirmed"]


def confirmed_clause(decision: GateDecision, code: Callable[[str], str], *, of_worse: int | None) -> str:
    """Name the cases that fresh trials confirmed, each with its trials, and count those they did not.

    Args:
        decision: Of the gate; at least one case is confirmed.
        code: Sets a name as code.
        of_worse: The number of cases that got worse and count, which the clause before has said; None where
            it has said another number.
    """
    confirmed = [row for row in decision.confirmed if row.verdict == "confirmed"]
    named = first_of([f"{code(row.case_id)} ({counts_in_words(row)})" for row in confirmed])
    some = "" if of_worse == len(confirmed) else f"{len(confirmed):,} of them "
    how_many = f"{len(confirmed):,} " if of_worse is None else some
    verdicts = Counter(row.verdict for row in decision.confirmed)
    others = [words.format(verdicts[name]) for name, words in _OTHERS.items() if verdicts[name]]
    return "; ".join([f"{how_many}confirmed by fresh trials: {named}", *others])


def were_run_again(decision: GateDecision) -> bool:
    """Tell whether a fresh trial was run of any case."""
    return any(row.candidate_trials or row.base_trials for row in decision.confirmed)


def unsettled_advice(
    decision: GateDecision,
    confirmation: Confirmation | None,
    prose: Callable[[str], str],
    *,
    has_trials: bool = False,
) -> str:
    """Say why fresh trials did not tell, and what to do about that; empty where they did.

    Args:
        decision: Of the gate.
        confirmation: The record of the fresh trials; None where it is not at hand.
        prose: Escapes a sentence that may quote anything.
        has_trials: Whether a case has several trials in the run itself.
    """
    unsettled = [row for row in decision.confirmed if row.verdict == "inconclusive"]
    if not unsettled:
        return ""
    ((reason, _),) = Counter(row.reason for row in unsettled).most_common(1)
    row = next(row for row in unsettled if row.reason == reason)
    left_over = any(_is_beyond_the_cap(row) for row in unsettled)
    remedies = [_remedy(row, confirmation), _remedy_of_the_cap(has_trials=has_trials) if left_over else ""]
    return " ".join(filter(None, [prose(reason), *map(prose, filter(None, remedies))]))


def _is_beyond_the_cap(row: SuspectResult) -> bool:
    return f"`{_CAP}`" in row.reason


def _remedy_of_the_cap(*, has_trials: bool) -> str:
    """Say what keeps flaky cases from using up the trials of the others."""
    majority = ", and `case-policy: majority` keeps single trials from failing a case" if has_trials else ""
    return (
        "Flaky cases belong under `tracked` in the policy: `agent-eval history --recommend` lists "
        f"them{majority}. Or raise `{_CAP}`."
    )


def _remedy(row: SuspectResult, confirmation: Confirmation | None) -> str:
    reason = row.reason
    if _is_beyond_the_cap(row) or _INSTRUCTION.search(reason):
        return ""  # It names the option to set.
    if reason.startswith(_NOT_BUILT):
        return (
            "Run the job again; where it fails again, mend that on the base branch and bring this change "
            "up to date with it."
        )
    if _OF_THE_RUN in reason or (confirmation is not None and reason == confirmation.stopped):
        return f"Raise {_OF_THE_RUN} or `max-run-cost`, or lower `{_CAP}`, then run the job again."
    if confirmation is not None and reason in (confirmation.problem, confirmation.doubt_of_base):
        return "Mend that, then run the job again."
    if reason.startswith(_IN_ITS_WORKTREE):
        return (
            "Let `setup-command` make what is missing; where nothing is, run the base branch again: if it "
            "fails there too, the change is not the cause."
        )
    if row.candidate_trials and row.base_trials and not row.candidate_passed + row.base_passed:
        # More trials would fail on both sides as well.
        return "Compare the failures of both sides; where they are alike, have the case waived."
    return "Look at the trials below; run the job again, or raise `confirm-pairs` for more of them."


def run_again(decision: GateDecision, confirmation: Confirmation | None, detail: Detail) -> str:
    """Render what was run again and needs a reader as a table, and what all of that took; empty for nothing.

    Cases of which no trial was run are named in a sentence with the reason. What fresh trials excuse is in
    `run_again_and_excused`, which is folded away.
    """
    rows = [row for row in decision.confirmed if row.verdict in _TO_LOOK_AT]
    commit = confirmation.base.commit if confirmation is not None else None
    base = f"merge base {code_span(commit[:_SHA])}" if commit else "merge base"
    tried, not_tried = _divided(rows)
    blocks = [
        f"**Run again by both agents**, this change's and that of the {base}; only these trials decide:",
        _table(tried, detail),
    ]
    blocks = blocks if tried else []
    blocks += _not_run_again(not_tried, detail, is_all=not were_run_again(decision))
    return "\n\n".join(filter(None, [*blocks, took(confirmation), cached_words(decision)]))


def _divided(rows: Sequence[SuspectResult]) -> tuple[list[SuspectResult], list[SuspectResult]]:
    """Divide cases into those of which a trial was run, and the others."""
    tried = [row for row in rows if row.candidate_trials or row.base_trials]
    return tried, [row for row in rows if not (row.candidate_trials or row.base_trials)]


def _not_run_again(rows: Sequence[SuspectResult], detail: Detail, *, is_all: bool) -> list[str]:
    """Name the cases of which no trial was run, a sentence for each reason.

    Args:
        rows: The cases.
        detail: How much to show.
        is_all: Whether no case at all was run again.
    """
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(row.case_id)
    title = "Could not be run again on both sides" if is_all else "Not run again"
    sentences = []
    for reason, case_ids in list(by_reason.items())[: detail.sentences]:
        listed = names(sorted(case_ids), most=max(detail.ids, 1), limit=detail.name)
        why = prose(reason.removeprefix("Not run again: "), limit=2 * detail.quote)
        sentences.append(f"**{title}:** {listed}. {why[:1].upper()}{why[1:]}")
    return sentences


def run_again_and_excused(decision: GateDecision, detail: Detail) -> str:
    """Render the cases that fresh trials, or an unchanged agent, excuse; empty where there are none."""
    tried, not_tried = _divided([row for row in decision.confirmed if row.verdict not in _TO_LOOK_AT])
    unchanged = _not_run_again(not_tried, detail, is_all=False)
    return "\n\n".join(filter(None, [_table(tried, detail), *unchanged]))


def in_order(rows: Sequence[SuspectResult]) -> list[SuspectResult]:
    """Sort cases by verdict, the confirmed ones first, then by id."""
    return sorted(rows, key=lambda row: (_ORDER.index(row.verdict), row.case_id))


def took(confirmation: Confirmation | None) -> str:
    """Say what the fresh trials took and what was expected, as a sentence; empty where none was run."""
    if confirmation is None or not confirmation.spent.trials:
        return ""
    most_expected = spending_text(confirmation.expected, most=True)
    return f"Took {spending_text(confirmation.spent)}; expected {most_expected}."


def cached_words(decision: GateDecision) -> str:
    """Say how many trials of the merge base an earlier run made, as a sentence; empty for none."""
    cached = sum(row.base_cached for row in decision.confirmed)
    if not cached:
        return ""
    return (
        f"{count(cached, 'trial')} of the merge base {verb(cached, 'is', 'are')} of an earlier run "
        "within 24 hours (`base-cache`)."
    )


def _table(rows: Sequence[SuspectResult], detail: Detail) -> str:
    if not rows:
        return ""
    lines = [_row(row, detail) for row in in_order(rows)[: max(detail.cases + detail.listed, 1)]]
    hidden = len(rows) - len(lines)
    rendered = table(("Case", "Now", "Base", "Verdict"), (":--", "--:", "--:", ":--"), lines)
    return f"{rendered}\n\nand {hidden:,} more, {detail.elsewhere}." if hidden else rendered


def _row(row: SuspectResult, detail: Detail) -> tuple[str, str, str, str]:
    chance = chance_of(row)
    return (
        code_span(row.case_id, limit=detail.name),
        _counts(row.candidate_passed, row.candidate_trials),
        _counts(row.base_passed, row.base_trials),
        f"{_VERDICTS[row.verdict]}{chance}. {prose(row.reason, limit=2 * detail.quote)}{_before(row)}",
    )


def chance_of(row: SuspectResult) -> str:
    """Return the p value of a confirmed case after a comma; empty for any other."""
    return f", p = {row.p_value:.3f}" if row.verdict == "confirmed" and row.p_value is not None else ""


def _before(row: SuspectResult) -> str:
    """Say how often the case passed on the base branch before, and its tier; empty without a history."""
    if not row.history_scored:
        return ""
    return f" Before: {row.history_passed} of {row.history_scored} ({row.tier})."


def _counts(passed: int, trials: int) -> str:
    return f"{passed} of {trials}".replace(" ", NBSP) if trials else "–"


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
