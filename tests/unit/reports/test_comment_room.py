"""How many regressed cases a report shows: all there is room for, in full before in one line."""

from __future__ import annotations

import re
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.reports.detail import characters, utf8_bytes
from agent_eval.reports.markdown_file import render_markdown
from tests.extent import examples
from tests.security.github_markdown import Page
from tests.unit.reports import scenarios

KEPT = "A comparison keeps how the behaviour changed of 200 cases."


def comment_on(report, **more) -> str:
    return scenarios.comment(report, **more)


def shown(text: str) -> tuple[int, int, int]:
    """Cases in full, with one line, and only counted."""
    counted = re.search(r"^… and ([0-9,]+) more, see", text, flags=re.MULTILINE)
    return (
        text.count("\n#### "),
        len(re.findall("^- `checkout-flow-", text, flags=re.MULTILINE)),
        int(counted[1].replace(",", "")) if counted else 0,
    )


def test_one_case_is_open_for_each_cause_and_the_next_ones_are_in_full_behind_a_click():
    text = comment_on(scenarios.many_behave_otherwise(21))
    assert shown(text) == (21, 0, 0)
    opened, folded = text.split("<summary>20 more regressed cases</summary>")
    assert (opened.count("\n#### "), folded.count("\n#### ")) == (1, 20)
    for said in (
        "- Argument `$.amount` of `refund`: `10` became `1000`",
        "- Output now: `I have refunded 1000 EUR and asked a colleague to check.`",
        "agent-eval run --suite suites/support.json --case checkout-flow-0020 --out reproduce",
    ):
        assert said in folded.split("</details>")[0].splitlines()


def test_hundreds_of_cases_fill_the_comment():
    text = comment_on(scenarios.many_behave_otherwise(400))
    assert scenarios.COMMENT_LIMIT * 0.93 < characters(text) <= scenarios.COMMENT_LIMIT
    in_full, lines, counted = shown(text)
    assert in_full + lines + counted == 400
    assert in_full > 60
    assert lines > 100
    assert Page(text).balanced()


def test_one_liners_say_which_judge_and_why():
    report = scenarios.many_regressed(3000)
    assert report.suites[0].comparison is not None
    rows = report.suites[0].comparison.case_regressions
    text = comment_on(report)
    in_full, lines, _counted = shown(text)
    assert f"<summary>{lines} more regressed cases, one line each</summary>" in text
    last = rows[in_full + lines - 1].case_id
    assert f"- `{last}` — `policy`: `forbidden tool escalate was called`" in text.splitlines()
    rows[in_full + 9].judges = []
    assert f"- `{rows[in_full + 9].case_id}`: passed → failed" in comment_on(report).splitlines()


@pytest.mark.parametrize("number", [6, 90, 150])
def test_a_case_is_only_counted_where_there_is_no_room_for_a_line(number):
    in_full, lines, counted = shown(comment_on(scenarios.many_behave_otherwise(number)))
    assert (in_full + lines, counted) == (number, 0)


def test_cases_are_in_full_up_to_the_last_one_that_fits():
    """One case more than fits in full costs no more than a few cases their detail."""

    def has_lines(number: int) -> bool:
        return shown(comment_on(scenarios.many_behave_otherwise(number)))[1] > 0

    number = 5 + bisect_left(range(5, 500), True, key=has_lines)
    in_full, lines, _counted = shown(comment_on(scenarios.many_behave_otherwise(number)))
    assert (in_full + lines, lines < 8) == (number, True)


def test_the_full_report_holds_what_the_comment_has_no_room_for():
    text = scenarios.full_report(scenarios.many_behave_otherwise(1_000))
    assert shown(text) == (1_000, 0, 0)
    assert utf8_bytes(text) <= scenarios.SUMMARY_LIMIT


def test_beyond_its_limit_the_full_report_says_how_many_are_missing_and_where_they_are():
    text = scenarios.full_report(scenarios.many_regressed(9_000), limit=300_000)
    in_full, lines, counted = shown(text)
    assert utf8_bytes(text) <= 300_000
    assert in_full + lines + counted == 9_000
    assert counted > 0
    there = "see `case_regressions` in `compare/baseline_delta.json` in the evidence."
    assert f"… and {counted:,} more, {there}" in text.splitlines()


def test_a_markdown_file_of_a_comparison_is_filled_alike():
    report = scenarios.many_behave_otherwise(300)
    comparison = report.suites[0].comparison
    assert comparison is not None
    assert shown(render_markdown(comparison, None, title="Nightly")) == (300, 0, 0)


def test_where_the_comparison_keeps_no_behaviour_it_is_said_once():
    text = scenarios.full_report(scenarios.many_behave_otherwise(300))
    assert text.count(KEPT) == 1
    places = [text.index(f"#### `checkout-flow-{number:04}`") for number in (199, 200)]
    assert places[0] < text.index(KEPT) < places[1]


def test_a_case_that_behaves_as_before_is_not_taken_for_one_that_was_left_out():
    assert DETAIL_LIMIT == 200
    assert KEPT not in scenarios.full_report(scenarios.many_behave_otherwise(300, kept=199))
    assert KEPT not in scenarios.full_report(scenarios.many_behave_otherwise(200))


@given(limit=st.integers(2_000, 65_536), number=st.integers(0, 120))
@settings(max_examples=examples(15))
def test_every_case_is_shown_or_counted_at_any_limit(limit, number):
    text = comment_on(scenarios.many_behave_otherwise(number), limit=limit)
    assert characters(text) <= limit
    assert Page(text).balanced()
    assert sum(shown(text)) == number
