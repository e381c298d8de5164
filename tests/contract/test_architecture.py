"""What the architecture page and the contributing guide say is held to the code."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agent_eval"
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
LONGEST_MODULE = 600
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}


def rows(section: str) -> Iterator[list[str]]:
    """The cells of every table row of a section of the architecture page, its heads left out."""
    text = ARCHITECTURE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    assert text, f"there is no section {section!r}"
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def configured_floors() -> list[set[str]]:
    """The packages of each floor as import-linter holds them, lowest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["type"] == "layers")
    return [{name.strip(" ()") for name in layer.split("|")} for layer in reversed(contract["layers"])]


def packages() -> set[str]:
    found = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return found | {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}


def test_every_package_is_listed_on_its_floor():
    floors = configured_floors()
    listed = {name.strip("`"): int(floor) for floor, name, _ in rows("Packages and floors")}
    assert set(listed) == packages()
    assert {
        name: floor for floor, names in enumerate(floors, 1) for name in names if name in listed
    } == listed


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:agent_eval|docs|tests|benchmarks|ci-templates|scripts)/[\w./-]*)`", text))
    assert named
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_a_page_names_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`|true )make ([a-z][\w-]*)", text, re.MULTILINE))
    assert named
    missing = {name for name in named if not re.search(rf"^(?:\w+ )*{name}\b.*:", makefile, re.MULTILINE)}
    assert missing == set()


def test_every_table_that_a_new_part_is_registered_in_exists():
    tables = {
        (row[2].split("`")[3], row[2].split("`")[1]) for row in rows("To add …") if row[2].count("`") == 4
    }
    assert len(tables) >= 3
    for path, table in tables:
        assert re.search(rf"^{table}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), (
            path,
            table,
        )


WORDS = (ROOT / "docs/reference/words.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^\| ([a-z][a-z ]+) \| [A-Z]", WORDS, re.MULTILINE)
GONE = (
    *("tiers?", "tracked", "collecting", "expected fail", "promote me", "excuses?", "suspects?"),
    *("confirmations?", "fresh trials?", "confirmed", "cleared", "not graded", "zero tolerance", "topics?"),
    *("anchor", "non-inferiority", "loosened", "quality budget", "judged twice", "pooled baseline"),
    *("history key", "drift issue"),
)
"""Words that have plainer ones; the page on versions may name what an earlier version called so."""


def prose(page: Path) -> str:
    """A page without what is in code spans and fences."""
    text = re.sub(r"^(`{3,}).*?^\1`*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`", "", text)


def test_the_glossary_has_each_word_once_and_none_that_no_guide_uses() -> None:
    assert len(TERMS) == len(set(TERMS)) == 25
    guides = " ".join(prose(page) for page in (ROOT / "docs" / "guides").glob("*.md")).lower()
    assert [term for term in TERMS if not re.search(rf"\b{term}", guides)] == []


GUIDES = sorted(
    page
    for page in (ROOT / "docs").rglob("*.md")
    if page.parent.name != "decisions" and page.name != "upgrading.md"
)


FIRST = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "AGENTS")]


@pytest.mark.parametrize("page", [*FIRST, *GUIDES], ids=lambda page: page.stem)
def test_no_page_speaks_a_dialect(page: Path) -> None:
    assert re.findall(rf"\b(?:{'|'.join(GONE)})\b", prose(page), re.IGNORECASE) == []


def test_no_module_is_too_long_to_read_or_named_vaguely():
    modules = sorted(PACKAGE.rglob("*.py"))
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in modules
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}
    assert [str(path) for path in modules if path.stem in VAGUE] == []


def test_the_drawing_names_every_step_of_the_data():
    drawing = (ROOT / "docs/architecture.svg").read_text(encoding="utf-8")
    for word in (
        "suite",
        "agent",
        "traces",
        "verdicts",
        "evidence pack",
        "comparison",
        "gate decision",
        "reports",
    ):
        assert f">{word}<" in drawing, word
