"""Several trials of a case: what they amount to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import (
    Case,
    CaseResult,
    Outcome,
    Tally,
    TrialResult,
    case_policy,
    summarize,
    trials_result,
    with_verdicts,
)
from agent_eval.contracts.trials import ALL, pass_curve
from agent_eval.errors import InvalidInput
from tests.factories import DEFAULT_JUDGES, make_result, make_trace

OUTCOMES: dict[str, dict[str, str | tuple[str, ...]]] = {
    "passed": {},
    "failed": {"failed": "policy"},
    "error": {"error": "policy"},
    "skipped": {"skipped": DEFAULT_JUDGES},
}
POLICIES = ("all", "any", "majority", "pass_rate>=0.75")


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
        ("majority", ["passed", "failed"], "failed", 1),
        ("majority", ["failed", "passed", "passed"], "passed", 1),
        ("pass_rate>=0.5", ["passed", "failed"], "passed", 0),
        ("pass_rate>=0.75", ["passed", "failed"], "failed", 1),
        ("pass_rate >= 0", ["failed", "error"], "error", 1),
    ],
)
def test_the_deciding_trial_speaks_for_the_case(
    policy: str, outcomes: list[str], outcome: str, trial: int
) -> None:
    found = trials_result(results(*outcomes), case_policy(policy))
    assert (found.outcome, found.trial) == (outcome, trial)
    assert found.verdicts == found.trials[trial].verdicts
    assert found.case_policy == policy.replace(" ", "")


def test_every_field_of_a_trial_comes_along_into_the_result_of_its_case() -> None:
    trials = results("passed", "failed", "error")
    kept = trials_result(trials, ALL).trials
    for name in TrialResult.model_fields:
        assert [getattr(one, name) for one in kept] == [getattr(one, name) for one in trials], name
    assert set(TrialResult.model_fields) < set(CaseResult.model_fields)


def test_other_verdicts_change_what_follows_from_them_and_nothing_else() -> None:
    [failed] = results("failed")
    [passed] = results("passed")
    assert with_verdicts(failed.model_copy(update={"trial": 3}), passed.verdicts) == passed.model_copy(
        update={"trial": 3}
    )


def test_a_single_trial_is_the_result_as_it_stands() -> None:
    [one] = results("failed")
    assert trials_result([one], ALL) is one
    assert (one.trials, one.case_policy, one.trial_counts) == ([], None, (0, 1))


@pytest.mark.parametrize("judge", ["prompt_injection", "tool_abuse"])
def test_one_leak_is_not_outvoted(judge: str) -> None:
    trials = [make_result("a", judges=(judge,)) for _ in range(9)]
    trials[4] = make_result("a", judges=(judge,), failed=judge)
    found = trials_result(trials, case_policy("any"))
    assert (found.outcome, found.trial) == (Outcome.FAILED, 4)


@given(st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=2, max_size=8), st.sampled_from(POLICIES))
def test_a_case_passes_exactly_when_its_policy_says_so(outcomes: list[str], policy: str) -> None:
    found = trials_result(results(*outcomes), case_policy(policy))
    judged = [outcome for outcome in outcomes if outcome != "skipped"] or outcomes
    most_are_errors = judged.count("error") * 2 > len(judged)
    passes = case_policy(policy).passes(judged.count("passed"), len(judged))
    assert found.passed == (passes and not most_are_errors)
    assert found.trial_counts == (judged.count("passed"), len(judged))
    assert found.passed == (found.outcome is Outcome.PASSED)


@given(
    st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=1, max_size=6),
    st.lists(st.integers(0, 6), max_size=4),
    st.sampled_from(POLICIES),
)
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


@pytest.mark.parametrize("text", ["most", "pass_rate>=1.1", "pass_rate>=", "pass_rate>0.5", ""])
def test_there_is_no_other_policy(text: str) -> None:
    with pytest.raises(InvalidInput, match="no case policy"):
        case_policy(text)


def test_a_summary_counts_flaky_cases_and_their_curve() -> None:
    cases = [trials_result(results(*outcomes), ALL) for outcomes in (["passed"] * 2, ["passed", "failed"])]
    found = summarize("run", "shop", cases)
    assert (found.passed_cases, found.flaky_cases) == (1, 1)
    assert [(point.k, point.pass_hat_k, point.pass_at_k) for point in found.pass_curve] == [
        (1, 0.75, 0.75),
        (2, 0.5, 1.0),
    ]


def test_single_trials_say_nothing_of_flakes() -> None:
    found = summarize("run", "shop", results("passed", "failed"))
    assert (found.flaky_cases, found.pass_curve) == (None, [])
    mixed = summarize("run", "shop", [trials_result(results("passed", "failed"), ALL), *results("passed")])
    assert (mixed.flaky_cases, mixed.pass_curve) == (1, [])


@given(
    st.lists(st.lists(st.sampled_from(["passed", "failed", "skipped"]), min_size=1, max_size=4), max_size=9)
)
def test_tallies_can_be_divided_and_merged(cases: list[list[str]]) -> None:
    found = [trials_result(results(*outcomes), ALL) for outcomes in cases]
    whole, left, right = Tally(), Tally(), Tally()
    for number, result in enumerate(found):
        whole.add(result)
        (left if number % 2 else right).add(result)
    left.merge(right)
    assert left.summary("r", "d") == whole.summary("r", "d")
    rows = Tally()
    for result in found:
        rows.add_row(result.to_json())  # type: ignore[arg-type]
    assert rows.summary("r", "d") == whole.summary("r", "d")


def test_no_case_has_no_curve() -> None:
    assert pass_curve([]) == []


def test_a_case_as_of_one_trial() -> None:
    case = Case.model_validate(
        {
            "case_id": "a",
            "metadata": {"cost_usd": 1, "team": "shop"},
            "trace": make_trace("one"),
            "trials": [{"trace": make_trace("two"), "metadata": {"cost_usd": 2}}],
        }
    )
    assert case.trial_count == 2
    assert case.of_trial(0) is case
    second = case.of_trial(1)
    assert [event.tool for event in second.trace if event.type == "tool_call"] == ["two"]
    assert second.metadata == {"cost_usd": 2, "team": "shop"}
    assert second.trial_count == 1
    for number in (-1, 2):
        with pytest.raises(IndexError):
            case.of_trial(number)


@pytest.mark.parametrize("policy", ["any", "pass_rate>=0", "pass_rate>=0.25"])
def test_one_pass_beside_three_errors_is_an_error(policy: str) -> None:
    found = trials_result(results("error", "passed", "error", "error"), case_policy(policy))
    assert (found.outcome, found.passed) == (Outcome.ERROR, False)
