"""A run that says nothing about the change: every report says that, and nothing else about the change."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from agent_eval.contracts import GateStatus
from agent_eval.reports.comment import render_summary
from agent_eval.reports.html.page import HtmlReport, render_html
from agent_eval.reports.model import EvaluationReport
from agent_eval.reports.terminal_comparison import gate_text
from tests.unit.reports import scenarios, situations

OF_THE_CHANGE = re.compile(r"regress|got worse|Here again|[Nn]ot settled|broke")
"""What would say something about the change."""
WHY = "8 of 30 trials were lost to a judge, the first with: 503. Run it again."


def lost_judge() -> EvaluationReport:
    """Twelve of thirty cases fail that passed, and of eight others the judge could not be reached."""
    before = [situations.order(number) for number in range(30)]
    now = [*map(situations.other_words, range(12)), *before[12:]]
    lost = {f"order-{number:03}": situations.unreachable(number) for number in range(20, 28)}
    decision = scenarios.by_policy(
        GateStatus.INCONCLUSIVE,
        "12 cases broke.",
        cases=[scenarios.judged("order-000", "broke", "20/20 0/1 8/8 0/8")],
        not_evaluated=[WHY],
    )
    suite = situations.decided(before, now, decision, results={"candidate": lost})
    return situations.report(suite, not_evaluated=WHY)


def top_of(page: str) -> str:
    return page[page.index("<h1") : page.index('class="filter')]


@pytest.mark.parametrize(
    "rendered",
    [
        scenarios.comment,
        lambda report: render_summary(report, limit=100_000),
        lambda report: gate_text(report.suites[0].decision, "d.json"),
        lambda report: (
            render_html(HtmlReport(report=report)).partition('class="lines')[0].partition("<h1")[2]
        ),
    ],
    ids=["comment", "summary", "gate", "page"],
)
def test_a_run_that_says_nothing_is_shown_without_what_would_say_something(rendered) -> None:  # type: ignore[no-untyped-def]
    text = rendered(lost_judge())
    assert "gave no verdict" in text.replace("\n  ", " ") or "lost to a judge" in text.replace("\n  ", " ")
    assert not OF_THE_CHANGE.search(text)
    assert "✅" not in text.splitlines()[0]


def test_the_comment_still_lists_the_cases_that_do_not_pass_and_why() -> None:
    text = scenarios.comment(lost_judge())
    assert text.splitlines()[2].startswith(
        "## 🛑 Not evaluated: judge `llm` gave no verdict in 8 of 30 cases"
    )
    to_do = "Check the judge's code, or its model's key, address and quota; then run the job again."
    assert f"> **To do:** {to_do}" in text
    rows = [line for line in text.splitlines() if line.startswith("| ❌ ")]
    assert rows[0].endswith("and 4 more | judge `llm` failed | error | passed |")
    assert rows[1].endswith("and 8 more | the answer does not match a pattern | failed | passed |")
    assert "the judge's model answered 503 three times" in text


def test_of_several_suites_only_the_one_that_says_nothing_is_without_a_decision() -> None:
    lost = lost_judge()
    other = situations.regressions().suites[0]
    both = replace(lost, suites=[replace(lost.suites[0], slug="lost"), replace(other, slug="shop")])
    text = scenarios.comment(both)
    assert "### 🛑 `lost`: Not evaluated: judge `llm` gave no verdict" in text
    assert "### ❌ `shop`: 3 of 120 cases regressed; 35 more newly fail" in text
