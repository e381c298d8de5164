from __future__ import annotations

from math import isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts.trials import StabilityReport, case_policy, pass_curve
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.gate.statistics import wilson
from agent_eval.operations.stability import runs_to_see_flake, stability


def report(trials: dict[str, str], **options: Any) -> StabilityReport:
    """`report({"a": "ppf"})`: p passed, f failed, h hard-failed, - nothing to judge."""
    letters = {"p": ("passed", False), "f": ("failed", False), "h": ("failed", True), "-": ("skipped", False)}
    outcomes = {case_id: [letters[one] for one in said] for case_id, said in trials.items()}
    return stability(outcomes, dataset_id="shop", execution_mode="trace_score", **options)


def test_mixed_results_are_flaky_and_steady_failure_is_a_defect() -> None:
    found = report({"mixed": "pfph", "steady": "pppp", "broken": "ffff"})
    assert found.flaky_case_ids == found.quarantine_recommended_case_ids == ["mixed"]
    assert found.consistently_failing_case_ids == ["broken"]
    rows = {case.case_id: case for case in found.case_stability}
    mixed = rows["mixed"]
    assert (mixed.pass_count, mixed.hard_fail_count, mixed.pass_rate) == (2, 1, 0.5)
    assert mixed.flake_score == pytest.approx(2 / 3)
    assert mixed.reason == "Passed 2 of 4 runs, below 0.98: quarantine it until it is steady."
    assert rows["broken"].reason == "Failed all 4 runs: a defect, not a flake."
    assert rows["steady"].reason == "Passed all 4 runs; 59 runs would rule out a flake of 5%."
    assert rows["steady"].minimum_runs == 59
    assert rows["steady"].confidence_95.low < 0.52


def test_a_run_without_anything_to_judge_is_no_flake_and_no_failure() -> None:
    found = report({"a": "p-p-", "b": "--f-", "c": "p---"})
    assert (found.flaky_case_ids, found.consistently_failing_case_ids) == ([], ["b"])
    assert [(case.pass_count, case.runs) for case in found.case_stability] == [(2, 2), (0, 1), (1, 1)]
    assert (found.runs, [run.cases for run in found.run_results]) == (4, [2, 3, 2, 3])


def test_a_flaky_case_is_quarantined_below_the_limit() -> None:
    found = report({"a": "p" * 99 + "f", "at": "p" * 49 + "f", "below": "p" * 48 + "f"})
    assert (found.flaky_case_ids, found.quarantine_recommended_case_ids) == (["a", "at", "below"], ["below"])
    assert "no less than 0.98" in found.case_stability[0].reason
    # The runs that one needs follow from its rarer result.
    rows = report({"a": "pppf", "b": "pfff"}).case_stability
    assert [case.minimum_runs for case in rows] == [runs_to_see_flake(0.25)] * 2


def test_runs_are_counted_one_by_one() -> None:
    found = report({"a": "pf", "b": "ph"}, judge_names=("policy", "regex"))
    of = (found.dataset_id, found.execution_mode, found.judge_names)
    assert of == ("shop", "trace_score", ["policy", "regex"])
    assert [(run.pass_rate, run.hard_fail_cases) for run in found.run_results] == [(1.0, 0), (0.0, 1)]
    assert found.summary.pass_rate_stddev == 0.5
    assert found.summary.avg_pass_rate == 0.5


@pytest.mark.parametrize("trials", [{}, {"a": "p"}, {"a": "pp", "b": ""}])
def test_one_run_says_nothing_about_stability(trials: dict[str, str]) -> None:
    with pytest.raises(NothingMeasured, match="at least two runs") as refused:
        report(trials)
    lacking = next((case for case in trials if len(trials[case]) < 2), None)
    assert refused.value.details.get("case_id") == lacking


@given(st.dictionaries(st.text(min_size=1), st.text("pf", min_size=2, max_size=6), min_size=1, max_size=6))
def test_the_flake_score_is_the_share_of_disagreeing_pairs_of_runs(trials: dict[str, str]) -> None:
    for case in report(trials).case_stability:
        said = trials[case.case_id]
        pairs = [(one, other) for place, one in enumerate(said) for other in said[place + 1 :]]
        assert isclose(case.flake_score, sum(one != other for one, other in pairs) / len(pairs))
        assert case.flaky == (len(set(said)) > 1)
        assert case.confidence_95.low <= case.pass_rate <= case.confidence_95.high


@pytest.mark.parametrize(
    ("policy", "trials", "fewest"),
    [
        ("all", 4, 4), ("any", 4, 1), ("majority", 4, 3), ("pass_rate>=0.5", 4, 2),
        (" pass_rate >= 0.75 ", 4, 3), ("pass_rate>=0", 4, 1), ("pass_rate>=1", 4, 4),
        ("pass_rate>=0.7", 10, 7), ("pass_rate>=0.1", 10, 1), ("pass_rate>=0.700000001", 10, 8),
    ],
)  # fmt: skip
def test_a_case_policy_says_how_many_trials_must_pass(policy: str, trials: int, fewest: int) -> None:
    read = case_policy(policy)
    passing = [passed for passed in range(trials + 1) if read.passes(passed, trials)]
    assert passing == [*range(fewest, trials + 1)]
    assert not read.passes(0, 0)
    assert case_policy(read.text) == read


UNKNOWN = ("", "most", "x" * 999, *(f"pass_rate{share}" for share in (">=1.1", ">=nan", ">=", ">0.5")))


@pytest.mark.parametrize("policy", UNKNOWN)
def test_an_unknown_case_policy_is_refused(policy: str) -> None:
    with pytest.raises(InvalidInput, match="no case policy"):
        case_policy(policy)


def test_the_curve_goes_as_far_as_every_case_has_trials() -> None:
    curve = pass_curve([(2, 2, 1), (1, 3, 1)])
    assert [point.k for point in curve] == [1, 2]
    assert curve[0].pass_hat_k == curve[0].pass_at_k == pytest.approx((1 + 1 / 3) / 2)
    assert curve[1].pass_hat_k == 0.5
    assert curve[1].pass_at_k == pytest.approx((1 + 2 / 3) / 2)
    assert pass_curve([]) == []


# The interval that it states.


def test_published_and_hand_computed_values() -> None:
    assert (runs_to_see_flake(0.05), runs_to_see_flake(0.01)) == (59, 299)
    assert report({"a": "p" * 59}).case_stability[0].reason == "Passed all 59 runs."
    assert report({"a": "p" * 58}).case_stability[0].reason.endswith("59 runs would rule out a flake of 5%.")
    found = wilson(8, 10)
    assert (found.low, found.high) == (pytest.approx(0.4901625), pytest.approx(0.9433178))


def test_wilson_ends_at_none_and_all_exactly() -> None:
    for total in range(1, 60):
        assert wilson(0, total).low == 0.0
        assert wilson(total, total).high == 1.0
        assert 0 < wilson(1, total + 1).low < wilson(1, total + 1).high < 1


@given(st.integers(0, 60), st.integers(0, 60))
def test_wilson_contains_the_share_and_mirrors(successes: int, failures: int) -> None:
    total = successes + failures
    found = wilson(successes, total)
    assert 0 <= found.low <= found.high <= 1
    if total:
        assert found.low <= successes / total <= found.high
    mirrored = wilson(failures, total)
    assert isclose(found.low, 1 - mirrored.high, abs_tol=1e-12)
