"""The guide shows the comment as it is, not as it once was."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from agent_eval.reports.sentences import ICONS, NOTHING_SHARED, WORDS

from agent_eval.ci.platforms.github.spec import GITHUB
from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.contracts import GateStatus
from agent_eval.reports.comment import NOT_EVALUATED
from agent_eval.reports.detail import COMMENT, FULL
from agent_eval.reports.terminal_decision import gate_text
from tests.unit.reports import scenarios

GATE_GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "gate.md"
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
    for status, icon in ICONS.items():
        assert f"| {icon} | {WORDS[status]} |" in text
    assert f"| {ICONS[GateStatus.NO_BASELINE]} | {NOTHING_SHARED} |" in text
    assert f"| {NOT_EVALUATED[0]} | {NOT_EVALUATED[1]} |" in text
    assert f"{GITHUB.comment_limit:,} characters" in text
    assert f"{GITHUB.summary_limit // 1024**2} MiB" in text
    assert f"kept of {DETAIL_LIMIT} cases" in text
    assert f"{FULL[0].cases} regressed cases open" in text
    assert COMMENT[0].cases == 5


@pytest.mark.parametrize("name", ["trials", "cannot-tell"])
def test_the_gates_guide_shows_what_the_terminal_prints(name: str) -> None:
    decision = scenarios.SCENARIOS[name]().suites[0].decision
    printed = gate_text(decision, "decision.json").splitlines()[:-1]
    examples = re.findall(
        r"^```text\n(INCONCLUSIVE.*?)^```$", GATE_GUIDE.read_text("utf-8"), re.DOTALL | re.M
    )
    shown = [example.splitlines() for example in examples]
    starts = [[line.removesuffix("…") for line in lines] for lines in shown]
    assert any(len(lines) == len(printed) and all(map(str.startswith, printed, lines)) for lines in starts), (
        printed
    )
