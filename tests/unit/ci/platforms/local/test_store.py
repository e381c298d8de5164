"""Runs in a directory that several jobs, or somebody's editor, write to."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from agent_eval.ci.earlier import Skipped, Withheld
from agent_eval.ci.platforms.local import Store
from agent_eval.errors import StorageError

FACTS = {"artifact": "evidence", "branch": "main", "commit": None, "created_at": "2026-11-21T08:00:00+00:00"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def keep(store: Store, data: bytes = b"an archive") -> Path:
    """A finished run with this archive; its directory."""
    directory = store.new_run()
    archive = directory.parents[1].parent / "evidence.zip"
    archive.write_bytes(data)
    store.keep(directory, archive, **FACTS)
    return directory


def test_the_newest_run_comes_first_beyond_nine(store: Store) -> None:
    for _ in range(11):
        keep(store)
    assert store.numbers() == list(range(11, 0, -1))


def test_a_run_without_evidence_is_none(store: Store) -> None:
    store.new_run()
    assert store.run(1) is None


def test_other_entries_are_no_runs(store: Store, tmp_path: Path) -> None:
    keep(store)
    for name in ("notes", "007", "-1", "²"):
        (tmp_path / "store" / "runs" / name).mkdir()
    assert store.numbers() == [1]
    assert store.new_run().name == "2"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"size": "10"}, "cannot be read"),
        ({"branch": ["main"]}, "cannot be read"),
        ({"number": 7}, "of another run"),
    ],
)
def test_a_run_wrongly_described_is_passed_over(store: Store, change: dict[str, object], why: str) -> None:
    file = keep(store) / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(Withheld, match=why):
        store.run(1)


def test_an_archive_that_grew_or_is_missing_is_skipped(store: Store) -> None:
    directory = keep(store)
    run = store.run(1)
    assert run is not None
    assert store.evidence(run) == b"an archive"
    (directory / "evidence.zip").write_bytes(b"a longer archive")
    with pytest.raises(Skipped, match="run 1"):
        store.evidence(run)
    (directory / "evidence.zip").unlink()
    with pytest.raises(Skipped, match="run 1"):
        store.evidence(run)


def test_jobs_that_begin_at_once_get_runs_of_their_own(store: Store) -> None:
    names: list[str] = []
    jobs = [threading.Thread(target=lambda: names.append(store.new_run().name)) for _ in range(8)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert sorted(names, key=int) == [str(number) for number in range(1, 9)]


def test_a_store_that_cannot_be_created_is_an_error_of_storage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        Store(tmp_path / "file" / "store").new_run()
