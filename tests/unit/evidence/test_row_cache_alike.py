"""Lines that differ in the id of their case only: read by likeness, they say what parsing says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import Outcome, case_result
from agent_eval.errors import InvalidPack
from agent_eval.evidence.row_cache import ResultTable, Rows
from agent_eval.evidence.rows import ResultChecker, parse_lines
from agent_eval.evidence.writer import result_row
from agent_eval.storage.json import dumps
from tests.unit.evidence.test_writer import verdict

PATH = "cases/verdicts-00000.jsonl"


def line(
    case_id: str, *outcomes: Outcome, reason: str = "said", evidence: dict[str, Any] | None = None
) -> bytes:
    verdicts = [
        verdict(case_id, f"judge-{number}", outcome, evidence=evidence or {}).model_copy(
            update={"reason": reason}
        )
        for number, outcome in enumerate(outcomes)
    ]
    return dumps(result_row(case_result(case_id, verdicts)))


def plainly(data: bytes) -> tuple[list[Any], Any]:
    checker = ResultChecker("pack")
    rows = parse_lines(data, pack="pack", path=PATH)
    for row in rows:
        checker.check(row, PATH)
    return rows, checker.tally().summary("r", "d")


def by_likeness(*files: bytes) -> tuple[list[Any], Any]:
    checker = ResultChecker("pack")
    found = [kept for data in files for kept in checker.read_lines(data, PATH)]
    kept = ResultTable([case_id for case_id, _ in found], [result for _, result in found])
    return list(Rows(kept)), checker.tally().summary("r", "d")


COMPACT: dict[str, Any] = {"separators": (",", ":")}
SPELLINGS: list[dict[str, Any]] = [
    {**COMPACT, "ensure_ascii": False, "sort_keys": True},  # as packs are written
    {**COMPACT, "sort_keys": True},
    {**COMPACT, "ensure_ascii": False},
    {"sort_keys": True},
]


def spelled(
    case_id: str, outcomes: list[Outcome], evidence: dict[str, Any], quoted: bool, spelling: dict[str, Any]
) -> bytes:
    reason = f'"case_id":"{case_id}"' if quoted else "said"
    row = json.loads(line(case_id, *outcomes, reason=reason, evidence=evidence))
    return json.dumps(row, **spelling).encode()


_lines = st.builds(
    spelled,
    case_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
    | st.sampled_from(["a", "b", 'q"', "\\", "é"]),
    outcomes=st.lists(st.sampled_from(Outcome), max_size=2),
    evidence=st.sampled_from([{}, {"case_id": "a"}, {"case_id": {"case_id": "b"}}]),
    quoted=st.booleans(),
    spelling=st.sampled_from(SPELLINGS),
)


@given(st.lists(st.lists(_lines, max_size=6), max_size=3))
def test_rows_and_counts_are_those_of_parsing(files: list[list[bytes]]) -> None:
    whole = [b"".join(found + b"\n" for found in lines) for lines in files]
    assert by_likeness(*whole) == plainly(b"".join(whole))


def test_rows_of_like_lines_have_their_own_ids() -> None:
    data = b"".join(line(name, Outcome.PASSED, Outcome.FAILED) + b"\n" for name in ("a", "b", "c"))
    rows, summary = by_likeness(data, data.replace(b'"a"', b'"d"'))
    ids = ["a", "b", "c", "d", "b", "c"]
    assert [row["case_id"] for row in rows] == ids
    assert [{found["case_id"] for found in row["verdicts"]} for row in rows] == [{name} for name in ids]
    assert (summary.total_cases, summary.failed_cases) == (6, 6)


def test_id_in_the_evidence_is_not_taken_for_the_id_of_the_case() -> None:
    lines = [line(name, Outcome.PASSED, evidence={"case_id": name}) + b"\n" for name in ("a", "b")]
    rows, _ = by_likeness(*lines)
    assert [row["verdicts"][0]["evidence"] for row in rows] == [{"case_id": "a"}, {"case_id": "b"}]


def test_id_that_is_spelled_in_two_ways_is_not_overlooked() -> None:
    first = line("a", Outcome.PASSED, evidence={"case_id": "A"})
    # The verdict's id is spelled with an escape, and the evidence takes the place of its plain spelling.
    odd = first.replace(b'"case_id":"a"', rb'"case_id":"\u0061"').replace(rb'"\u0061"', b'"a"', 1)
    odd = odd.replace(b'"A"', b'"a"')
    lying = odd.replace(b'"a"', b'"b"')
    rows, _ = by_likeness(odd + b"\n")
    assert rows[0]["verdicts"][0]["case_id"] == "a"
    with pytest.raises(InvalidPack, match="belongs to another case"):
        by_likeness(odd + b"\n", lying + b"\n")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (line("c", Outcome.PASSED)[:-1], "line 3, column"),
        (line("c", Outcome.PASSED).replace(b'"passed":true', b'"passed":false', 1), "case 3 in it"),
        (line("c", Outcome.PASSED).replace(b'"case_id":"c"', b'"case_id":"a"', 1), "case 3 in it"),
        (line("c", Outcome.PASSED).replace(b'"c"', b'"c\xff"'), "line 3, column"),
        (line("c", Outcome.PASSED).replace(b'"c"', b'"\x01"'), "line 3, column"),
        (b"", "line 3, column"),
    ],
    ids=range(6),
)
def test_broken_line_among_like_ones_is_named(broken: bytes, message: str) -> None:
    lines = [line("a", Outcome.PASSED), line("b", Outcome.PASSED), broken, line("d", Outcome.PASSED)]
    with pytest.raises(InvalidPack, match=message):
        by_likeness(lines[0] + b"\n", b"\n".join(lines) + b"\n")


def test_last_line_must_end() -> None:
    with pytest.raises(InvalidPack, match="line feed"):
        by_likeness(line("a", Outcome.PASSED))


def test_more_kinds_of_lines_than_are_remembered_are_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent_eval.evidence.row_cache._REMEMBERED", 2)
    data = b"".join(line(f"c{n}", Outcome.PASSED, reason=f"said {n % 5}") + b"\n" for n in range(20))
    assert by_likeness(data, data) == plainly(data + data)
