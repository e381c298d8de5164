from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.reports.detail import utf8_bytes
from tests.extent import examples
from tests.security.github_markdown import Page
from tests.unit.reports import scenarios


@pytest.mark.parametrize("name", ["first-run", "regressed", "two-suites", "hostile"])
def test_scenarios_look_as_agreed(name, golden):
    golden(f"summary/{name}.md", scenarios.full_report(scenarios.SCENARIOS[name]()))


def test_it_points_to_the_evidence():
    assert "· [evidence](https://github.com/" in scenarios.full_report(scenarios.unchanged())


@given(limit=st.integers(2_000, 200_000))
@settings(max_examples=examples(15))
def test_any_limit_in_bytes_is_kept(limit):
    text = scenarios.full_report(scenarios.many_regressed(700), limit=limit)
    assert utf8_bytes(text) <= limit
    assert Page(text).balanced()
