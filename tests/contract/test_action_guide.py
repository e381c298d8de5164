"""Pages show the workflows and the keys that there are."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def workflow() -> str:
    bundled = (files("agent_eval.demo") / "starter" / "workflow.yml").read_text(encoding="utf-8")
    return f"```yaml\n{bundled}```\n"


def fork_workflow() -> str:
    return f"```yaml\n{(ROOT / 'ci-templates' / 'github-fork.yml').read_text(encoding='utf-8')}```\n"


def keys() -> str:
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: str = module.keys()
    return f"\n{table}"


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "workflow": ("guides/github-action.md", workflow),
    "fork workflow": ("guides/github-forks.md", fork_workflow),
    "keys": ("reference/config.md", keys),
}
"""By the comment that stands before it: the page, and what it shows."""


@pytest.mark.parametrize("name", PARTS)
def test_guide__shows_what_there_is(name: str) -> None:
    guide, shown = PARTS[name]
    text = (DOCS / guide).read_text(encoding="utf-8")
    part = re.compile(rf"(<!-- {name} -->\n)(.*?)(?=\n## |\nEvery action is|\Z)", re.DOTALL)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        text = part.sub(lambda found: found.group(1) + shown(), text)
        (DOCS / guide).write_text(text, encoding="utf-8")
    found = part.search(text)
    assert found is not None
    assert found.group(2) == shown(), "`make generated` writes the guide anew"
