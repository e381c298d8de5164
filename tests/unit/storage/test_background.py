"""Records are written in the background: each is told of once it is on disk, and a full disk is told of."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import StorageError
from agent_eval.storage import journal as journals
from agent_eval.storage.background import BackgroundWriter
from agent_eval.storage.journal import Journal, JournalReader, encode


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    with Journal.create(tmp_path / "j", {}) as found:
        yield found


def test_what_was_handed_over_is_on_disk_when_it_is_told_and_all_of_it_when_the_block_ends(
    journal: Journal,
) -> None:
    kept: dict[int, int] = {}

    def keep(item: int, offset: int) -> None:
        with JournalReader(journal.path) as reader:
            assert reader.read(offset) == [item]
        kept[item] = offset

    def bring(own: int) -> None:
        for number in range(30):
            item = own * 30 + number
            writer.put(item, encode([item]))

    with BackgroundWriter(journal, keep) as writer:
        threads = [threading.Thread(target=bring, args=(own,)) for own in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(kept) == list(range(240))
    assert {entry.offset for entry in journal.entries()} == set(kept.values())


def test_records_that_wait_share_a_sync(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    gate = threading.Event()
    sync = journals._sync

    def slow_sync(descriptor: int) -> None:
        gate.wait(30)
        syncs.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(journals, "_sync", slow_sync)
    kept: list[int] = []
    with BackgroundWriter(journal, lambda item, _: kept.append(item)) as writer:
        for number in range(50):
            writer.put(number, encode(number))
        assert kept == []
        gate.set()
    assert kept == list(range(50))
    assert len(syncs) <= 3


@pytest.mark.parametrize("ended_by", ["closing", "too much"])
def test_what_follows_at_once_is_gathered(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    monkeypatch.setattr(BackgroundWriter, "SECONDS_APART", 3600.0)
    if ended_by == "too much":
        monkeypatch.setattr(BackgroundWriter, "MOST_WAITING_BYTES", len(encode([1]) + encode([2])))
    first, second = threading.Event(), threading.Event()
    kept: list[int] = []

    def keep(item: int, _: int) -> None:
        kept.append(item)
        (second if kept[2:] else first).set()

    with BackgroundWriter(journal, keep) as writer:
        writer.put(0, encode([0]))
        assert first.wait(30)
        writer.put(1, encode([1]))
        assert kept == [0]
        writer.put(2, encode([2]))
        if ended_by == "too much":
            assert second.wait(30)
    assert kept == [0, 1, 2]


def test_whoever_brings_too_much_waits(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BackgroundWriter, "MOST_WAITING_BYTES", 100)
    gate = threading.Event()
    sync = journals._sync
    monkeypatch.setattr(journals, "_sync", lambda descriptor: (gate.wait(30), sync(descriptor)))
    brought: list[int] = []
    with BackgroundWriter(journal, lambda _, __: None) as writer:

        def bring() -> None:
            for number in range(20):
                writer.put(number, encode("x" * 60))
                brought.append(number)

        thread = threading.Thread(target=bring)
        thread.start()
        thread.join(0.3)
        assert len(brought) <= 4
        gate.set()
        thread.join()
    assert len(list(journal.entries())) == 20


def test_a_disk_that_is_full_is_told_to_everybody(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def write() -> None:
        with BackgroundWriter(journal, lambda _, __: pytest.fail("it counts")) as writer:
            writer.put(1, encode(1))
            while True:
                writer.check()

    monkeypatch.setattr(journals, "_sync", full)
    with pytest.raises(StorageError, match="No space left"):
        write()
    with pytest.raises(StorageError, match="No space left"):
        journal.append(2)
    assert list(journal.entries()) == []


def test_what_was_raised_first_is_raised(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def write() -> None:
        with BackgroundWriter(journal, lambda _, __: None) as writer:
            writer.put(1, encode(1))
            raise LookupError

    monkeypatch.setattr(journals, "_sync", full)
    with pytest.raises(LookupError):
        write()


def test_closed_it_takes_nothing(journal: Journal) -> None:
    with BackgroundWriter(journal, lambda _, __: None) as writer:
        pass
    with pytest.raises(ValueError, match="closed"):
        writer.put(1, encode(1))
    assert list(journal.entries()) == []


def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "j", {})
    assert journal.is_empty
    journal.append(1)
    assert not journal.is_empty
    journal.close()
    with pytest.raises(StorageError, match="closed"):
        journal.append(2)
