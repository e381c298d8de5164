"""Opening what a person names as a run: an evidence pack, or an archive that holds one."""

from __future__ import annotations

from pathlib import Path

from agent_eval.comparison.view import RunView
from agent_eval.errors import InvalidInput
from agent_eval.evidence.pack import Pack, open_pack, refuse_incomplete


def open_run(where: Path) -> Pack:
    """Open and verify a pack.

    Args:
        where: The pack's directory, or a zip archive with exactly one pack in it.

    Raises:
        InvalidInput: There is nothing, or the archive holds several packs.
        InvalidPack: It does not verify.
    """
    if not where.is_file():
        return open_pack(where)
    from agent_eval.evidence.bundle import open_bundle  # archives are the exception

    packs = open_bundle(where)
    if len(packs) != 1:
        raise InvalidInput(
            f"{where} holds {len(packs)} evidence packs: {', '.join(sorted(packs))[:200]}",
            remedy="Unpack it and name the directory of one of them.",
            file=str(where),
        )
    return next(iter(packs.values()))


def view(pack: Pack) -> RunView:
    """What comparison reads of a pack.

    Raises:
        InvalidPack: Its run is not complete.
    """
    refuse_incomplete(pack.name, pack.manifest)
    return RunView(
        config=pack.config,
        summary=pack.summary,
        manifest_sha256=pack.manifest_sha256,
        index=pack.index_by_id(),
        results=pack.results_by_id(),
    )
