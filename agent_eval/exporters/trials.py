"""The trials of a pack's cases, which every exporter writes, and the shard that the pack holds."""

from __future__ import annotations

from agent_eval.contracts.verdict import CaseResultRow, TrialResultRow
from agent_eval.evidence.reader import Pack


def trials_of(case: CaseResultRow) -> list[tuple[int, TrialResultRow]]:
    """List the trials of a case in order, with their numbers; the case itself where it has one trial."""
    trials = case.get("trials")
    return list(enumerate(trials)) if trials else [(case["trial"], case)]


def shard_name(pack: Pack) -> str | None:
    """Name the part of the suite that the pack holds, such as `3/8`; None if it holds all of it."""
    shard = pack.config.execution_config.shard
    if shard is None:
        return None
    return str(shard.number) if shard.count is None else f"{shard.number}/{shard.count}"
