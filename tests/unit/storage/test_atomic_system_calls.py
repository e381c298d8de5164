"""Calls that not every system has: done where there are, and said where not."""

from __future__ import annotations

import ctypes
import errno
from pathlib import Path
from typing import Any

import pytest

from agent_eval.storage import atomic as system_calls
from agent_eval.storage.atomic import exchange, sync_file_system


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/x").write_text("1")
    (tmp_path / "other").write_text("2")
    return tmp_path / "one", tmp_path / "other"


def test_two_places_are_swapped_whatever_they_hold(two: tuple[Path, Path]) -> None:
    if not exchange(*two):
        pytest.skip("this system or file system cannot exchange two paths")
    assert (two[1] / "x").read_text() == "1"
    assert two[0].read_text() == "2"


def test_nothing_changes_where_one_of_them_is_missing(two: tuple[Path, Path], tmp_path: Path) -> None:
    assert exchange(two[0], tmp_path / "nothing") is False
    assert (two[0] / "x").read_text() == "1"


def test_a_system_without_a_c_library_has_neither(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert exchange(*two) is False
    assert sync_file_system(two[0]) is False
    assert two[1].read_text() == "2"


def test_an_older_c_library_has_neither(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    assert exchange(*two) is False
    assert sync_file_system(two[0]) is False


def test_a_disk_that_fails_to_sync_is_an_error_that_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(system_calls, "_c_function", lambda _: fail)
    with pytest.raises(OSError, match="put/output") as caught:
        sync_file_system(tmp_path)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path))


def test_syncing_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_file_system(tmp_path / "nothing")
    assert sync_file_system(tmp_path) in (True, False)
