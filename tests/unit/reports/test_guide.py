"""The guide shows the comment as it is, not as it once was."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agent_eval.ci.platforms.github import GITHUB
from agent_eval.ci.platforms.spec import SUMMARY_LIMIT
from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.reports.detail import COMMENT, FULL
from agent_eval.reports.parts import SIGNS
from tests.unit.reports import scenarios

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "reading-the-comment.md"


def test_its_example_is_what_is_rendered():
    guide = GUIDE.read_text("utf-8")
    before, example, after = re.split(
        r"(?<=^````markdown\n)(.*?)(?=^````$)", guide, flags=re.DOTALL | re.MULTILINE
    )
    rendered = scenarios.comment(scenarios.regressed())
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GUIDE.write_text(before + rendered + after, "utf-8")
        return
    assert example == rendered


def test_it_explains_every_decision_and_the_limit():
    text = GUIDE.read_text("utf-8")
    for sign in SIGNS.values():
        assert f"| {sign} | " in text
    assert f"{GITHUB.comment_limit:,} characters" in text
    assert f"{SUMMARY_LIMIT // 1024**2} MiB" in text
    assert f"kept of {DETAIL_LIMIT} cases" in text
    assert f"{FULL[0].cases} regressed cases open" in text
    assert COMMENT[0].cases == 5
