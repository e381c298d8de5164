"""How much a comment and a full report show of very many cases, and that every case is shown or counted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.reports.comment import render_markdown
from agent_eval.reports.detail import characters, utf8_bytes
from tests.extent import examples
from tests.security.github_markdown import Page
from tests.unit.reports import scenarios

KEPT = "A comparison keeps how the behaviour changed of 200 cases"


def shown(text: str) -> tuple[int, int]:
    """Cases in full, and those that are only counted."""
    counted = re.search(r"^… and ([0-9,]+) more cases? that got worse: see", text, flags=re.MULTILINE)
    return text.count("\n#### "), int(counted[1].replace(",", "")) if counted else 0


@pytest.mark.parametrize("number", [21, 400, 9_000])
def test_a_comment_shows_one_case_of_a_cause_and_counts_the_others_in_its_row(number: int) -> None:
    text = scenarios.comment(scenarios.many_behave_otherwise(number))
    assert shown(text) == (1, 0)
    assert f"`checkout-flow-0003`, and {number - 4:,} more | `escalate` was called |" in text
    assert "agent-eval run --suite suites/support.json --case checkout-flow-0000 --out" in text
    assert characters(text) < 4_000


def test_the_full_report_holds_what_the_comment_has_no_room_for() -> None:
    text = scenarios.full_report(scenarios.many_behave_otherwise(1_000))
    assert shown(text) == (1_000, 0)
    assert utf8_bytes(text) <= scenarios.SUMMARY_LIMIT


def test_beyond_its_limit_the_full_report_says_how_many_are_missing_and_where_they_are() -> None:
    text = scenarios.full_report(scenarios.many_regressed(9_000), limit=200_000)
    in_full, counted = shown(text)
    assert utf8_bytes(text) <= 200_000
    assert in_full + counted == 9_000 > counted > 0
    assert "see `case_regressions` in `compare/baseline_delta.json`." in text


def test_a_markdown_file_of_a_comparison_is_filled_alike() -> None:
    comparison = scenarios.many_behave_otherwise(300).suites[0].comparison
    assert comparison is not None
    assert shown(render_markdown(comparison, None, title="Nightly")) == (300, 0)


def test_where_the_comparison_keeps_no_behaviour_it_is_said_once() -> None:
    assert DETAIL_LIMIT == 200
    assert scenarios.full_report(scenarios.many_behave_otherwise(300)).count(KEPT) == 1
    assert KEPT not in scenarios.full_report(scenarios.many_behave_otherwise(300, kept=199))
    assert KEPT not in scenarios.full_report(scenarios.many_behave_otherwise(200))


@given(limit=st.integers(2_000, 65_536), number=st.integers(0, 120))
@settings(max_examples=examples(15))
def test_every_case_is_named_or_counted_at_any_limit(limit: int, number: int) -> None:
    text = scenarios.comment(scenarios.many_behave_otherwise(number), limit=limit)
    assert characters(text) <= limit
    assert Page(text).balanced()
    assert not number or f"{number} of 2,000 cases regressed" in text


@pytest.mark.parametrize("name", ["first-run", "regressed", "two-suites", "hostile"])
def test_full_reports_look_as_agreed(name, golden):  # type: ignore[no-untyped-def]
    golden(f"summary/{name}.md", scenarios.full_report(scenarios.SCENARIOS[name]()))


@given(limit=st.integers(2_000, 200_000))
@settings(max_examples=examples(15))
def test_any_limit_of_a_full_report_in_bytes_is_kept(limit: int) -> None:
    text = scenarios.full_report(scenarios.many_regressed(700), limit=limit)
    assert utf8_bytes(text) <= limit
    assert Page(text).balanced()
