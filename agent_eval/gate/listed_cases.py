"""Find ids that a policy lists and no run has: a misspelt case goes on blocking without a word."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from agent_eval.contracts.policy import GatePolicy

_NAMED = 5
_LONGEST = 200
_COMPARED = 10_000
"""Ids that a suggestion is looked for among; the search takes a second for some 50,000."""


def unknown_case_warnings(policy: GatePolicy, known: Iterable[str], *, where: str) -> list[str]:
    """Warn of every case that a policy lists and that does not exist, with the nearest id that does.

    Args:
        policy: Its `quarantine` is looked at.
        known: Ids of the cases of the runs.
        where: What has no such case, as the end of a sentence: "neither run has it".

    Returns:
        A sentence for each of the first five, with ids in backticks, and one for the others.

    Example:
        >>> held = [{"case": "refnd", "reason": "flaky", "until": "2027-03-31"}]
        >>> unknown_case_warnings(GatePolicy(quarantine=held), ["refund"], where="neither run has it")
        ['`quarantine` of the policy lists `refnd`, but neither run has it. Did you mean `refund`?']
    """
    existing = set(known)
    unknown = [
        case_id
        for case_id in dict.fromkeys(entry.case for entry in policy.quarantine)
        if case_id not in existing
    ]
    candidates = sorted(existing) if len(existing) <= _COMPARED else []
    sentences = []
    for case_id in unknown[:_NAMED]:
        nearest = get_close_matches(case_id[:_LONGEST], candidates, n=1)
        guess = f" Did you mean {_code(nearest[0])}?" if nearest else ""
        sentences.append(f"`quarantine` of the policy lists {_code(case_id)}, but {where}.{guess}")
    more = len(unknown) - _NAMED
    return [*sentences, f"The policy lists {more:,} more such ids."] if more > 0 else sentences


def _code(case_id: str) -> str:
    quoted = case_id[:_LONGEST].replace("`", "'")
    return f"`{quoted}`"
