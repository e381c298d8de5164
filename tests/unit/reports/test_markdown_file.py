from __future__ import annotations

import pytest

from agent_eval.contracts import Compatibility, CompatibilityCheck
from agent_eval.reports.comment import render_markdown
from tests.unit.reports import scenarios, situations

REPLAY = {
    "replay_passed": False,
    "case_mismatches": [{"case_id": "a"}, "b"],
    "env_mismatches": ["python 3.11"],
}


def rendered(scenario=scenarios.regressed, **more) -> str:
    suite = scenario().suites[0]
    assert suite.comparison is not None
    told = {"decision": suite.decision, "title": "Release Eval Report", **more}
    return render_markdown(told.pop("comparison", suite.comparison), told.pop("decision"), **told)


def test_a_report_looks_as_agreed(golden):
    golden("markdown/regressed.md", rendered(replay=REPLAY))


def test_a_report_of_cases_that_were_run_again_looks_as_agreed(golden):
    golden("markdown/passes-again.md", rendered(situations.flaky))


def test_without_a_decision_none_is_claimed():
    text = rendered(decision=None)
    assert text.startswith("## Release Eval Report\n")
    assert "❌ 3 cases" not in text.splitlines()[0]


def test_a_replay_is_told_in_words():
    assert "✅ The replay gave the same results." in rendered(replay={"replay_passed": True})
    text = rendered(replay=REPLAY)
    assert "❌ The replay differs: 2 cases differ, 1 pin of the environment differs." in text
    assert "<summary>2 cases differ</summary>" in text
    assert "<summary>1 pin of the environment differs</summary>" in text
    assert "Replay" not in rendered(replay=None)


def test_a_replay_says_what_was_and_what_is_now():
    case = {"case_id": "a", "judges": [{"judge_id": "policy", "saved": "passed", "replayed": "failed"}]}
    pin = {"field": "python", "saved": "3.11", "current": "3.12", "allowed": True}
    trace = {"case_id": "b", "difference": "had 2 events, now 3"}
    told = {"case_mismatches": [case], "trace_mismatches": [trace], "env_mismatches": [pin]}
    text = rendered(replay={"replay_passed": False, "summary_match": False, **told})
    assert "trajectory differs, 1 pin of the environment differs, the summary differs." in text
    assert "- `a`: `policy` was `passed`, is `failed`" in text
    assert "- `b`: `had 2 events, now 3`" in text
    assert "- `python` was `3.11`, is `3.12`, which is allowed" in text


def test_a_replay_of_another_shape_does_no_harm():
    text = rendered(replay={"replay_passed": "yes", "case_mismatches": "all of them"})
    assert "❌ The replay differs." in text


def test_runs_that_evaluated_different_things_are_called_out():
    suite = scenarios.regressed().suites[0]
    assert suite.comparison is not None
    broken = CompatibilityCheck(name="dataset", passed=False, message="The datasets differ: a and b.")
    compatibility = Compatibility(passed=False, checks=[broken], failures=[broken])
    comparison = suite.comparison.model_copy(update={"compatibility": compatibility})
    text = rendered(comparison=comparison)
    assert "⚠️ The datasets differ: a and b." in text


def test_a_passing_report_is_calm():
    text = rendered(scenarios.unchanged)
    assert text.startswith("## ✅ 188 of 200 cases pass, none got worse · Release Eval Report\n")
    assert "[!" not in text


@pytest.mark.parametrize("decided_by", ["thresholds", "policy"])
def test_another_number_of_trials_is_said_where_cases_are_counted_and_not_where_trials_are(decided_by):
    """Main runs each case four times and a change once: that is the job's own procedure."""
    words = "2 cases have another number of trials (4 in the baseline, 1 now), which changes what it takes"
    broken = CompatibilityCheck(
        name="trial_count_match", passed=False, enforced=False, message=words, details={}
    )
    suite = scenarios.regressed_suite()
    assert suite.comparison is not None
    behaviour = suite.comparison.behaviour.model_copy(update={"notices": [f"{words}."]})
    compatibility = Compatibility(passed=True, checks=[broken], failures=[broken])
    comparison = suite.comparison.model_copy(update={"behaviour": behaviour, "compatibility": compatibility})
    decision = suite.decision.model_copy(update={"decided_by": decided_by})
    text = rendered(comparison=comparison, decision=decision)
    assert ("another number of trials" in text) is (decided_by == "thresholds")
