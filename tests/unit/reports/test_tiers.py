"""What is said of cases that do not block by themselves, and of new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from agent_eval.contracts.confirmation import Confirmation, NewCaseTrial
from agent_eval.reports.tiers import cases_apart, new_case_words

from agent_eval.history.board import DeclaredTiers
from agent_eval.reports.html.brief import brief
from agent_eval.reports.model import SuiteHistory, SuiteReport
from agent_eval.reports.terminal_decision import evaluation_text
from tests.security.github_markdown import Page
from tests.security.test_markdown_fuzz import assert_inert
from tests.unit.gate.test_decide import comparison
from tests.unit.history.made import made_run
from tests.unit.reports import scenarios, situations
from tests.unit.reports.scenarios import EVIL, comment, report
from tests.unit.reports.test_confirmation import record, suite


def named(case_ids: Any) -> str:
    return ", ".join(case_ids)


def with_new(record: Confirmation | None, *new: str) -> SuiteReport:
    before = {"a": "passed", "b": "passed"}
    found = comparison(before, {**before, **dict.fromkeys(new, "passed")})
    made = scenarios.unchanged_suite()
    return replace(made, comparison=found, confirmation=record)


def tried(case_id: str, base: str, *, passed: bool = True, **fields: Any) -> NewCaseTrial:
    return NewCaseTrial.model_validate(
        {"case_id": case_id, "candidate_passed": passed, "base": base, **fields}
    )


def words(*trials: NewCaseTrial, **fields: Any) -> str:
    kept = Confirmation(pairs=6, max_cases=8, new_cases=list(trials), **fields)
    return new_case_words(with_new(kept, *(trial.case_id for trial in trials)), named, str)


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        ([("x", "passed")], "1 new case: the base agent passes it too, so it tells nothing apart."),
        ([("x", "failed")], "1 new case: the base agent does not pass it."),
        (
            [("x", "passed"), ("y", "failed")],
            "2 new cases: the base agent passes 1 of them too (x), so it tells nothing apart.",
        ),
        (
            [("x", "passed"), ("y", "passed")],
            "2 new cases: the base agent passes 2 of them too (x, y), so they tell nothing apart.",
        ),
        ([("x", "failed"), ("y", "failed")], "2 new cases: the base agent passes none of them."),
        ([("x", "lost")], "1 new case: the base agent could not be judged on x."),
    ],
)
def test_it_is_said_whether_the_base_agent_passes_the_new_cases_too(
    trials: list[tuple[str, str]], said: str
) -> None:
    assert words(*(tried(*trial) for trial in trials)) == said


def test_a_new_case_that_only_the_base_agent_passes_is_named() -> None:
    said = "1 new case: the base agent passes x, and this change's does not."
    assert words(tried("x", "passed", passed=False)) == said


def test_it_is_said_why_the_base_agent_was_not_run_on_new_cases_and_nothing_where_no_agent_runs() -> None:
    kept = Confirmation(pairs=6, max_cases=8, new_problem="The merge base could not be built.")
    assert new_case_words(with_new(kept, "x"), named, str) == (
        "1 new case: the base agent was not run on it. The merge base could not be built."
    )
    unchanged = Confirmation(pairs=6, max_cases=8, agent_unchanged=True)
    assert "the agent is unchanged" in new_case_words(with_new(unchanged, "x"), named, str)
    assert new_case_words(with_new(None, "x"), named, str) == ""
    assert new_case_words(with_new(kept), named, str) == ""


def test_the_fold_counts_the_cases_by_what_they_are() -> None:
    apart = cases_apart(situations.confirmed().suites[0])
    assert apart.title == (
        "Cleared (2) · not yours (1) · tracked (1) · expected to fail (1) · not graded (1) · promote me (1)"
    )
    assert apart.not_graded == [("order-020", "judge")]
    assert cases_apart(suite(0, record())).title == ""


def test_nothing_is_promoted_without_a_history_and_with_a_miss_in_the_last_three_runs() -> None:
    declared = DeclaredTiers(expected_fail=frozenset({"a", "b"}))
    runs = [made_run(number, {"a": (1, 1), "b": (number != 2, 1)}) for number in range(4)][::-1]
    made = replace(scenarios.unchanged_suite(), declared=declared)
    assert cases_apart(made).promote == ()
    known = replace(made, history=SuiteHistory(own=runs[0], earlier=runs))
    assert cases_apart(known).promote == ["a"]


@pytest.mark.parametrize("way", ["tracked", "expected_fail"])
def test_green_stays_three_lines_where_such_a_case_fails_as_before(way: str) -> None:
    before = [situations.order(number) for number in range(80)]
    before[3] = situations.other_words(3)
    declared = DeclaredTiers(**{way: frozenset({"order-003"})})
    green = replace(situations.decided(before, before), declared=declared)
    assert comment(report(green)) == comment(report(replace(green, declared=DeclaredTiers())))
    assert len([line for line in comment(report(green)).splitlines() if line]) == 4  # with the marker


def test_terminal_and_page_say_it_too() -> None:
    confirmed = situations.confirmed()
    terminal = " ".join(evaluation_text(confirmed).split())
    page = " ".join(
        "".join(words.text for words in each) for each in brief(confirmed.suites[0], is_decided=True).notices
    )
    for text in (terminal, page.replace("`", "")):
        assert "2 new cases: the base agent passes 1 of them too (refund-in-parts)" in text
        assert "Tracked, and does not pass: order-010." in text
        assert "Not graded (judge), which says nothing about the agent: order-020." in text
        assert "Promote me: order-012 is expected to fail and passed in the last 3 runs of main." in text


def with_names(name: str) -> SuiteReport:
    """A suite in which this is the name of every case, the branch, and part of a reason."""
    declared = DeclaredTiers(tracked=frozenset({name}), expected_fail=frozenset({f"{name}2"}))
    runs = [made_run(number, {f"{name}2": (1, 1)}) for number in range(3)][::-1]
    kept = Confirmation(pairs=6, max_cases=8, new_cases=[tried(name, "passed")], new_problem=f"Lost: {name}")
    return replace(
        with_new(kept, name),
        declared=declared,
        history=SuiteHistory(own=runs[0], earlier=runs, branch=name),
        failing=[{"case_id": name, "outcome": "failed", "passed": False, "verdicts": []}],
    )


def test_hostile_names_of_cases_and_branches_stay_text() -> None:
    benign = Page(comment(report(with_names("refund"))))
    text = comment(report(with_names(f"{EVIL}{{0.__class__}}")))
    assert "Promote me" in text
    assert_inert(Page(text), benign, tuple(benign.links))
    shown = evaluation_text(report(with_names(EVIL)))
    assert not {"\x1b", "\u202e"} & set(shown)
