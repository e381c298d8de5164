"""Opening what a person names as a run: an evidence pack, or an archive that holds one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from agent_eval.comparison.facts import RunView
from agent_eval.contracts import Comparison, Contract, GateDecision
from agent_eval.errors import InvalidInput, InvalidPack
from agent_eval.evidence import layout
from agent_eval.evidence.archive import compact, expand
from agent_eval.evidence.derived import enclosing_pack
from agent_eval.evidence.reader import Pack, open_pack, refuse_incomplete, verify_pack
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.json import DEFAULT_LIMITS, parse


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
    from agent_eval.evidence.archive import open_bundle  # archives are the exception

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


def pack_facts(where: Path) -> PackFacts:
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


AnyContract = TypeVar("AnyContract", bound=Contract)


@dataclass(frozen=True)
class ReadComparison:
    """A comparison and the digest of the bytes it was read from."""

    comparison: Comparison
    sha256: str


def read_comparison(path: Path) -> ReadComparison:
    """A comparison; where it lies in a pack, the pack is verified and must be its candidate.

    Raises:
        InvalidInput: It cannot be read, or it is not a comparison.
        InvalidPack: The pack does not verify, is not complete, or is not the candidate that was compared.
    """
    data = read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes)
    comparison = _model(Comparison, data, path, "a comparison; `agent-eval compare` writes one")
    sha256 = sha256_bytes(data)
    pack = _pack_around(path)
    if pack is not None:
        # What the pack says was checked when it was compared; that comparison names its manifest.
        seal = verify_pack(pack)
        refuse_incomplete(str(pack), seal.manifest)
        if seal.manifest_sha256 != comparison.candidate.manifest_sha256:
            raise InvalidPack(
                f"{path} compares another run than the one in whose pack it lies",
                remedy=f"Run `agent-eval compare` again with --candidate {pack}.",
                file=str(path),
            )
        if sha256 not in {entry.sha256 for entry in seal.files()}:
            raise InvalidPack(
                f"{path} changed while it was read", remedy="Run the command again.", file=str(path)
            )
    return ReadComparison(comparison, sha256)


def _pack_around(path: Path) -> Path | None:
    """The pack in which a file lies; also what must have been one before its manifest was lost."""
    pack = enclosing_pack(path)
    if pack is not None or path.parent.name != layout.COMPARE:
        return pack
    above = path.absolute().parent.parent
    remains = (layout.MANIFEST, layout.DERIVED, layout.CONFIG, layout.CASES)
    return above if any(os.path.lexists(above / name) for name in remains) else None


def read_decision(path: Path, made_on: ReadComparison) -> GateDecision:
    """A decision, which must have been made on this very comparison.

    Raises:
        InvalidInput: It cannot be read, is not a decision, or belongs to another comparison.
    """
    data = read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes)
    decision = _model(GateDecision, data, path, "a gate decision; `agent-eval gate` writes one")
    if decision.comparison_sha256 not in (None, made_on.sha256):
        raise InvalidInput(
            f"{path} was decided on another comparison than the one given",
            remedy="Run `agent-eval gate` again on this comparison.",
            file=str(path),
        )
    return decision


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object whose fields only a report shows.

    Raises:
        InvalidInput: It cannot be read, or it is not an object.
    """
    value = parse(read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes), source=str(path))
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} must hold a JSON object", remedy="Name another file.", file=str(path))
    return value


def _model(kind: type[AnyContract], data: bytes, path: Path, what: str) -> AnyContract:
    value = parse(data, source=str(path))
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "the whole file"
        raise InvalidInput(
            f"{path} is not {what}: {place}: {first['msg']}",
            remedy="Name the right file, or make it again.",
            file=str(path),
            field=place,
        ) from None
