"""Docstrings are true, and names can be searched for."""

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).parents[2] / "agent_eval"
SOURCES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}

VAGUE_NAMES = {"said", "told", "found", "given", "shown", "left", "taken", "held", "kept", "one", "look"}
"""Names by which a reader cannot search."""

VAGUE_CLASSES = {"Run", "Both", "Joined", "Found", "Open", "Shown"}
"""The same for private classes."""


def module_of(source: str) -> ModuleType:
    parts = source.removesuffix(".py").removesuffix("/__init__").split("/")
    return importlib.import_module(".".join(["agent_eval", *parts]))


def examples_in(text: str) -> int:
    return len(re.findall(r"^\s*>>> ", text, re.MULTILINE))


def test_examples_are_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    never_run = []
    failed = 0
    for source, path in SOURCES.items():
        if not (examples := examples_in(path.read_text("utf-8"))):
            continue
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        for number, docstring in enumerate(doctest.DocTestFinder().find(module_of(source))):
            place = tmp_path / source / str(number)
            place.mkdir(parents=True)
            monkeypatch.chdir(place)
            runner.run(docstring)
        results = runner.summarize(verbose=False)
        failed += results.failed
        # doctest sees no docstrings of attributes, and no others that it cannot reach from the module.
        never_run += [source] * (results.attempted != examples)
    assert failed == 0, capsys.readouterr().out
    assert never_run == [], "an example of these is never run"


def test_names_can_be_searched_for() -> None:
    vague = [
        f"{source}:{line}: {name}"
        for source, path in SOURCES.items()
        if not source.startswith(("benchmarks/", "history/"))
        for line, name in names_in(ast.parse(path.read_text("utf-8")))
        if name.strip("_") in VAGUE_NAMES | VAGUE_CLASSES
    ]
    assert vague == [], "name these after what they hold, so that a search finds them"


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


def test_vague_names_are_recognized() -> None:
    tree = ast.parse("def look(given):\n for told in given: said = given._kept = told\n class _Run: pass")
    names = {name.strip("_") for _, name in names_in(tree)}
    assert names == {"look", "given", "told", "said", "kept", "Run"}
    assert names <= VAGUE_NAMES | VAGUE_CLASSES
