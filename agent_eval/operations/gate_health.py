"""Count what the judges and cases of a gate were worth, from the packs of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.gate.health import GateHealth
from agent_eval.operations.packs import open_to_show, packs_below


def read_health(packs: Sequence[Path]) -> GateHealth:
    """Verify the packs, and count their verdicts.

    Args:
        packs: Packs, archives or directories of packs, of runs of one dataset, each run once.

    Raises:
        InvalidInput, InvalidPack: A pack cannot be read, or does not verify.
        UsageError: Two are the same run, or of different datasets.
    """
    health = GateHealth()
    paths: dict[str, Path] = {}
    dataset_id: str | None = None
    for path in (pack_path for named in packs for pack_path in packs_below(named)):
        pack = open_to_show(path)
        if dataset_id is None:
            dataset_id = pack.manifest.dataset_id
        if pack.manifest.dataset_id != dataset_id:
            raise UsageError(
                f"{path} is of dataset {pack.manifest.dataset_id[:200]!r}, and {packs[0]} of "
                f"{dataset_id[:200]!r}",
                remedy="Give the runs of one dataset.",
                field="packs",
            )
        if (same := paths.setdefault(pack.manifest_sha256, path)) is not path:
            raise UsageError(
                f"{path} and {same} are the same run",
                remedy="Give each run once: counted twice it looks like more evidence than it is.",
                field="packs",
            )
        health.add(pack.results(), pack.index_by_id())
    return health
