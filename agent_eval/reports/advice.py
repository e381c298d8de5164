"""Advice that first lines give: what settles chance, and what to do about cases that are not compared."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts import GateDecision, GateEvidence, TrialComparison
from agent_eval.gate.settling import may_trials_settle, trials_to_settle

NAMED = 3
"""Most cases that a first line names."""
CALM = 10
"""Trials of each case beyond which adding cases is the cheaper advice, and is given too."""

PUT_BACK = (
    "Put back what is no longer compared, or have it waived; for a case in quarantine, lower `min_coverage` "
    "in the policy."
)


def first_of(names: Sequence[str]) -> str:
    """List the first names and the number of the others.

    Example:
        >>> first_of(["a", "b", "c"]), first_of(["a", "b", "c", "d", "e"])
        ('a, b and c', 'a, b, c and 2 more')
    """
    more = len(names) - NAMED
    if more > 0:
        return f"{', '.join(names[:NAMED])} and {more:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def them(cases: int, causes: int) -> str:
    """Name what is to be fixed: the cases where they are few, else their causes."""
    if cases == 1:
        return "this case"
    if cases <= NAMED:
        return "these cases"
    return "the cause" if causes == 1 else f"the {causes:,} causes"


def settled_by(
    decision: GateDecision, evidence: GateEvidence, trials: TrialComparison | None, cases: int
) -> str:
    """Say what would tell a drop from chance, as a clause: trials only where they can, else cases.

    Args:
        decision: Inconclusive.
        evidence: Of the decision.
        trials: The trials that were compared; None where each case has one.
        cases: The cases there are.
    """
    needed = "more" if evidence.cases_needed is None else f"about {evidence.cases_needed:,}"
    have = f"have {needed} cases ({cases:,} now)"
    number = trials_to_settle(trials, decision)
    if number is not None:
        return f"{have} or run {number:,} trials each" if number > CALM else f"run {number:,} trials each"
    if may_trials_settle(evidence):
        return f"{have} or try `trials: auto`"
    if evidence.pooled is not None:
        return have
    return f"{have} or compare with several runs of the base branch (`baseline-runs`)"
