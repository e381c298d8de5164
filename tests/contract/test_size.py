"""How large the project is. Raising a number is an edit that somebody makes on purpose, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.cli.main import COMMANDS, GROUPS
from agent_eval.config.table import OPTIONS
from agent_eval.contracts.policy import GatePolicy

ROOT = Path(__file__).parents[2]


def lines(files: list[Path]) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in files)


SOURCES = sorted((ROOT / "agent_eval").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))

SIZES = {
    "lines of the package": (lines(SOURCES), 78_000), "modules of the package": (len(SOURCES), 361),
    "lines of tests": (lines(TESTS), 72_800),
    "names of options that help shows": (len({option.name for option in OPTIONS}), 103),
    "options of ci": (len({option.name for option in OPTIONS if "ci" in option.commands}), 26),
    "commands in the list": (sum(bool(entry.group) for entry in (COMMANDS | GROUPS).values()), 26),
    "keys of the policy": (len(GatePolicy.model_fields), 12), "guides": (len(GUIDES), 30),
    "words of the guides": (sum(len(path.read_text("utf-8").split()) for path in GUIDES), 38_000),
}  # fmt: skip
"""What there is, and how much of it there may be."""


@pytest.mark.parametrize("what", SIZES)
def test_the_project_is_no_larger_than_it_was(what: str) -> None:
    there_is, at_most = SIZES[what]
    assert there_is <= at_most, f"{what}: subtract, or raise the number here to {there_is:,}, and say why"
    assert there_is > at_most * 0.97, f"{what}: lower the number to {there_is:,}, so that it stays there"
