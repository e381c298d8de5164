"""Records as files: what is read is what was written, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.errors import InvalidInput
from agent_eval.history.directory import HistoryDirectory
from agent_eval.history.files import (
    MAX_RUNS,
    decode,
    decode_file,
    encode,
    encode_all,
    file_name,
    newest_first,
)
from tests.unit.history.made import made_run

RUNS = [made_run(number, {"refund": (number % 2, 1), "cancel": (1, 1)}) for number in range(3)]


def test_several_records_in_one_file_are_read_as_they_were_written() -> None:
    assert decode(encode_all(RUNS), source="runs.jsonl") == RUNS


def test_the_name_of_a_file_sorts_by_time_and_vouches_for_its_content() -> None:
    names = [file_name(run) for run in RUNS]
    assert names == sorted(names)
    assert decode_file(names[0], encode(RUNS[0]), source="history") == RUNS[0]
    with pytest.raises(InvalidInput, match="its digest differs"):
        decode_file(names[0], encode(RUNS[1]), source="history")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:-1], "the last line is cut off"),
        (lambda data: data[: data.rindex(b"{")], "where it says 2"),
        (lambda data: data.replace(b'"passed":1', b'"passed":7'), "not the record of a case"),
        (lambda data: data.replace(b'"scored":1', b'"scored":true'), "not the record of a case"),
        (lambda data: data.replace(b'"key"', b'"kee"'), "not the first line of a record"),
        (lambda data: data.replace(b'"1.2.0"', b'"9.0.0"'), "version '9.0.0', which cannot be read"),
        (lambda data: data.replace(b"+00:00", b""), "not the first line of a record"),
        (lambda data: b"[]\n" + data, "not the first line of a record"),
        (lambda data: b"\xff\n" + data, "line 1"),
        (lambda data: data.replace(b'"cases":2', b'"cases":1'), "not the first line of a record"),
    ],
)
def test_a_record_that_does_not_parse_is_an_error_and_never_an_empty_history(change, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInput, match=says) as raised:
        decode(change(encode(RUNS[1])), source="runs.jsonl")
    assert raised.value.remedy


def test_histories_are_joined_newest_first_each_run_once() -> None:
    joined = newest_first(RUNS[:2], RUNS[1:])
    assert [run.run.run_id for run in joined] == ["ci-2", "ci-1", "ci-0"]


def test_a_history_has_at_most_a_hundred_runs() -> None:
    joined = newest_first([made_run(number, {"a": (1, 1)}) for number in range(MAX_RUNS + 20)])
    assert len(joined) == MAX_RUNS
    assert joined[-1].run.run_id == "ci-20"


def test_a_history_has_at_most_eight_mebibytes() -> None:
    many = {f"a-case-with-a-longer-name-{number}": (1, 1) for number in range(30_000)}
    joined = newest_first([made_run(number, many) for number in range(4)])
    assert [run.run.run_id for run in joined] == ["ci-3", "ci-2"]


def test_a_directory_has_a_file_for_each_run_that_is_never_changed(tmp_path: Path) -> None:
    history = HistoryDirectory(tmp_path / "history")
    paths = [history.write(run) for run in RUNS]
    before = [path.stat().st_mtime_ns for path in paths]
    assert history.write(RUNS[0]) == paths[0]
    assert [path.stat().st_mtime_ns for path in paths] == before
    assert history.read("shop") == RUNS[::-1]
    assert history.read("other") == []


def test_a_record_that_was_edited_is_refused(tmp_path: Path) -> None:
    history = HistoryDirectory(tmp_path)
    path = history.write(RUNS[0])
    path.write_bytes(path.read_bytes().replace(b'"passed":0', b'"passed":1'))
    with pytest.raises(InvalidInput, match="its digest differs"):
        history.read("shop")


def test_a_record_of_another_dataset_is_refused(tmp_path: Path) -> None:
    history = HistoryDirectory(tmp_path)
    path = history.write(made_run(1, {"a": (1, 1)}, dataset_id="other"))
    (tmp_path / "shop").mkdir()
    path.rename(tmp_path / "shop" / path.name)
    with pytest.raises(InvalidInput, match="is of dataset 'other'"):
        history.read("shop")
