"""`--case` and `--shard`: a part of a suite, as a suite."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from agent_eval.engine.division import parse_share, shard_config, take_share
from agent_eval.errors import NothingMeasured
from agent_eval.suites.document import WholeDocument
from agent_eval.suites.reader import SuiteSource


def choose(
    source: SuiteSource, cases: Collection[str], shard: str | None
) -> tuple[SuiteSource, dict[str, Any]]:
    """The part of a suite that was asked for, and what the run's `execution_config` says of it.

    Args:
        source: The suite.
        cases: Ids; all when empty.
        shard: One of several parts of these, such as `3/8`; None for all.

    Raises:
        NothingMeasured: There is no such case, or none in this shard.
        InvalidInput: The suite is not what it must be, or `shard` is no shard.
    """
    chosen: dict[str, Any] = {}
    if cases:
        source, chosen["selected_cases"] = select_cases(source, cases), sorted(set(cases))
    if shard is not None:
        share = parse_share(shard)
        part = take_share(source, share)
        chosen.update(shard_config(share, source, part))
        source = part
    return source, chosen


def select_cases(source: SuiteSource, wanted: Collection[str]) -> SuiteSource:
    """The suite with the wanted cases only, in suite order; path and digest stay those of the file.

    Raises:
        NothingMeasured: The suite has no case of one of these names: leaving it out quietly would
            report on less than was asked for.
        InvalidInput: The suite is not what it must be.
    """
    known: list[str] = []
    selected = []
    for raw, case in source.cases():
        known.append(case.case_id)
        if case.case_id in wanted:
            selected.append(raw)
    missing = sorted(set(wanted) - set(known))
    if missing:
        nearest = get_close_matches(missing[0], known, n=1)
        hint = f"Did you mean {nearest[0]!r}?" if nearest else "Take the case_id from the suite."
        raise NothingMeasured(
            f"{source.path} has no case {missing[0]!r}",
            remedy=hint,
            file=str(source.path),
            case_id=missing[0],
            missing=missing,
        )
    payload = {**source.document.raw_header, "cases": selected}
    return SuiteSource(WholeDocument(source.path, source.digest, payload), source.header)
