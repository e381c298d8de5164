from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.comparison.coverage import CoverageFacts, coverage
from agent_eval.comparison.facts import RunView, case_outcomes
from agent_eval.comparison.failures_apart import failures_apart
from agent_eval.comparison.judged_twice import JudgedTwice
from agent_eval.contracts import Comparison, Coverage
from tests.unit.comparison.views import passing, result, tried, view

BOTH = {"policy": "passed", "regex": "passed"}


def compared(before: RunView, now: RunView, **options: Any) -> Comparison:
    stated = {"changed": "exclude", "generated_at": "2026-06-01T00:00:00+00:00", **options}
    return compare(before, now, **stated)


def covered(before: RunView, now: RunView, **options: Any) -> Coverage:
    found = compared(before, now, **options).coverage
    assert found is not None
    return found


def losses(coverage: Coverage) -> list[tuple[str, str | None, dict[str, float]]]:
    return [(loss.cause, loss.judge_id, loss.cases) for loss in coverage.losses]


def test_a_run_covers_itself_and_what_was_skipped_was_never_judged() -> None:
    run = view({"a": BOTH, "b": {"policy": "skipped"}, "c": "failed"})
    found = covered(run, run)
    assert (found.cases, found.share, found.losses) == (2, 1.0, [])


def test_a_judge_that_is_gone_takes_its_share_of_every_case_that_it_judged() -> None:
    before = view({"a": BOTH, "b": BOTH, "c": "passed"})
    found = covered(before, view({"a": "passed", "b": "passed", "c": "passed"}))
    assert losses(found) == [("judge-gone", "regex", {"a": 0.5, "b": 0.5})]
    assert found.share == pytest.approx(2 / 3)


def test_a_judge_that_finds_nothing_to_judge_where_it_passed_a_case_is_gone_there() -> None:
    before = view({"a": BOTH, "b": BOTH})
    one = {**BOTH, "regex": "skipped"}
    assert losses(covered(before, view({"a": BOTH, "b": one}))) == [("judge-gone", "regex", {"b": 0.5})]
    assert losses(covered(before, view({"a": one, "b": one}))) == [
        ("judge-gone", "regex", {"a": 0.5, "b": 0.5})
    ]
    assert covered(before, view({"a": "passed", "b": one})).share == 0.5


@pytest.mark.parametrize("outcome", ["failed", "error", "inconclusive"])
def test_a_verdict_that_was_no_pass_can_be_skipped_unless_the_judge_says_nothing_any_more(
    outcome: str,
) -> None:
    before = view({"a": {**BOTH, "regex": outcome}, "b": BOTH})
    skipped = {**BOTH, "regex": "skipped"}
    assert covered(before, view({"a": skipped, "b": BOTH})).losses == []
    assert len(covered(before, view({"a": skipped, "b": skipped})).losses) == 1


def test_that_the_agent_came_to_its_end_is_skipped_by_execution_and_is_no_loss() -> None:
    before = view({"a": {**BOTH, "execution": "passed"}, "b": {**BOTH, "execution": "passed"}})
    assert covered(before, view({"a": {**BOTH, "execution": "skipped"}, "b": BOTH})).share > 0.5
    now = view({"a": {**BOTH, "execution": "skipped"}, "b": {**BOTH, "execution": "passed"}})
    assert covered(before, now).losses == []


def test_a_judge_that_judges_one_of_the_trials_is_not_gone() -> None:
    skipped = {**BOTH, "regex": "skipped"}
    before = view({"a": tried("a", BOTH, BOTH), "b": BOTH})
    assert covered(before, view({"a": tried("a", skipped, BOTH), "b": BOTH})).losses == []
    now = view({"a": tried("a", skipped, skipped), "b": BOTH})
    assert losses(covered(before, now)) == [("judge-gone", "regex", {"a": 0.5})]


def test_a_judge_that_judged_by_the_baselines_definition_is_not_gone() -> None:
    before = view({"a": BOTH, "b": BOTH})
    skipped = {**BOTH, "regex": "skipped"}
    now = view({"a": skipped, "b": BOTH}, index={"a": {"definition_digest": "other"}})
    twice = JudgedTwice(
        baseline={"a": result("a", skipped).to_json()}, by_baseline={"a": result("a", BOTH).to_json()}
    )
    assert covered(before, now, judged_twice=twice).losses == []


def test_another_configuration_loses_the_judge_and_that_of_a_plug_in_every_judge_without_a_name() -> None:
    config = {"judges": ["policy", "regex"], "judge_configs": {"regex": {"hard": True}}}
    before, now = view({"a": BOTH}, **config), view({"a": BOTH}, judges=["policy", "regex"])
    assert losses(covered(before, now)) == [("judge-changed", "regex", {"a": 0.5})]
    plug_in = {"judges": ["policy", "mine:Regex"], "judge_configs": {"mine:Regex": {"hard": True}}}
    before, now = view({"a": BOTH}, **plug_in), view({"a": BOTH}, judges=["policy", "mine:Regex"])
    assert losses(covered(before, now)) == [("judge-changed", "regex", {"a": 0.5})]


def test_fewer_trials_lose_what_is_missing_and_more_lose_nothing() -> None:
    four, one = view({"a": passing("a", 4, 4), "b": "passed"}), view({"a": "passed", "b": "passed"})
    assert losses(covered(four, one)) == [("fewer-trials", None, {"a": 0.75})]
    assert covered(one, four).losses == []


