"""Every command, flag and word that the specifications name is used by a row."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.blackbox.rows import PROMISES, load, row_of

NAMES: dict[str, Any] = yaml.safe_load((PROMISES / "names.yaml").read_text(encoding="utf-8"))
GROUPS = {"registry", "schema", "report"}
ROW_FILES = ("suite_evidence.yaml", "suite_tools.yaml", "conversations.yaml", "places.yaml")
PROGRAMS = ("agent-eval", "aui-evals")


def lines() -> Iterator[str]:
    """The command lines of every row that is kept today."""
    for name in ROW_FILES:
        for row in map(row_of, load(name)):
            yield from (step.line for step in row.steps if row.xfail is None)


def used() -> dict[tuple[str, str], set[str]]:
    """Flags by program and command."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in lines():
        program, *words = shlex.split(line)
        if program in PROGRAMS:
            command = " ".join(words[: 2 if words[0] in GROUPS else 1])
            found[program, command] |= {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    return found


@pytest.mark.parametrize(
    ("group", "program"),
    [("commands", "agent-eval"), ("reference", "agent-eval"), ("aui-evals", "aui-evals")],
)
def test_each_command_and_flag_has_a_row(group: str, program: str) -> None:
    rows = used()
    missing = [
        f"{program} {command} --{flag}" if flag else f"{program} {command}"
        for command, flags in NAMES[group].items()
        for flag in flags or [""]
        if (program, command) not in rows or (flag and flag not in rows[program, command])
    ]
    assert missing == []


def test_each_word_is_in_a_row() -> None:
    text = "\n".join((PROMISES / name).read_text(encoding="utf-8") for name in (*ROW_FILES, "judges.yaml"))
    promised = [word for words in NAMES["words"].values() for word in _flat(words)]
    assert [word for word in promised if not _stands_in(word, text)] == []


def test_each_judge_that_is_promised_has_a_row() -> None:
    assert set(NAMES["judges"]) <= {row["judge"] for row in load("judges.yaml")}


def _stands_in(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w])", text) is not None


def _flat(words: list[Any]) -> Iterator[str]:
    for word in words:
        yield from _flat(word) if isinstance(word, list) else [word]
