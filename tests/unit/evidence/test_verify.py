"""Checking the seal of a pack without reading what its files say."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_eval.errors import InvalidPack
from agent_eval.evidence.reader import verify_pack
from agent_eval.storage.files import sha256_file
from tests.unit.evidence.test_writer import case, write_pack

TRAJECTORIES = "cases/trajectories-00000.jsonl"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    write_pack(tmp_path / "pack", "compact", [case("a"), case("b")])
    return tmp_path / "pack"


def test_sealed_pack_names_its_manifest_and_files(pack: Path) -> None:
    seal = verify_pack(pack)
    assert seal.manifest_sha256 == sha256_file(pack / "manifest.json")[0]
    assert TRAJECTORIES in {entry.path for entry in seal.files()}


def test_what_the_files_say_is_not_looked_at(pack: Path) -> None:
    # The summary of this pack counts no cases at all: opening it would refuse it.
    assert verify_pack(pack).manifest.case_count == 2


CHANGES: dict[str, Callable[[Path], object]] = {
    "was changed": lambda pack: (pack / TRAJECTORIES).write_bytes((pack / TRAJECTORIES).read_bytes() + b"\n"),
    "is missing": lambda pack: (pack / TRAJECTORIES).unlink(),
    "was added": lambda pack: (pack / "run/extra.json").write_text("{}"),
    "link": lambda pack: (
        (pack / TRAJECTORIES).rename(pack.parent / "t"),
        os.symlink("/dev/null", pack / TRAJECTORIES),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_change_is_refused(pack: Path, what: str) -> None:
    CHANGES[what](pack)
    with pytest.raises(InvalidPack, match=what):
        verify_pack(pack)
