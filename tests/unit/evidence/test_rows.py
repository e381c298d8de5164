"""Rows of packs: checked whichever rows came before them, kept in little memory, built when asked for."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import CaseResult
from agent_eval.errors import InvalidPack
from agent_eval.evidence.reader import open_pack
from agent_eval.evidence.rows import ResultChecker, contradiction, parse_lines
from agent_eval.storage.json import dumps, parse
from tests.factories import make_case, make_index_row, make_pack, make_result, make_verdict
from tests.unit.comparison.views import tried


def row(case_id: str, *, without: tuple[str, ...] = (), **fields: Any) -> bytes:
    result = {**make_result(case_id).to_json(), **fields}
    return dumps({name: value for name, value in result.items() if name not in without}) + b"\n"


OLD = ("case_policy", "trials")
"""Fields that results did not have before cases could have several trials."""


def test_results_of_an_older_version_are_read() -> None:
    checker = ResultChecker("pack")
    assert [case_id for case_id, _ in checker.check_lines(row("a", without=OLD) + row("b"), "v.jsonl")] == [
        "a",
        "b",
    ]
    assert checker.tally().cases["passed"] == 2


@pytest.mark.parametrize(
    ("malformed", "problem"),
    [
        (row("b", without=("verdicts",)), "verdicts: Field required"),
        (row("b", without=(*OLD, "outcome")), "outcome: Field required"),
        (row("b", without=OLD, passed="yes"), "passed: Input should be a valid boolean"),
        (row("b", without=OLD[:1], trials=7), "trials: Input should be a valid list"),
        (b"[]\n", "Input should be a valid dictionary"),
        (b"7\n", "Input should be a valid dictionary"),
    ],
)
def test_a_malformed_result_after_one_of_an_older_version_is_refused(malformed: bytes, problem: str) -> None:
    with pytest.raises(InvalidPack, match=problem):
        ResultChecker("pack").check_lines(row("a", without=OLD) + malformed, "v.jsonl")


def decided_by(number: int) -> str | None:
    """The contradiction in a case of three trials, two of them errors, that says that this one decides it."""
    row = tried("a", "error", "error", "passed", policy="any").to_json()
    for result in (row, *row["trials"]):
        result.pop("fault", None)  # which older versions did not write
    row.update(row["trials"][number], trial=number)
    return contradiction(row)  # type: ignore[arg-type]


def test_most_trials_that_are_errors_decide_a_case_or_by_an_older_version_the_policy_does() -> None:
    assert decided_by(0) is None
    # Up to 0.1 the policy decided however many trials were errors.
    assert decided_by(2) is None
    assert decided_by(1) == "trial 1 does not decide it, by any trial 0 does"


def lost_beside(number: int) -> dict[str, Any]:
    """Three trials, two of them lost to the infrastructure, of a case that this one is said to decide."""
    row = tried("a", "lost", "lost", "passed", policy="all").to_json()
    return row | {"fault": None} | row["trials"][number] | {"trial": number}


def test_a_trial_that_is_lost_decides_nothing_while_another_was_scored() -> None:
    assert contradiction(lost_beside(2)) is None  # type: ignore[arg-type]
    assert contradiction(lost_beside(0)) == "trial 0 does not decide it, by all trial 2 does"  # type: ignore[arg-type]


@pytest.mark.parametrize("stated", ["judge", "agent", "environment", "weather"])
def test_a_fault_that_does_not_follow_from_the_verdicts_is_refused(stated: str) -> None:
    lost = tried("a", "lost").to_json() | {"fault": stated}
    with pytest.raises(InvalidPack, match=f"fault '{stated}' does not follow from its verdicts"):
        ResultChecker("pack").check(lost, "v.json")


def test_lines_are_parsed_at_once_or_one_by_one_with_the_same_result() -> None:
    rows = b'{"a":1}\n{"b":[2,{}]}\n{"c":"}\\n{"}\n'
    parsed = [{"a": 1}, {"b": [2, {}]}, {"c": "}\n{"}]
    assert parse_lines(rows, pack="p", path="f") == parsed
    assert parse_lines(rows.replace(b'{"a":1}', b"[1]"), pack="p", path="f") == [[1], *parsed[1:]]
    assert parse_lines(b"", pack="p", path="f") == []
    with pytest.raises(InvalidPack, match="p: f: does not end with a line feed"):
        parse_lines(rows[:-1], pack="p", path="f")
    with pytest.raises(InvalidPack, match="line 12"):
        parse_lines(b'{"a":1}\n{"b":}\n{"c":3}\n', pack="p", path="f", first_line=11)


SOUND = row("c")[:-1]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (SOUND[:-1], "line 3, column"),
        (SOUND.replace(b'"passed":true', b'"passed":false', 1), "case 3 in it"),
        (SOUND.replace(b'"case_id":"c"', b'"case_id":"a"', 1), "case 3 in it: .*belongs to another case"),
        (SOUND.replace(b'"c"', b'"c\xff"'), "line 3, column"),
        (SOUND.replace(b'"c"', b'"\x01"'), "line 3, column"),
        (b"", "line 3, column"),
    ],
    ids=range(6),
)
def test_a_broken_line_is_named(broken: bytes, message: str) -> None:
    data = row("a") + row("b") + broken + b"\n" + row("d")
    with pytest.raises(InvalidPack, match=message):
        ResultChecker("pack").check_lines(data, "verdicts-00000.jsonl")


def test_two_lines_that_are_one_row_beside_one_line_that_is_two_are_kept_as_what_was_checked() -> None:
    """Broken lines, which only together are as many rows as there are lines."""
    first = row("a")[:-2] + b',"more":[{}\n{}]}\n'
    data = first + row("b")[:-1] + b"," + row("c")
    kept = ResultChecker("pack").check_lines(data, "verdicts-00000.jsonl")
    assert [parse(line, source="kept")["case_id"] for _, line in kept] == ["a", "b", "c"]


LAYOUTS = pytest.mark.parametrize("layout", ["files", "compact"])


def told_apart(case_id: str) -> CaseResult:
    """A result whose reason no other case has."""
    result = make_result(case_id)
    verdicts = [make_verdict(case_id, "policy", reason=f"took {case_id} steps"), *result.verdicts]
    verdicts.pop(3)
    return result.model_copy(update={"verdicts": verdicts})


@LAYOUTS
def test_rows_are_those_of_the_files(tmp_path: Path, layout: str) -> None:
    results = [make_result("a"), told_apart("b"), make_result("c"), make_result('d"', failed="regex")]
    cases = [make_case(result.case_id, "lookup", "buy") for result in results]
    pack = open_pack(make_pack(tmp_path / "p", results, cases=cases, layout=layout))
    said = [result.to_json() for result in results]
    assert list(pack.results()) == said
    assert dict(pack.results_by_id()) == {row["case_id"]: row for row in said}
    rows = [make_index_row(case) for case in cases]
    assert list(pack.index()) == rows
    assert {case_id: dict(row) for case_id, row in pack.index_by_id().items()} == {
        row["case_id"]: row for row in rows
    }


def test_rows_are_a_sequence(tmp_path: Path) -> None:
    pack = open_pack(make_pack(tmp_path / "p", [make_result(name) for name in "abcd"]))
    rows = pack.results()
    assert len(rows) == 4
    assert (rows[1]["case_id"], rows[-1]["case_id"]) == ("b", "d")
    assert [row["case_id"] for row in rows[1:3]] == ["b", "c"]
    with pytest.raises(IndexError):
        rows[4]
    assert rows == list(rows) == pack.results()
    assert rows != list(rows)[:3]
    assert rows != 4
    assert repr(rows) == "Rows of 4 cases"


def test_a_row_can_be_changed_and_the_pack_stays(tmp_path: Path) -> None:
    pack = open_pack(make_pack(tmp_path / "p", [make_result("a"), make_result("b")]))
    pack.results()[0]["outcome"] = "failed"
    pack.index()[0]["calls"].clear()
    assert pack.results()[0]["outcome"] == "passed"
    assert pack.index()[0]["calls"]


@LAYOUTS
def test_rows_by_id_are_in_order_and_ids_are_a_set(tmp_path: Path, layout: str) -> None:
    pack = open_pack(make_pack(tmp_path / "p", [make_result(name) for name in "ba"], layout=layout))
    for rows in (pack.results_by_id(), pack.index_by_id()):
        assert list(rows) == ["b", "a"]
        assert len(rows) == 2
        assert "a" in rows
        assert "c" not in rows
        assert rows.keys() == {"a", "b"}
        assert rows.keys() - {"a"} == {"b"}
        with pytest.raises(KeyError):
            rows["c"]


@pytest.mark.parametrize("make", [make_result, told_apart])
def test_a_case_is_kept_in_little_memory(tmp_path: Path, make: Any) -> None:
    count = 600
    root = make_pack(tmp_path / "p", [make(f"case-{number}") for number in range(count)], layout="compact")
    open_pack(root)  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        pack = open_pack(root)
        bytes_kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(pack.results()) == count
    assert bytes_kept < 3_000 * count  # as dictionaries it is 8 KB
