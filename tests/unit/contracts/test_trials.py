"""Several trials of a case: what they amount to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import CaseResult, Outcome, Tally, TrialResult, case_policy, trials_result
from agent_eval.contracts import with_verdicts as judged_again
from agent_eval.contracts.trials import ALL
from tests.factories import DEFAULT_JUDGES, make_result, summarize

OUTCOMES: dict[str, dict[str, str | tuple[str, ...]]] = {
    "passed": {},
    "failed": {"failed": "policy"},
    "error": {"error": "policy"},
    "skipped": {"skipped": DEFAULT_JUDGES},
}
POLICIES = ("all", "any", "majority", "pass_rate>=0.75")
SEVERAL = st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=2, max_size=8)


def results(*outcomes: str) -> list[CaseResult]:
    return [make_result("a", **OUTCOMES[outcome]) for outcome in outcomes]


@pytest.mark.parametrize(
    ("policy", "outcomes", "outcome", "trial"),
    [
        ("all", ["passed", "passed"], "passed", 0),
        ("all", ["passed", "failed"], "failed", 1),
        ("all", ["failed", "error"], "error", 1),
        ("any", ["failed", "passed"], "passed", 1),
        ("any", ["failed", "failed"], "failed", 0),
        ("any", ["error", "passed", "error", "error"], "error", 0),
        ("majority", ["passed", "failed"], "failed", 1),
        ("majority", ["failed", "passed", "passed"], "passed", 1),
        ("pass_rate>=0.5", ["passed", "failed"], "passed", 0),
        ("pass_rate>=0.75", ["passed", "failed"], "failed", 1),
        ("pass_rate >= 0", ["failed", "error"], "error", 1),
        ("pass_rate>=0.25", ["error", "passed", "error", "error"], "error", 0),
    ],
)
def test_the_deciding_trial_speaks_for_the_case(
    policy: str, outcomes: list[str], outcome: str, trial: int
) -> None:
    trials = results(*outcomes)
    found = trials_result(trials, case_policy(policy))
    assert (found.outcome, found.trial) == (outcome, trial)
    assert found.verdicts == found.trials[trial].verdicts
    assert found.case_policy == policy.replace(" ", "")
    for name in TrialResult.model_fields:
        assert [getattr(one, name) for one in found.trials] == [getattr(one, name) for one in trials], name


def test_other_verdicts_change_what_follows_from_them_and_nothing_else() -> None:
    failed, passed = (one.model_copy(update={"trial": 3}) for one in results("failed", "passed"))
    assert judged_again(failed, passed.verdicts) == passed


def test_a_single_trial_is_the_result_as_it_stands() -> None:
    [one] = results("failed")
    assert trials_result([one], ALL) is one
    assert (one.trials, one.case_policy) == ([], None)


@pytest.mark.parametrize("judge", ["prompt_injection", "tool_abuse"])
def test_one_leak_is_not_outvoted(judge: str) -> None:
    trials = [make_result("a", judges=(judge,)) for _ in range(9)]
    trials[4] = make_result("a", judges=(judge,), failed=judge)
    found = trials_result(trials, case_policy("any"))
    assert (found.outcome, found.trial) == (Outcome.FAILED, 4)


@given(SEVERAL, st.sampled_from(POLICIES))
def test_a_case_passes_exactly_when_its_policy_says_so(outcomes: list[str], policy: str) -> None:
    found = trials_result(results(*outcomes), case_policy(policy))
    judged = [outcome for outcome in outcomes if outcome != "skipped"] or outcomes
    most_are_errors = judged.count("error") * 2 > len(judged)
    passes = case_policy(policy).passes(judged.count("passed"), len(judged))
    assert found.passed == (passes and not most_are_errors) == (found.outcome is Outcome.PASSED)


@given(SEVERAL, st.lists(st.integers(0, 6), max_size=4), st.sampled_from(POLICIES))
def test_trials_without_anything_to_judge_change_nothing_beside_judged_ones(
    outcomes: list[str], places: list[int], policy: str
) -> None:
    judged = [outcome for outcome in outcomes if outcome != "skipped"] or ["passed"]
    among = list(judged)
    for place in places:
        among.insert(place, "skipped")
    alone, beside = (trials_result(results(*one), case_policy(policy)) for one in (judged, among))
    assert (beside.outcome, beside.verdicts) == (alone.outcome, alone.verdicts)
    counts = [summarize("run", "shop", [result]) for result in (alone, beside)]
    assert counts[0] == counts[1]
    assert counts[1].failed_cases == 0 or counts[1].failures


@pytest.mark.parametrize(
    ("cases", "passed", "flaky", "curve"),
    [
        ([["passed"] * 2, ["passed", "failed"]], 1, 1, [(1, 0.75, 0.75), (2, 0.5, 1.0)]),
        ([["passed"], ["failed"]], 1, None, []),
        ([["passed", "failed"], ["passed"]], 1, 1, []),
        ([], 0, None, []),
    ],
)
def test_a_summary_counts_flaky_cases_and_their_curve(
    cases: list[list[str]], passed: int, flaky: int | None, curve: list[tuple[int, float, float]]
) -> None:
    found = summarize("run", "shop", [trials_result(results(*outcomes), ALL) for outcomes in cases])
    assert (found.passed_cases, found.flaky_cases) == (passed, flaky)
    assert [(point.k, point.pass_hat_k, point.pass_at_k) for point in found.pass_curve] == curve


@given(st.lists(st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=1, max_size=4), max_size=9))
def test_tallies_can_be_divided_and_merged(cases: list[list[str]]) -> None:
    found = [trials_result(results(*outcomes), ALL) for outcomes in cases]
    left, right = Tally(), Tally()
    for number, result in enumerate(found):
        (left if number % 2 else right).add_row(result.to_json())  # type: ignore[arg-type]
    left.merge(right)
    assert left.summary("r", "d") == summarize("r", "d", found)
