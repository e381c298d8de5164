"""A journal keeps every record that was acknowledged, and says so when it cannot."""

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import InvalidInput, StorageError
from agent_eval.storage.journal import (
    Journal,
    JournalExists,
    JournalInUse,
    RecordsChanged,
    append_at,
    encode,
    exclusive,
    header_lines,
    read_records,
    record_digest,
)

HEADER = {"run": "r"}
RECORDS = [{"n": number} for number in range(30)]


def written(path: Path, *records: Any) -> Path:
    with Journal.create(path, HEADER) as journal:
        for record in records:
            journal.append(record)
    return path


def resumed(path: Path) -> list[Any]:
    journal = Journal.resume(path)
    assert journal is not None
    with journal:
        assert journal.header == HEADER
        return [entry.record for entry in journal.entries()]


def test_records_come_back_in_order_and_a_resumed_journal_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "j"
    assert Journal.resume(path) is None, "nothing is there"
    written(path, {"a": 1}, ["é\n"], None)
    journal = Journal.resume(path)
    assert journal is not None
    with journal:
        offset = journal.append(2)
        assert [*read_records(path, [(offset, None)])] == [2]
    assert resumed(path) == [{"a": 1}, ["é\n"], None, 2]


def test_cut_at_every_byte_it_keeps_exactly_the_whole_records(tmp_path: Path) -> None:
    records = [{"n": number, "text": "x" * number} for number in range(4)]
    whole = written(tmp_path / "j", *records).read_bytes()
    first_header = len(header_lines(HEADER)) // 2  # without the empty line
    starts = [len(header_lines(HEADER))]
    for record in records:
        starts.append(starts[-1] + len(encode(record)))
    for length in range(len(whole) + 1):
        path = tmp_path / "cut"
        path.write_bytes(whole[:length])
        if length < first_header:
            assert Journal.resume(path) is None
            written(path).unlink()  # and a new one may take its place
        else:
            assert resumed(path) == records[: sum(length >= end for end in starts[1:])]


def test_a_changed_bit_costs_one_record_which_is_counted(tmp_path: Path) -> None:
    chance = random.Random(7)
    whole = written(tmp_path / "j", *RECORDS).read_bytes()
    path = tmp_path / "flipped"
    for _ in range(500):
        position = chance.randrange(len(whole))
        flipped = bytes([whole[position] ^ 1 << chance.randrange(8)])
        path.write_bytes(whole[:position] + flipped + whole[position + 1 :])
        journal = Journal.resume(path)
        assert journal is not None
        with journal:
            kept = [entry.record for entry in journal.entries()]
            assert journal.header == HEADER
        lost = [record for record in RECORDS if record not in kept]
        assert kept == [record for record in RECORDS if record not in lost]
        # A changed line feed joins two lines; a new one makes two of one; at the end it cannot be told from a
        # record that a killed writer left incomplete.
        assert len(lost) <= 2
        assert journal.damaged <= 2
        assert journal.damaged or not lost or RECORDS[-1] in lost


def test_without_any_header_nothing_is_gone_on_with(tmp_path: Path) -> None:
    path = written(tmp_path / "j", 1)
    path.write_bytes(b"x" * 20 + path.read_bytes()[20:])
    assert resumed(path) == [1]
    path.write_bytes(b"x" * 50 + path.read_bytes()[50:])
    with pytest.raises(InvalidInput, match="not as it was written"):
        Journal.resume(path)


def test_a_journal_of_an_earlier_version_has_its_header_once_and_bare(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(encode(HEADER) + encode(1))
    assert resumed(path) == [1]
    with pytest.raises(JournalExists):
        Journal.create(path, HEADER)


def test_a_record_that_was_made_anew_with_its_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal.create(path, HEADER) as journal:
        offset = journal.append({"passed": 0})
        path.write_bytes(path.read_bytes().replace(encode({"passed": 0}), encode({"passed": 1})))
        assert [*read_records(path, [(offset, None)])] == [{"passed": 1}]
        with pytest.raises(RecordsChanged, match="changed by another program"):
            list(read_records(path, [(offset, record_digest(encode({"passed": 0})))]))


def test_restored_it_has_the_records_that_were_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal.create(path, HEADER) as journal:
        places = [(journal.append(each), record_digest(encode(each))) for each in RECORDS[:3]]
        path.write_bytes(path.read_bytes().replace(encode({"n": 1}), encode({"n": 7})))
        assert journal.restore(places) == 1
    assert resumed(path) == [{"n": 0}, {"n": 2}]


def forged(path: Path) -> None:
    """Another file takes its place."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data.replace(encode({"n": 0}), encode({"n": 9})))


@pytest.mark.parametrize("remove", [Path.unlink, lambda path: path.rename(path.with_name("moved")), forged])
def test_a_journal_that_is_not_there_any_more_is_written_anew(tmp_path: Path, remove: Any) -> None:
    path = tmp_path / "j"
    with Journal.create(path, HEADER) as journal:
        place = journal.append({"n": 0}), record_digest(encode({"n": 0}))
        before = path.read_bytes()
        remove(path)
        assert journal.restore([place]) == 0
    assert path.read_bytes() == before


def test_a_journal_with_records_is_not_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "j", 1)
    with pytest.raises(JournalExists, match="unfinished run"):
        Journal.create(path, HEADER)
    assert resumed(path) == [1]


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "j", HEADER), pytest.raises(JournalInUse):
        Journal.resume(tmp_path / "j")


def test_reading_elsewhere_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "j", 1)
    with pytest.raises(InvalidInput):
        list(read_records(path, [(3, None)]))
    with pytest.raises((StorageError, InvalidInput)):
        list(read_records(tmp_path / "none", [(0, None)]))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "j").symlink_to(written(tmp_path / "other", 1))
    with pytest.raises(StorageError):
        Journal.resume(tmp_path / "j")


def test_threads_share_it(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "j", HEADER) as journal:
        offsets: dict[int, Any] = {}

        def work(own: int) -> None:
            for number in range(20):
                record = [own, number]
                offsets[journal.append(record)] = record

        threads = [threading.Thread(target=work, args=(own,)) for own in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {entry.offset: entry.record for entry in journal.entries()} == offsets
        assert len(offsets) == 160


def test_a_closed_journal_takes_nothing_and_a_removed_one_is_gone(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "j", {})
    assert journal.is_empty
    journal.append(1)
    assert not journal.is_empty
    journal.close()
    with pytest.raises(StorageError, match="closed"):
        journal.append(2)
    removed = Journal.create(tmp_path / "removed", HEADER)
    removed.remove()
    removed.close()
    assert not (tmp_path / "removed").exists()


# Logs that several processes write in turn.


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
