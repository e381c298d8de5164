"""Whether an id stands twice in a suite, without keeping the ids."""

from __future__ import annotations

from array import array
from itertools import pairwise

from agent_eval.contracts import SHARD_CASES
from agent_eval.suites.cases import RawCase, duplicate_problem
from agent_eval.suites.reader import SuiteSource


def refuse_duplicates(suite: SuiteSource, ids: array[int]) -> None:
    """Refuse the first case whose id stood before.

    Args:
        suite: The suite.
        ids: `id_hash` of its cases in suite order, from the first one on.

    Raises:
        InvalidInput: Names both places.
    """
    ordered = sorted(ids)
    if all(one != other for one, other in pairwise(ordered)):
        return
    seen: dict[int, list[int]] = {}
    for position, hashed in enumerate(ids):
        alike = seen.setdefault(hashed, [])
        for first in alike:
            _refuse_if_equal(suite, first, position)
        alike.append(position)


def _refuse_if_equal(suite: SuiteSource, first: int, second: int) -> None:
    """Hashes may collide by accident; ids decide."""
    one, other = _case_at(suite, first), _case_at(suite, second)
    case_id = other.raw["case_id"]
    if one.raw["case_id"] == case_id:
        raise duplicate_problem(case_id, one.place, other.place).to_error(str(suite.path))


def _case_at(suite: SuiteSource, position: int) -> RawCase:
    shard = suite.shards[position // SHARD_CASES]
    return next(found for found in suite.document.read(shard) if found.place.position == position)