def test_a_baseline_that_could_not_be_judged_covers_only_what_passes_now() -> None:
    before = view({"a": "error", "b": "error", "c": "error"})
    found = covered(before, view({"a": "passed", "b": "failed", "c": "error"}))
    assert losses(found) == [("baseline-error", None, {"b": 1.0, "c": 1.0})]


def test_a_case_is_lost_once_by_its_first_cause() -> None:
    before = view({"gone": BOTH, "edited": BOTH, "held": BOTH, "kept": BOTH})
    now = view(
        {"edited": "passed", "held": "passed", "kept": "passed"}, index={"edited": {"definition_digest": "x"}}
    )
    found = covered(before, now, quarantined=frozenset({"held", "unknown"}))
    assert losses(found) == [
        ("changed", None, {"edited": 1.0}),
        ("removed", None, {"gone": 1.0}),
        ("quarantined", None, {"held": 1.0}),
        ("judge-gone", "regex", {"kept": 0.5}),
    ]
    assert found.share == pytest.approx(0.5 / 4)


def test_including_what_changed_compares_it_and_covers_nothing_by_it() -> None:
    before, now = view({"a": "passed"}), view({"a": "passed"}, index={"a": {"definition_digest": "x"}})
    found = compared(before, now, changed="include")
    assert found.cases.compared == 1
    assert found.coverage is not None
    assert found.coverage.is_nothing


def test_a_case_in_quarantine_leaves_both_sides() -> None:
    before, now = view({"a": "passed", "b": "passed"}), view({"a": "passed", "b": "failed"})
    found = compared(before, now, quarantined=frozenset({"b"}))
    assert (found.cases.compared, found.cases.quarantined) == (1, ["b"])
    assert found.case_regressions == []
    assert found.metrics["pass_rate"].delta == 0
    assert found.failures_apart == {"policy": ["b"]}


def test_failures_apart_are_those_that_are_news() -> None:
    before = view({"known": "failed", "unjudged": "error", "fresh": "passed"})
    now = view({"known": "failed", "unjudged": "failed", "fresh": "error", "new": "failed"})
    edited = {case_id: {"definition_digest": "x"} for case_id in ("known", "unjudged", "fresh")}
    changed = replace(now, index=view(dict.fromkeys(now.results, "passed"), index=edited).index)
    assert compared(before, changed).failures_apart == {"policy": ["fresh", "new", "unjudged"]}


def test_a_baseline_that_judged_nothing_covers_nothing() -> None:
    run = view({"a": result("a", {"policy": "skipped"})})
    assert covered(run, run).is_nothing


def test_what_is_left_of_a_case_after_its_judges_is_lost_to_missing_trials() -> None:
    three = {**BOTH, "style": "passed"}
    before, now = view({"a": tried("a", *[three] * 4)}), view({"a": tried("a", *[{"policy": "passed"}] * 2)})
    found = covered(before, now)
    assert losses(found) == [
        ("judge-gone", "regex", {"a": pytest.approx(1 / 3)}),
        ("judge-gone", "style", {"a": pytest.approx(1 / 3)}),
        ("fewer-trials", None, {"a": pytest.approx(1 / 6)}),
    ]
    assert found.share == pytest.approx(1 / 6)


def test_new_expectations_share_what_is_left_of_a_case_and_are_none_of_others() -> None:
    before = view({"a": tried("a", *[BOTH] * 4), "b": BOTH})
    now = view({"a": tried("a", *[BOTH] * 3), "b": BOTH})
    facts = CoverageFacts(
        before=case_outcomes(before),
        now=case_outcomes(now),
        changed=frozenset(),
        new_expectations={"a": ["policy", "regex"]},
    )
    assert losses(coverage(facts, before, now, trials_differ=True)) == [
        ("fewer-trials", None, {"a": 0.25}),
        ("new-expectation", "policy", {"a": 0.375}),
        ("new-expectation", "regex", {"a": 0.375}),
    ]


def by_today(before: str, today: str, now: str) -> list[str]:
    runs = [view({"a": outcome}) for outcome in (before, today, now)]
    was, is_today, is_now = (case_outcomes(run) for run in runs)
    facts = CoverageFacts(before=was, now=is_now, changed=frozenset(), before_today=is_today)
    return [loss.cause for loss in coverage(facts, runs[0], runs[2], trials_differ=False).losses]


def test_a_baseline_that_today_can_be_judged_is_compared_and_one_that_cannot_is_not() -> None:
    assert by_today("error", "passed", "failed") == []
    assert by_today("passed", "error", "failed") == ["baseline-error"]
    assert by_today("passed", "error", "passed") == []


def test_a_judge_that_is_not_compared_has_its_new_failures_listed_in_compared_cases_too() -> None:
    before = view({"a": BOTH, "b": {"policy": "error", "regex": "error"}, "c": BOTH})
    now = view({case_id: {"policy": "error", "regex": "error"} for case_id in "abc"})

    def apart(*judges: str, compared: str = "abc") -> dict[str, list[str]]:
        facts = CoverageFacts(
            before=case_outcomes(before),
            now=case_outcomes(now),
            changed=frozenset(),
            apart=frozenset(judges),
        )
        return failures_apart(facts, list(compared))

    assert apart() == {}
    assert apart("regex") == {"regex": ["a", "c"]}
    assert apart("regex", compared="ab") == {"policy": ["c"], "regex": ["a", "c"]}
