"""Private files: only their owner reads them, and none is overwritten."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent_eval.errors import StorageError, UsageError
from agent_eval.storage.atomic import write_private


def test_only_the_owner_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "keys" / "key.pem", b"secret")
    finally:
        os.umask(before)
    path = tmp_path / "keys" / "key.pem"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"secret"


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_what_is_there_stays(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "key.pem", tmp_path / "target"
    if kind != "dangling link":
        target.write_bytes(b"old")
    path.symlink_to(target) if "link" in kind else target.rename(path)
    with pytest.raises(UsageError, match="is not overwritten"):
        write_private(path, b"new")
    assert not target.exists() if kind != "link" else target.read_bytes() == b"old"


def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="No space left"):
        write_private(tmp_path / "key.pem", b"secret")
    assert os.listdir(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot write"):
        write_private(tmp_path / "file" / "key.pem", b"secret")
