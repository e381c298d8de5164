"""Both runs by the same definitions and judges, and what passes by new expectations alone."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.comparison.facts import case_outcomes
from agent_eval.comparison.judged_twice import JudgedTwice
from tests.unit.comparison.views import Said, result, view

BOTH = {"policy": "passed", "regex": "passed"}


def rows(cases: dict[str, Said]) -> dict[str, Any]:
    return {case_id: result(case_id, said).to_json() for case_id, said in cases.items()}


def hidden(before: Said, todays: tuple[Said, Said], by_baseline: Said) -> dict[str, list[str]]:
    """Judges by whose old expectation the case `a` got worse and by whose new one it did not.

    Args:
        before: The baseline as it was judged.
        todays: Baseline and candidate as they are judged today.
        by_baseline: The candidate by the definitions and judges of the baseline.
    """
    twice = JudgedTwice(by_baseline=rows({"a": by_baseline}))
    was, first, second = (case_outcomes(view({"a": said})) for said in (before, *todays))
    return twice.new_expectations(was, (first, second))


def test_a_case_that_passes_only_by_its_new_expectation_is_found_with_its_judges() -> None:
    failed = {"policy": "failed", "regex": "failed"}
    assert hidden(BOTH, (BOTH, BOTH), failed) == {"a": ["policy", "regex"]}
    assert hidden(BOTH, (BOTH, BOTH), {**BOTH, "regex": "failed"}) == {"a": ["regex"]}
    assert hidden(BOTH, (BOTH, BOTH), BOTH) == {}


def test_what_got_worse_by_both_expectations_is_a_regression_and_hides_nothing() -> None:
    failed = {**BOTH, "policy": "failed"}
    assert hidden(BOTH, (BOTH, failed), failed) == {}
    # Today's expectation finds the regex worse, the old one the policy: the policy is what is hidden.
    assert hidden(BOTH, (BOTH, {**BOTH, "regex": "failed"}), failed) == {"a": ["policy"]}


@pytest.mark.parametrize(
    ("before", "now", "is_worse"),
    [
        ("passed", "failed", True),
        ("passed", "error", True),
        ("passed", "inconclusive", True),
        ("inconclusive", "failed", True),
        ("skipped", "failed", True),
        ("failed", "error", False),
        ("error", "failed", False),
        ("inconclusive", "inconclusive", False),
        ("passed", "skipped", False),
        ("passed", "passed", False),
    ],
)
def test_worse_is_a_new_failure_or_a_pass_that_cannot_be_told_now(
    before: str, now: str, is_worse: bool
) -> None:
    assert bool(hidden(before, ("passed", "passed"), now)) == is_worse


def test_a_judge_that_the_baseline_did_not_have_hides_nothing() -> None:
    assert hidden("passed", ("passed", "passed"), {"policy": "passed", "regex": "failed"}) == {}


def test_both_runs_are_compared_as_they_are_judged_today() -> None:
    before, now = view({"a": "failed", "b": "passed"}), view({"a": "passed", "b": "failed"})
    twice = JudgedTwice(baseline=rows({"a": "passed"}), candidate=rows({"b": "passed"}))
    found = compare(before, now, changed="exclude", generated_at="now", judged_twice=twice)
    assert found.case_regressions == []
    assert found.metrics["pass_rate"].baseline == found.metrics["pass_rate"].candidate == 1.0
    # The references keep what the runs stored.
    assert (found.baseline.summary.passed_cases, found.candidate.summary.passed_cases) == (1, 1)
    alone = JudgedTwice(baseline=rows({"a": "passed"}))
    found = compare(before, now, changed="exclude", generated_at="now", judged_twice=alone)
    assert found.regressed_case_ids == ["b"]
    assert [judge.baseline for judge in found.case_regressions[0].judges] == ["passed"]


def test_a_case_that_changed_is_compared_once_both_runs_are_judged_alike() -> None:
    before = view({"a": "passed", "b": "passed"})
    now = view({"a": "failed", "b": "passed"}, index={"a": {"definition_digest": "other"}})
    twice = JudgedTwice(baseline=rows({"a": "passed"}), by_baseline=rows({"a": "failed"}))
    found = compare(before, now, changed="exclude", generated_at="now", judged_twice=twice)
    assert (found.regressed_case_ids, found.cases.judged_twice) == (["a"], ["a"])
    assert found.new_expectations == {}


def test_what_passes_only_by_its_new_expectation_is_listed_with_the_judge() -> None:
    before = view({"a": BOTH, "b": BOTH})
    now = view({"a": BOTH, "b": BOTH}, index={"a": {"definition_digest": "other"}})
    twice = JudgedTwice(baseline=rows({"a": BOTH}), by_baseline=rows({"a": {**BOTH, "regex": "failed"}}))
    found = compare(before, now, changed="exclude", generated_at="now", judged_twice=twice)
    assert found.new_expectations == {"a": ["regex"]}


def test_the_top_of_a_report_says_which_results_are_not_those_that_were_stored() -> None:
    run = view({"a": "passed", "b": "passed"})
    twice = JudgedTwice(baseline=rows({"a": "passed"}), apart=frozenset({"regex", "lean"}))
    found = compare(run, run, changed="exclude", generated_at="now", judged_twice=twice)
    assert found.behaviour.notices == [
        "The baseline's results of 1 case are by today's definitions and judges.",
        "Not compared, as it cannot judge the baseline's stored trajectories: lean, regex.",
    ]
    assert JudgedTwice().notices() == []
