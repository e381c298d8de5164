"""A run that says nothing about the change: every report says that, and nothing else about the change."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from agent_eval.gate.explanation import explain
from agent_eval.reports.comment import render_summary
from agent_eval.reports.html.page import HtmlReport, render_html
from agent_eval.reports.model import EvaluationReport
from agent_eval.reports.terminal_decision import evaluation_text
from tests.unit.gate.test_confirmation import record
from tests.unit.reports import scenarios, situations

OF_THE_CHANGE = re.compile(
    r"regress|got worse|\bp\s?[=<]|p under|Run again by both|Not settled|more than chance"
)
"""What would say something about the change."""


def lost_judge() -> EvaluationReport:
    """Twelve of thirty cases fail that passed, and of six others the judge could not be reached."""
    before = [situations.order(number) for number in range(30)]
    now = [*map(situations.other_words, range(12)), *before[12:]]
    lost = {f"order-{number:03}": situations.unreachable(number) for number in range(20, 28)}
    kept = record(
        problem="Not run again: the step integrity fails anyway.",
        baseline_manifest_sha256="cd34" * 16,
        candidate_manifest_sha256="ab12" * 16,
    )
    suite = situations.decided(before, now, results={"candidate": lost}, confirmation=kept)
    assert suite.decision.not_evaluated
    return situations.report(suite, not_evaluated=" ".join(suite.decision.not_evaluated))


@pytest.mark.parametrize(
    "rendered",
    [
        scenarios.comment,
        lambda report: render_summary(report, limit=100_000),
        evaluation_text,
        lambda report: "\n".join(explain(report.suites[0].decision)),
    ],
    ids=["comment", "summary", "terminal", "log"],
)
def test_a_run_that_says_nothing_is_shown_without_what_would_say_something(rendered) -> None:  # type: ignore[no-untyped-def]
    text = rendered(lost_judge())
    assert re.search("not evaluated", text, re.IGNORECASE)
    assert "lost to a judge" in text
    assert not OF_THE_CHANGE.search(text)


def test_the_comment_still_lists_the_cases_that_do_not_pass_and_why() -> None:
    text = scenarios.comment(lost_judge())
    assert "### 20 cases do not pass" in text
    assert "the judge's model answered 503 three times" in text


def test_the_page_names_no_decision_and_no_statistics_of_a_run_that_says_nothing() -> None:
    page = render_html(HtmlReport(report=lost_judge()))
    top = page[page.index("<header>") : page.index('class="lines')]
    assert "not evaluated" in top
    assert "How it was decided" not in page
    assert "McNemar" not in page


def test_of_several_suites_only_the_one_that_says_nothing_is_without_a_decision() -> None:
    lost = lost_judge()
    other = situations.regressions().suites[0]
    both = replace(lost, suites=[replace(lost.suites[0], slug="lost"), replace(other, slug="shop")])
    text = scenarios.comment(both)
    assert "## 🛑 lost: not evaluated" in text
    assert "## ❌ shop: failed" in text
    assert "- 🛑 `lost`: not evaluated, 10 of 30 cases passed (33.3%); 8 could not be judged" in text
    terminal = evaluation_text(both)
    assert "lost: not evaluated" in terminal
    assert "shop: failed" in terminal


def test_where_an_earlier_step_decides_a_sentence_names_what_was_not_run_again() -> None:
    before = [situations.order(number) for number in range(30)]
    now = [situations.other_words(0), situations.other_words(1), situations.crashed(2), *before[3:]]
    kept = record(
        problem="Not run again: the step integrity fails anyway.",
        baseline_manifest_sha256="cd34" * 16,
        candidate_manifest_sha256="ab12" * 16,
    )
    text = scenarios.comment(situations.report(situations.decided(before, now, confirmation=kept)))
    assert (
        "**Could not be run again on both sides:** `order-000`, `order-001`, `order-002`. The step integrity "
        "fails anyway."
    ) in text
    assert "| Case | Now | Base |" not in text
