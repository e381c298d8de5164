"""The manifest that seals an evidence pack."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictInt, StrictStr

from agent_eval.contracts.base import SCHEMA_VERSION, Contract

SHARD_CASES = 250
"""Cases in a file of the compact layout, and what one worker takes at a time."""


class FileEntry(Contract):
    """A regular file: its path relative to the pack (POSIX, sorted), bytes and sha256."""

    path: StrictStr
    size: StrictInt = Field(ge=0)
    sha256: StrictStr = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(Contract):
    """`manifest.json`: the exact set of files of the run part, written last.

    `case_directories` maps a case id to its directory below `cases/` (files layout only).
    """

    schema_version: StrictStr = SCHEMA_VERSION
    kind: Literal["run"] = "run"
    layout: Literal["files", "compact"]
    run_id: StrictStr
    dataset_id: StrictStr
    complete: bool = True
    case_count: StrictInt = Field(ge=0)
    case_directories: dict[str, str] = Field(default_factory=dict)
    files: list[FileEntry]


class DerivedManifest(Contract):
    """`derived.json`: what was written into a pack after it was sealed.

    `run_manifest_sha256` is the sha256 of the bytes of `manifest.json`, so a derived part cannot be
    moved to another run.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    kind: Literal["derived"] = "derived"
    run_manifest_sha256: StrictStr = Field(pattern=r"^[0-9a-f]{64}$")
    files: list[FileEntry]
