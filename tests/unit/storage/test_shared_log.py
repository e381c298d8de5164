from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.errors import StorageError
from agent_eval.storage.journal import append_at, exclusive


def test_what_counts_is_kept_and_what_follows_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log"
    append_at(path, b"one\n", position=0)
    append_at(path, b"two\n", position=4)
    append_at(path, b"2\n", position=4)
    assert path.read_bytes() == b"one\n2\n"


def test_a_file_shorter_than_what_counts_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"on")
    with pytest.raises(StorageError, match="shorter than it was"):
        append_at(path, b"two", position=4)
    assert path.read_bytes() == b"on"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file"):
        append_at(tmp_path / "file" / "log", b"x", position=0)
    with pytest.raises(StorageError, match="file"), exclusive(tmp_path / "file" / "lock"):
        pass


def test_a_lock_held_elsewhere_is_waited_for_and_then_named(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path / "a.lock"),
        pytest.raises(StorageError, match="locked by another process"),
        exclusive(tmp_path / "a.lock", patience_seconds=0.05),
    ):
        pass
    with exclusive(tmp_path / "a.lock", patience_seconds=0.05):
        pass
