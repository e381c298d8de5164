"""The guide to the action shows the workflow, the inputs and the outputs that there are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from agent_eval.ci.inputs import INPUTS, OUTPUTS, Input

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "github-action.md"


def workflow() -> str:
    bundled = (files("agent_eval.demo") / "starter" / "workflow.yml").read_text(encoding="utf-8")
    return f"```yaml\n{bundled}```\n"


def inputs() -> str:
    rows = [f"| `{row.name}` | {_default(row)} | {row.description} |" for row in INPUTS]
    return "\n".join(["| Input | Default | |", "| :-- | :-- | :-- |", *rows]) + "\n"


def outputs() -> str:
    rows = [f"| `{row.name}` | {row.description} |" for row in OUTPUTS]
    return "\n".join(["| Output | |", "| :-- | :-- |", *rows]) + "\n"


def _default(row: Input) -> str:
    default = row.default or row.action_default
    return f"`{default}`" if default else "required" if row.required else ""


PARTS: dict[str, Callable[[], str]] = {"workflow": workflow, "inputs": inputs, "outputs": outputs}


@pytest.mark.parametrize("name", PARTS)
def test_guide__shows_what_there_is(name: str) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    part = re.compile(rf"(<!-- {name} -->\n)(.*?)(?=\n## |\nEvery action is|\Z)", re.DOTALL)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        text = part.sub(lambda found: found.group(1) + PARTS[name](), text)
        GUIDE.write_text(text, encoding="utf-8")
    found = part.search(text)
    assert found is not None
    assert found.group(2) == PARTS[name](), "`make generated` writes the guide anew"
