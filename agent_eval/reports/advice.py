"""Advice that first lines give: what settles chance, and what to do about cases that are not compared."""

from __future__ import annotations

from collections.abc import Sequence

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


def settled_by(cases: int | None, now: int, trials: int) -> str:
    """Say how many cases or trials would tell a drop from chance.

    Args:
        cases: As many cases as would do; None when unknown.
        now: The cases there are.
        trials: As many trials of each as would do.
    """
    if cases is None:
        return "Run several trials each"
    if trials > CALM:
        return f"Have about {cases:,} cases ({now:,} now) or run {trials:,} trials each"
    return f"Run {trials:,} trials each"
