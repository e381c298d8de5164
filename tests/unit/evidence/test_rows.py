"""Rows of packs are checked whichever rows came before them."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.errors import InvalidPack
from agent_eval.evidence.rows import ResultChecker
from agent_eval.storage.json import dumps
from tests.factories import make_result


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
