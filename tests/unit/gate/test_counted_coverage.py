"""The coverage that a decision counts never loses a verdict twice, and never more than all of a case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import Coverage, CoverageLoss
from agent_eval.gate.coverage import counted_coverage


def loss(cause: str, judge_id: str | None = None, **cases: float) -> CoverageLoss:
    return CoverageLoss.model_validate({"cause": cause, "judge_id": judge_id, "cases": cases})


def counted(*losses: CoverageLoss, quarantined: str = "", **waived: list[str]) -> dict[str, dict[str, float]]:
    """What is lost of each case, by cause and judge; no waiver names a case."""
    coverage = counted_coverage(
        Coverage(cases=4, losses=list(losses)), lambda *_: False, quarantined=quarantined, waived=waived
    )
    return {f"{row.cause} {row.judge_id or ''}".strip(): row.cases for row in coverage.losses}


def test_a_case_in_quarantine_loses_what_was_left_of_it() -> None:
    gone = [loss("judge-gone", "x", a=0.25, b=0.25), loss("fewer-trials", None, a=0.5)]
    assert counted(*gone, quarantined="ab")["quarantined"] == {"a": 0.25, "b": 0.75}


def test_a_case_of_which_nothing_is_left_is_not_lost_again() -> None:
    gone = loss("removed", None, a=1.0)
    assert list(counted(gone, quarantined="a", a=["policy"])) == ["removed"]


def test_judges_that_a_waiver_excuses_share_what_was_left_of_the_case() -> None:
    gone = loss("judge-gone", "x", a=0.5)
    assert counted(gone, a=["policy", "regex"]) == {
        "judge-gone x": {"a": 0.5},
        "waived policy": {"a": 0.25},
        "waived regex": {"a": 0.25},
    }


def test_what_is_in_quarantine_needs_no_waiver() -> None:
    assert counted(quarantined="a", a=["policy"], b=["policy"]) == {
        "quarantined": {"a": 1.0},
        "waived policy": {"b": 1.0},
    }


def test_what_a_waiver_names_is_not_lost() -> None:
    gone = [loss("removed", None, a=1.0, b=1.0)]
    coverage = counted_coverage(
        Coverage(cases=4, losses=gone), lambda _, case_id: case_id == "a", quarantined=(), waived={}
    )
    assert [row.cases for row in coverage.losses] == [{"b": 1.0}]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), max_size=4),
    st.sets(st.sampled_from("abcd")),
    st.dictionaries(
        st.sampled_from("abcd"), st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)
    ),
)
def test_no_case_is_lost_more_than_whole(
    gone: dict[str, float], quarantined: set[str], waived: dict[str, list[str]]
) -> None:
    rows = counted(loss("judge-gone", "x", **gone), quarantined="".join(sorted(quarantined)), **waived)
    for case_id in "abcd":
        lost = sum(cases.get(case_id, 0.0) for cases in rows.values())
        assert lost <= 1 + 1e-9
        if case_id in quarantined or case_id in waived:
            assert lost == pytest.approx(1.0)
