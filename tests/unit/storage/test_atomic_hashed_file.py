"""Files that are hashed while they are written."""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_eval.storage.atomic import HashedFile, write_unsynced


def test_digest_and_size_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with HashedFile(path) as file:
        file.write(b"one ")
        file.write(b"")
        file.write(b"two")
    assert path.read_bytes() == b"one two"
    assert (file.sha256, file.size) == (hashlib.sha256(b"one two").hexdigest(), 7)


def test_existing_file_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        HashedFile(path)
    assert path.read_text() == "mine"


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    file = HashedFile(tmp_path / "file")
    file.close()
    file.close()
    file.discard()


@pytest.fixture
def tiny_files() -> Iterator[None]:
    """Files may not grow beyond 4 KiB: what a full disk does, without filling one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("tiny_files")
def test_full_disk_shows_when_it_is_closed(tmp_path: Path) -> None:
    file = HashedFile(tmp_path / "file")
    file.write(b"x" * 5000)
    with pytest.raises(OSError, match="too large"):
        file.close()


@pytest.mark.usefixtures("tiny_files")
def test_error_within_the_block_is_not_hidden_by_a_full_disk(tmp_path: Path) -> None:
    def fail() -> None:
        with HashedFile(tmp_path / "file") as file:
            file.write(b"x" * 5000)
            raise KeyError

    with pytest.raises(KeyError):
        fail()


def test_small_file_replaces_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_unsynced(path, b"longer content")
    write_unsynced(path, b"short")
    assert path.read_bytes() == b"short"


def test_small_file_on_a_full_disk_is_an_error() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_unsynced(Path("/dev/full"), b"x")


def test_small_file_is_whole_though_the_system_takes_it_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    write_unsynced(tmp_path / "x", b"all of it")
    assert (tmp_path / "x").read_bytes() == b"all of it"
