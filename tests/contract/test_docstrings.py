"""Docstrings are true and plain: their examples run, and no dialect returns."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).parents[2] / "agent_eval"
GUIDES = sorted((PACKAGE.parent / "docs" / "guides").glob("*.md"))
SOURCES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}

PLAIN_ROOMS = (
    "__init__",
    "__main__",
    "agents",
    "attestations",
    "ci",
    "cli",
    "comparison",
    "config",
    "contracts",
    "conversation",
    "demo",
    "engine",
    "errors",
    "evidence",
    "exporters",
    "gate",
    "http",
    "importers",
    "judges",
    "models",
    "operations",
    "processes",
    "registry",
    "reports",
    "storage",
    "suites",
    "text",
)
"""Rooms and modules whose prose and names have been read against the rules below. Add yours."""

DIALECT = re.compile(
    r"\b(nobody|somebody|whoever|stands|lies|anew|lets? go|became of|(is|are|was|were) told|of ours)\b", re.I
)
"""Words that read as translated prose, or hide who acts."""

VAGUE_NAMES = {"said", "told", "found", "given", "shown", "left", "taken", "held", "kept", "one", "look"}
"""Names by which a reader cannot search."""

VAGUE_CLASSES = {"Run", "Both", "Joined", "Found", "Open", "Shown"}
"""The same for private classes."""


def plain_sources() -> list[str]:
    return [name for name in SOURCES if name.removesuffix(".py").split("/")[0] in PLAIN_ROOMS]


def module_of(source: str) -> ModuleType:
    parts = source.removesuffix(".py").removesuffix("/__init__").split("/")
    return importlib.import_module(".".join(["agent_eval", *parts]))


def examples_in(text: str) -> int:
    return len(re.findall(r"^\s*>>> ", text, re.MULTILINE))


@pytest.mark.parametrize("source", [name for name, path in SOURCES.items() if examples_in(path.read_text())])
def test_examples_in_docstrings_are_true(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, docstring in enumerate(doctest.DocTestFinder().find(module_of(source))):
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        runner.run(docstring)
    results = runner.summarize(verbose=False)
    assert results.failed == 0, capsys.readouterr().out
    # doctest sees no docstrings of attributes, and no others that it cannot reach from the module.
    assert results.attempted == examples_in(SOURCES[source].read_text()), "an example is never run"


@pytest.mark.parametrize("source", plain_sources())
def test_prose_and_messages_are_plain_english(source: str) -> None:
    assert dialect_in(SOURCES[source]) == []


@pytest.mark.parametrize("guide", [*GUIDES, PACKAGE.parent / "README.md"], ids=lambda guide: guide.name)
def test_guides_are_plain_english(guide: Path) -> None:
    assert dialect_in(guide) == []


def dialect_in(path: Path) -> list[str]:
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    return [f"{number}: {line.strip()}" for number, line in lines if DIALECT.search(line)]


@pytest.mark.parametrize("source", plain_sources())
def test_names_can_be_searched_for(source: str) -> None:
    vague = [
        f"{line}: {name}"
        for line, name in names_in(ast.parse(SOURCES[source].read_text()))
        if name.strip("_") in VAGUE_NAMES | VAGUE_CLASSES
    ]
    assert vague == [], f"{source}: name these after what they hold, so that a search finds them"


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a module defines or assigns to."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def test_dialect_and_vague_names_are_recognized() -> None:
    assert DIALECT.search("A file that nobody reads.")
    assert DIALECT.search("What became of a shard.")
    assert not DIALECT.search("The text that a file has, and its rules.")
    tree = ast.parse(
        "def look(given):\n    for told in given: said = given._kept = told\n    class _Run: pass"
    )
    names = {name.strip("_") for _, name in names_in(tree)}
    assert names == {"look", "given", "told", "said", "kept", "Run"}
    assert names <= VAGUE_NAMES | VAGUE_CLASSES
