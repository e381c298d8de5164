"""Whether a directory may be replaced by a new pack."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from agent_eval.contracts import DerivedManifest, Manifest
from agent_eval.errors import InvalidInput, StorageError, UsageError
from agent_eval.evidence.layout import ATTESTATIONS, CASES, COMPARE, DERIVED, JUDGES, MANIFEST
from agent_eval.storage.json_reader import read_json
from agent_eval.text.plurals import count

_OWN_NAMES = frozenset({MANIFEST, DERIVED, "run", CASES, JUDGES, COMPARE, ATTESTATIONS})


def may_be_replaced(out: Path) -> bool:
    """Whether `out` is a pack that a new one may take the place of; False when nothing is there.

    A pack is ours to replace when it has our manifest and nothing lies in it that no manifest knows.

    Raises:
        UsageError: Something else is there, which nobody asked to lose.
        StorageError: It cannot be looked at.
    """
    try:
        names = set(os.listdir(out))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(
            f"{out} cannot be read: {error.strerror}", remedy="Check its permissions.", file=str(out)
        ) from error
    if not names:
        return False
    try:
        Manifest.model_validate(read_json(out / MANIFEST))
    except (InvalidInput, ValidationError):
        raise UsageError(
            f"{out} is not empty and is not an evidence pack",
            remedy="Choose another directory or empty this one.",
            file=str(out),
        ) from None
    strange = sorted(names - _OWN_NAMES - _derived_names(out))
    if strange:
        raise UsageError(
            f"{out} is an evidence pack, but {strange[0]!r} in it is not part of it",
            remedy="Move it elsewhere, or choose another directory.",
            file=str(out / strange[0]),
        )
    return True


def refuse_to_lose_outputs(out: Path) -> None:
    """Refuse a pack at `out` into which something was written after its run: replacing it would lose that.

    Raises:
        UsageError: There are such files.
    """
    written = _derived_paths(out)
    written += [name for name in (COMPARE, ATTESTATIONS) if not written and (out / name).exists()]
    if written:
        more = f" and {count(len(written) - 1, 'more file')}" if len(written) > 1 else ""
        raise UsageError(
            f"{out} holds what was written into it after its run, which converting would lose: "
            f"{written[0]}{more}",
            remedy="Choose another directory, or move these files elsewhere first.",
            file=str(out / written[0]),
        )


def is_complete_pack(out: Path) -> bool:
    """Whether the pack of a run that came to its end is at `out`."""
    try:
        return Manifest.model_validate(read_json(out / MANIFEST)).complete
    except (InvalidInput, ValidationError):
        return False


def _derived_names(out: Path) -> set[str]:
    """First path components of what was written into the pack after it was sealed."""
    return {path.split("/")[0] for path in _derived_paths(out)}


def _derived_paths(out: Path) -> list[str]:
    try:
        derived = DerivedManifest.model_validate(read_json(out / DERIVED))
    except (InvalidInput, ValidationError):
        return []
    return [entry.path for entry in derived.files]
