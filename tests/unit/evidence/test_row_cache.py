"""Rows of packs, made when they are asked for: they say what stands in the files, in little memory."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import CaseResult
from agent_eval.evidence import row_cache as alike
from agent_eval.evidence.reader import open_pack
from agent_eval.evidence.row_cache import IndexRow, PieceTable, ResultTable, Rows
from agent_eval.storage.json import dumps
from tests.factories import make_case, make_index_row, make_pack, make_result, make_verdict

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


def test_an_index_row_is_read_like_the_dictionary_it_was_made_from() -> None:
    plain = {**make_index_row(make_case("a", "lookup", "buy")), "added_later": [1]}
    row = IndexRow(dict(plain))
    assert row == plain
    assert dict(row) == plain
    assert len(row) == len(plain)
    assert row["calls"] == plain["calls"]
    assert (row["added_later"], row.get("cost_usd", 3), row.get("unknown", 3)) == ([1], None, 3)
    for name in ("_calls", "__class__", "unknown"):
        with pytest.raises(KeyError):
            row[name]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.text(max_size=4), JSON, st.booleans()), max_size=5))
def test_lines_taken_apart_come_back(rows: list[tuple[str, Any, bool]]) -> None:
    table = PieceTable()
    made = [{"case_id": case_id, "more": more, "of": {"case_id": case_id}} for case_id, more, _ in rows]
    pieces: list[Any] = []
    for row, (case_id, _, odd) in zip(made, rows, strict=True):
        line = json.dumps(row).encode() if odd else dumps(row)
        pieces.append(table.take_apart(case_id, line))
    assert list(Rows(ResultTable([case_id for case_id, _, _ in rows], pieces))) == made


def test_more_pieces_than_are_shared_come_back_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "_SHARED_PIECES", 2)
    table = PieceTable()
    lines = [dumps({"case_id": "a", "n": number % 4}) for number in range(8)]
    found = ResultTable(["a"] * 8, [table.take_apart("a", line) for line in lines])
    assert [dumps(row) for row in Rows(found)] == lines


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
    assert bytes_kept < 2_500 * count  # as dictionaries it is 8 KB
