"""Every row of promises holds for the installed program."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.blackbox.installed import Program
from tests.blackbox.rows import PROMISES, BrokenPromise, Places, Row, attempt, load, row_of

NOT_ROWS = {"places.yaml", "names.yaml", "judges.yaml"}
FILES = sorted(path.name for path in PROMISES.glob("*.yaml") if path.name not in NOT_ROWS)
ROWS = {name: [row_of(raw) for raw in load(name)] for name in FILES}


def _parameters() -> list[object]:
    def marks(row: Row) -> list[pytest.MarkDecorator]:
        broken = pytest.mark.xfail(reason=row.xfail or "", strict=True, raises=BrokenPromise)
        return [broken] if row.xfail else []

    return [pytest.param(row, id=row.id, marks=marks(row)) for rows in ROWS.values() for row in rows]


@pytest.mark.parametrize("row", _parameters())
def test_a_promise_is_kept(row: Row, program: Program, places: Places, tmp_path: Path) -> None:
    attempt(row, program, places, tmp_path)


def test_each_row_has_a_name_of_its_own_and_the_promise_that_it_stands_for() -> None:
    rows = [row for rows in ROWS.values() for row in rows]
    assert len({row.id for row in rows}) == len(rows)
    assert [row.id for row in rows if not row.spec or not row.facts] == []


# Every command, flag and word that the specifications name is used by a row

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
