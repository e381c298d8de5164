"""Rows of packs are checked whichever rows came before them."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.errors import InvalidPack
from agent_eval.evidence.rows import ResultChecker, contradiction, parse_lines
from agent_eval.storage.json import dumps
from tests.factories import make_result
from tests.unit.comparison.views import tried


def row(case_id: str, *, without: tuple[str, ...] = (), **fields: Any) -> bytes:
    result = {**make_result(case_id).to_json(), **fields}
    return dumps({name: value for name, value in result.items() if name not in without}) + b"\n"


OLD = ("case_policy", "trials")
"""Fields that results did not have before cases could have several trials."""


def test_results_of_an_older_version_are_read() -> None:
    checker = ResultChecker("pack")
    assert [case_id for case_id, _ in checker.read_lines(row("a", without=OLD) + row("b"), "v.jsonl")] == [
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
        ResultChecker("pack").read_lines(row("a", without=OLD) + malformed, "v.jsonl")


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
