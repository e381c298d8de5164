from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.errors import StorageError
from agent_eval.storage.atomic import append_file


def test_append__adds_to_what_is_there_and_makes_what_is_not(tmp_path: Path) -> None:
    append_file(tmp_path / "log", b"one\n")
    append_file(tmp_path / "log", b"two\n")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_append__that_fails_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        append_file(tmp_path / "nowhere" / "log", b"")
