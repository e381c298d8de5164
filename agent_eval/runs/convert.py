"""`pack verify`, `pack expand`, `pack compact`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent_eval.evidence.convert import compact, expand
from agent_eval.evidence.pack import Pack
from agent_eval.runs.packs import open_run


@dataclass(frozen=True)
class PackFacts:
    """What a verified pack is.

    `left_behind` are files that were written into the pack it was made from after that was sealed.
    """

    path: Path
    pack: Pack
    left_behind: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        manifest, derived = self.pack.manifest, self.pack.derived
        return {
            "pack": str(self.path),
            "run_id": manifest.run_id,
            "dataset_id": manifest.dataset_id,
            "layout": manifest.layout,
            "cases": manifest.case_count,
            "complete": manifest.complete,
            "files": len(manifest.files),
            "derived_files": len(derived.files) if derived is not None else 0,
            "left_behind": list(self.left_behind),
            "manifest_sha256": self.pack.manifest_sha256,
        }


def verify_pack(where: Path) -> PackFacts:
    """Open a pack, or an archive of one, which verifies all of it.

    Raises:
        InvalidInput: There is no pack.
        InvalidPack: It does not verify.
    """
    return PackFacts(where, open_run(where))


def convert_pack(where: Path, out: Path, *, layout: Literal["files", "compact"]) -> PackFacts:
    """Write a pack anew in a layout. Nothing of the run is lost; what was derived later stays behind, as
    `PackFacts.left_behind` says.

    Raises:
        InvalidPack: The source does not verify.
        UsageError: `out` is a directory that is not a pack, or a pack into which something was written later.
        StorageError: It cannot be written.
    """
    pack = open_run(where)
    made = (expand if layout == "files" else compact)(pack, out)
    return PackFacts(out, open_run(out), tuple(made.left_behind))
