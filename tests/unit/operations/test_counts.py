"""What is counted of a baseline whose cases the change defines, judges or names otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.evidence.reader import open_pack
from agent_eval.gate.procedure import Counts
from agent_eval.history.records import record_of
from agent_eval.operations.judged_twice import counts_of
from tests.unit.operations.test_judged_twice import answer, judged


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def counted() -> Counts:
    before, now = open_pack(Path("before")), open_pack(Path("now"))
    main = record_of(before)
    return counts_of(now, before, main=[main], newest=main)


def test_a_case_that_expects_something_else_counts_as_it_is_judged_now() -> None:
    judged("before", answer("a", "done", "."), answer("b", "done", "."))
    judged("now", answer("a", "done", "perfect"), answer("b", "done", "."))
    counts = counted()
    assert counts.baseline is not None
    assert (counts.baseline.cases["a"].passed, counts.baseline.cases["b"].passed) == (0, 1)
    assert counts.baseline.cases["a"].definition == counts.own.cases["a"].definition
    assert counts.main[0].cases["a"].passed == 1


def test_an_added_judge_counts_in_the_baseline_too() -> None:
    rules = {"policy": {"forbidden_tools": ["lookup"]}}
    judged("before", answer("a", "done", "done", **rules))
    judged("now", answer("a", "done", "done", **rules), judges=("regex", "policy"))
    counts = counted()
    assert counts.baseline is not None
    assert counts.baseline.cases["a"].failing == {"policy": 1}


def test_a_renamed_case_keeps_its_history() -> None:
    asks = {"input": "Refund order 7."}
    judged("before", answer("old", "done", "done", **asks), answer("b", "done", "done"))
    judged("now", answer("new", "sorry", "done", **asks), answer("b", "done", "done"))
    counts = counted()
    for run in (counts.baseline, counts.main[0], counts.newest):
        assert run is not None
        assert (sorted(run.cases), run.cases["new"].passed) == (["b", "new"], 1)
        assert run.cases["new"].definition == counts.own.cases["new"].definition


def test_two_cases_that_ask_the_same_are_matched_with_none() -> None:
    asks = {"input": "Refund order 7."}
    judged("before", answer("one", "done", "done", **asks), answer("two", "done", "done", **asks))
    judged("now", answer("three", "done", "done", **asks), answer("four", "done", "done", **asks))
    counts = counted()
    assert counts.baseline is not None
    assert sorted(counts.baseline.cases) == ["one", "two"]
