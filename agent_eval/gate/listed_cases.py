"""Find ids that a policy lists and no run has: a misspelt case goes on blocking without a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from agent_eval.contracts.policy import GatePolicy

_NAMED = 5
_LONGEST = 200
_COMPARED = 10_000
"""Ids that a suggestion is looked for among; the search takes a second for some 50,000."""


def unknown_case_warnings(policy: GatePolicy, known: Iterable[str], *, where: str) -> list[str]:
    """Warn of every case that a policy lists and that does not exist, with the nearest id that does.

    Args:
        policy: Its `tracked`, `expected_fail` and `quarantine` are looked at.
        known: Ids of the cases of the runs.
        where: What has no such case, as the end of a sentence: "neither run has it".

    Returns:
        A sentence for each of the first five, with ids in backticks, and one for the others.

    Example:
        >>> unknown_case_warnings(GatePolicy(tracked=["refnd"]), ["refund"], where="neither run has it")
        ['`tracked` of the policy lists `refnd`, but neither run has it. Did you mean `refund`?']
    """
    existing = set(known)
    unknown = [(key, case_id) for key, case_id in _listed(policy) if case_id not in existing]
    candidates = sorted(existing) if len(existing) <= _COMPARED else []
    sentences = []
    for key, case_id in unknown[:_NAMED]:
        nearest = get_close_matches(case_id[:_LONGEST], candidates, n=1)
        guess = f" Did you mean {_code(nearest[0])}?" if nearest else ""
        sentences.append(f"`{key}` of the policy lists {_code(case_id)}, but {where}.{guess}")
    more = len(unknown) - _NAMED
    return [*sentences, f"The policy lists {more:,} more such ids."] if more > 0 else sentences


def _listed(policy: GatePolicy) -> Iterator[tuple[str, str]]:
    """Yield every key and id once, in the order of the policy."""
    lists = {
        "tracked": policy.tracked,
        "expected_fail": policy.expected_fail,
        "quarantine": [entry.case_id for entry in policy.quarantine],
    }
    for key, case_ids in lists.items():
        for case_id in dict.fromkeys(case_ids):
            yield key, case_id


def _code(case_id: str) -> str:
    quoted = case_id[:_LONGEST].replace("`", "'")
    return f"`{quoted}`"
