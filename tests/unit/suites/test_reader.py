"""Opening suites of every format: what is read, and how what is wrong is said."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.contracts import SHARD_CASES
from agent_eval.errors import InvalidInput, NotEvaluable, StorageError
from agent_eval.suites.reader import _lines, load_suite, open_suite, read_payload
from agent_eval.suites.select import select

HEADER = {"dataset_id": "demo", "metadata": {"schema_version": "1.0.0", "owner": "qa"}}


def event(idx: Any = 0, **more: Any) -> dict[str, Any]:
    return {"idx": idx, "actor": "agent", "type": "message", **more}


def case(case_id: Any = "c1", **more: Any) -> dict[str, Any]:
    return {"case_id": case_id, "input": "hi", "trace": [event()], **more}


def write_lines(path: Path, *lines: Any, end: str = "\n") -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + end for line in lines))
    return path


def write(path: Path, cases: list[Any]) -> Path:
    if path.suffix.lower() == ".jsonl":  # with blank lines
        return write_lines(path, "", HEADER, *cases)
    path.write_text(json.dumps({**HEADER, "cases": cases}, indent=2))  # JSON is YAML
    return path


FORMATS = ["suite.json", "suite.jsonl", "suite.yaml", "suite.yml", "SUITE.JSONL"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_reads_the_same_suite(tmp_path: Path, name: str) -> None:
    raw = [case("a", unknown={"kept": [1]}), case("b", expected="x", regex=["^x"])]
    path = write(tmp_path / name, raw)
    source, whole = open_suite(path), load_suite(path)
    assert (source.case_count, source.header.dataset_id, source.header.version) == (2, "demo", "1.0.0")
    assert source.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [plain for plain, _ in source.cases()] == raw
    assert [(one.case_id, one.expected_output, one.regex_patterns) for one in whole.cases] == [
        ("a", None, []),
        ("b", "x", ["^x"]),
    ]
    assert whole.metadata["owner"] == "qa"
    assert read_payload(path) == {**HEADER, "cases": raw}


def refused(path: Path, match: str | None = None) -> InvalidInput:
    """What is said of a suite that cannot be read."""
    with pytest.raises(InvalidInput, match=match) as caught:
        list(open_suite(path).cases())
    assert caught.value.details["file"] == str(path)
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize("name", FORMATS)
def test_duplicate_id_is_refused_naming_both_places(tmp_path: Path, name: str) -> None:
    error = refused(write(tmp_path / name, [case("a"), case("b"), case("a")]))
    both = "lines 3 and 5" if name.lower().endswith(".jsonl") else "cases[0] and cases[2]"
    assert both in error.message
    assert error.details["case_id"] == "a"
    assert str(tmp_path / name) in error.message


@pytest.mark.parametrize(
    "case_id", ["../../x", "CON", "a/b", "😀", "x" * 300, " ", "\n", "\x00", "-", "."], ids=repr
)
@pytest.mark.parametrize("name", ["s.json", "s.jsonl"])
def test_ids_are_free_text(tmp_path: Path, name: str, case_id: str) -> None:
    assert next(open_suite(write(tmp_path / name, [case(case_id)])).cases())[1].case_id == case_id


@example(ids=["A", "a"])
@given(ids=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), unique=True))
def test_any_unique_ids_are_read_back(tmp_path_factory: pytest.TempPathFactory, ids: list[str]) -> None:
    path = write(tmp_path_factory.mktemp("s") / "s.jsonl", [case(name) for name in ids])
    assert [found.case_id for _, found in open_suite(path).cases()] == ids


WRONG_CASES: list[tuple[Any, str, str]] = [
    ({}, "case_id is missing", "case_id"),
    (case(""), 'case_id must be a non-empty string, not ""', "case_id"),
    (case(7), "case_id must be a string, not 7", "case_id"),
    (3, "it must be an object, not 3", ""),
    (case(trace={}), "trace must be an array, not {}", "trace"),
    (case(trace=[event(True)]), "trace[0].idx must be an integer, not true", "trace[0].idx"),
    (case(trace=[event(), 5]), "trace[1] must be an object, not 5", "trace[1]"),
    (case(trace=[{"idx": 0, "actor": "agent"}]), "trace[0].type is missing", "trace[0].type"),
    (case(trace=[event(latency_ms="1")]), 'trace[0].latency_ms must be a number, not "1"',
     "trace[0].latency_ms"),
    (case(json_schema=1), "json_schema must be an object, true or false, not 1", "json_schema"),
    (case(regex="x"), 'regex must be an array, not "x"', "regex"),
    (case(policy=None), "policy must be an object, not null", "policy"),
    (case(tool_contracts={"a b": {"required": "x"}}),
     'tool_contracts["a b"].required must be an array, not "x"', 'tool_contracts["a b"].required'),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "message", "field"), WRONG_CASES, ids=[name for _, name, _ in WRONG_CASES])
@pytest.mark.parametrize("name", ["s.json", "s.jsonl"])
def test_wrong_case_is_one_clear_error(tmp_path: Path, name: str, raw: Any, message: str, field: str) -> None:
    error = refused(write(tmp_path / name, [case("fine"), raw]))
    assert error.message.endswith(message)
    assert error.details.get("field", "") == field
    assert error.details["position"] == 1
    assert error.details.get("line") == (4 if name == "s.jsonl" else None)
    assert error.exit_code == 2


def test_further_problems_are_counted_and_long_values_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", [case("c", trace=[event("x"), event("y"), event(2.5)])])
    refused(path, r"trace\[0\]\.idx .* \(and 2 more problems in the same place\)")
    path = write(tmp_path / "s.json", [case("x" * 500, trace="y" * 500)])
    assert len(refused(path).message) < 300 + len(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("[]", "must be an object"),
        ("{}", "cases is missing"),
        ('{"dataset_id": "d", "cases": {}}', "cases must be an array, not {}"),
        ('{"dataset_id": "", "cases": []}', "dataset_id must be a non-empty string"),
        ('{"dataset_id": 1, "cases": []}', "dataset_id must be a string, not 1"),
        ('{"cases": []}', "dataset_id is missing"),
        ('{"dataset_id": "d", "metadata": [], "cases": []}', "metadata must be an object, not []"),
        ('{"dataset_id": "d", "schema_version": "9.9.9", "cases": []}', '"9.9.9" is not a version'),
        ('{"dataset_id": "d", "metadata": {"schema_version": 1}, "cases": []}', "1 is not a version"),
        ('{"dataset_id": "d", "schema_version": "1.0.0", "metadata": {"schema_version": "1.1.0"},'
         ' "cases": []}', "contradicts"),
        ('{"dataset_id": "d", "dataset_id": "e", "cases": []}', "duplicate key"),
        ('{"dataset_id": "d", "cases": [NaN]}', "NaN"),
        ('{"dataset_id": "d", "cases": [', "ends before"),
        ('{"dataset_id": "d", "cases": [' + "9" * 5000 + "]}", "64 bit"),
        ('{"dataset_id": "d", "cases": ' + "[" * 200_000, "nested deeper"),
    ],
    ids=range(16),
)  # fmt: skip
def test_wrong_document_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.json").write_text(text)
    error = refused(tmp_path / "s.json")
    assert message in error.message
    assert str(tmp_path / "s.json") in error.message


def nested(depth: int) -> str:
    return '{"case_id": "b", "n": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"case_id": "b", "case_id": "c"}', 'line 3, column 18: duplicate key "case_id"'),
        ('{"case_id": "b", "n": NaN}', "line 3, column 23: NaN is not JSON"),
        (nested(62), "line 3, column 84: nested deeper than 64"),
    ],
)
def test_a_case_that_is_no_strict_json_is_named_with_its_place_in_the_file(
    tmp_path: Path, text: str, message: str
) -> None:
    start = '{"dataset_id": "d", "cases": ['
    path = write_lines(tmp_path / "s.json", start, '{"case_id": "a"},', text, "]}")
    assert message in refused(path).message
    assert load_suite(write_lines(path, start, nested(61), "]}")).cases


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        ((), "empty", None),
        (("", "  "), "empty", None),
        (("{", case()), "ends before", 1),
        ((case(), case("b")), "the first line is a case", 1),
        (({**HEADER, "cases": []}, case()), "must not have cases", 1),
        ((["dataset"], case()), "must be an object", 1),
        (("", HEADER, case(), "", '{"case_id": "x"'), "ends before", 5),
        ((HEADER, case(), "garbage"), "expected a value", 3),
        ((HEADER, '{"case_id": "x", "case_id": "y"}'), "duplicate key", 2),
        ((HEADER, "\x0b"), "", 2),
        ((HEADER, case("a"), '{"case_id": "\\ud800"}'), "surrogate", 3),
    ],
    ids=range(11),
)
def test_wrong_line_is_named(tmp_path: Path, lines: tuple[Any, ...], message: str, line: int | None) -> None:
    error = refused(write_lines(tmp_path / "s.jsonl", *lines))
    assert message in error.message
    assert error.details.get("line") == line


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\n \t\n"], ids=repr)
def test_blank_lines_and_line_endings_do_not_matter(tmp_path: Path, end: str) -> None:
    path = write_lines(tmp_path / "s.jsonl", HEADER, case("a"), case("b"), end=end)
    assert [found.case_id for _, found in open_suite(path).cases()] == ["a", "b"]
    path.write_bytes(path.read_bytes().rstrip())
    assert open_suite(path).case_count == 2, "the last line needs no line feed"


@pytest.mark.parametrize("count", [0, 1, SHARD_CASES - 1, SHARD_CASES, SHARD_CASES + 1, 2 * SHARD_CASES + 7])
@pytest.mark.parametrize("name", ["s.json", "s.jsonl"])
def test_shards_hold_every_case_once_in_order(tmp_path: Path, name: str, count: int) -> None:
    source = open_suite(write(tmp_path / name, [case(f"c{position}") for position in range(count)]))
    assert source.case_count == count
    assert [shard.count for shard in source.shards[:-1]] == [SHARD_CASES] * (len(source.shards) - 1)
    # Read backwards: a shard stands on its own.
    read = {shard.index: [found for found, _ in source.read(shard)] for shard in reversed(source.shards)}
    found = [one for index in sorted(read) for one in read[index]]
    assert [one.raw["case_id"] for one in found] == [f"c{position}" for position in range(count)]
    assert [one.place.position for one in found] == list(range(count))
    assert [one.place.line for one in found] == [
        3 + position if name == "s.jsonl" else None for position in range(count)
    ]


@pytest.mark.parametrize("name", ["s.json", "s.jsonl"])
def test_a_case_read_by_itself_is_the_one_that_its_shard_has(tmp_path: Path, name: str) -> None:
    whole = open_suite(write(tmp_path / name, [case(f"c{position}") for position in range(SHARD_CASES + 7)]))
    wanted = [0, 3, SHARD_CASES - 1, SHARD_CASES, SHARD_CASES + 6]
    for source, positions in ((whole, range(SHARD_CASES + 7)), (select(whole, wanted), wanted)):
        found = list(source.document.read_all())
        assert [source.document.case_at(number) for number in range(len(positions))] == found
        assert source.document.case_at(0) == found[0], "after one of a later shard"


@pytest.mark.parametrize("name", ["s.json", "s.jsonl"])
def test_encoded_case_is_the_same_from_every_format(tmp_path: Path, name: str) -> None:
    source = open_suite(write(tmp_path / name, [{"input": "ü", "case_id": "a", "b": {"z": 1.0, "y": None}}]))
    (found, _) = next(iter(source.read(source.shards[0])))
    assert found.encoded() == '{"b":{"y":null,"z":1.0},"case_id":"a","input":"ü"}'.encode()


def test_an_open_suite_of_lines_keeps_a_few_bytes_of_each_case(tmp_path: Path) -> None:
    count = 20_000
    lines = (f'{{"case_id": "{number}"}}' for number in range(count))
    path = write_lines(tmp_path / "s.jsonl", HEADER, *lines)
    open_suite(path)  # what is made once
    tracemalloc.start()
    try:
        suite = open_suite(path)
        bytes_kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert suite.case_count == count
    assert bytes_kept < 40 * count


def test_suite_that_changes_while_it_is_read_is_not_evaluated(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [case("a")])
    source = open_suite(path)
    write(path, [case("a"), case("b")])
    for read in (lambda: list(source.cases()), lambda: source.document.case_at(0)):
        with pytest.raises(NotEvaluable, match="changed while"):
            read()


@pytest.mark.parametrize("name", ["s.json", "s.jsonl", "s.yaml"])
def test_what_is_no_file_is_named_and_a_pipe_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / name).mkdir()
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / name)
    for place, message in (("", "no such file"), ("directory", "directory|regular file"), ("pipe", "a pipe")):
        with pytest.raises(InvalidInput, match=message):
            open_suite(tmp_path / place / name)


def test_unknown_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "suite.csv"
    path.write_text("a,b")
    with pytest.raises(InvalidInput, match=r"must end in one of \.json, \.jsonl") as caught:
        open_suite(path)
    assert caught.value.remedy


def test_line_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_eval.suites.reader.MAX_LINE_BYTES", 100)
    refused(write(tmp_path / "s.jsonl", [case("x" * 200)]), "longer than 100 bytes")


def test_failing_disk_is_a_storage_error() -> None:
    class BrokenDisk(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(StorageError, match=r"s\.jsonl: Input/output error"):
        list(_lines(io.BufferedReader(BrokenDisk()), Path("s.jsonl")))


@pytest.mark.parametrize(
    ("text", "says"), [("[]", "must be an object"), ('{"dataset_id": "d"}', "cases is missing")]
)
def test_payload_of_something_else_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(InvalidInput, match=says):
        read_payload(tmp_path / "s.json")
