"""The guides to the action show the workflows, the inputs and the outputs that there are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from agent_eval.ci.config import OUTPUTS
from agent_eval.ci.platforms.github import ACTION_INPUTS
from agent_eval.config.options import Option

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"


def workflow() -> str:
    bundled = (files("agent_eval.demo") / "starter" / "workflow.yml").read_text(encoding="utf-8")
    return f"```yaml\n{bundled}```\n"


def agent_workflow() -> str:
    return f"```yaml\n{(ROOT / 'ci-templates' / 'github-agent.yml').read_text(encoding='utf-8')}```\n"


def attest_workflow() -> str:
    return f"```yaml\n{(ROOT / 'ci-templates' / 'github-attest.yml').read_text(encoding='utf-8')}```\n"


def fork_workflow() -> str:
    return f"```yaml\n{(ROOT / 'ci-templates' / 'github-fork.yml').read_text(encoding='utf-8')}```\n"


def inputs() -> str:
    rows = [f"| `{row.name}` | {_default(row)} | {row.help} |" for row in ACTION_INPUTS]
    return "\n".join(["| Input | Default | |", "| :-- | :-- | :-- |", *rows]) + "\n"


def outputs() -> str:
    rows = [f"| `{row.name}` | {row.description} |" for row in OUTPUTS]
    return "\n".join(["| Output | |", "| :-- | :-- |", *rows]) + "\n"


def _default(row: Option) -> str:
    default = row.default or row.action_default
    return f"`{default}`" if default else "required" if row.required else ""


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "workflow": ("github-action.md", workflow),
    "inputs": ("github-action.md", inputs),
    "outputs": ("github-action.md", outputs),
    "agent workflow": ("agents-in-ci.md", agent_workflow),
    "attest workflow": ("audit.md", attest_workflow),
    "fork workflow": ("github-forks.md", fork_workflow),
}
"""By the comment that stands before it: the guide, and what it shows."""


@pytest.mark.parametrize("name", PARTS)
def test_guide__shows_what_there_is(name: str) -> None:
    guide, shown = PARTS[name]
    text = (GUIDES / guide).read_text(encoding="utf-8")
    part = re.compile(
        rf"(<!-- {name} -->\n)(.*?)(?=\n## |\nEvery action is|\nThe suites need|\n\| Permission |\Z)",
        re.DOTALL,
    )
    if os.environ.get("UPDATE_GOLDEN") == "1":
        text = part.sub(lambda found: found.group(1) + shown(), text)
        (GUIDES / guide).write_text(text, encoding="utf-8")
    found = part.search(text)
    assert found is not None
    assert found.group(2) == shown(), "`make generated` writes the guide anew"
