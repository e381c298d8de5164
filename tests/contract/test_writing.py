"""Only agent_eval.storage opens files for writing: atomic writes, redaction and limits live there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "agent_eval"
WRITING_METHODS = {"write_text", "write_bytes", "touch", "rename", "symlink_to", "copyfile"}
WRITING_MODES = set("wax+")


def writes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every call that creates or changes a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in WRITING_METHODS or (name in {"open", "fdopen"} and opens_for_writing(node)):
            yield node.lineno, name


def opens_for_writing(call: ast.Call) -> bool:
    """Whether a mode among the arguments says so."""
    texts = [
        argument.value
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    return any(len(text) <= 3 and WRITING_MODES & set(text) for text in texts)


def test_only_storage_writes_files():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "storage"
        for line, name in writes(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_a_call_that_writes_is_found():
    text = "open('a', 'w'); path.open(mode='ab'); open('r'); path.write_text('x'); path.read_text()"
    assert [name for _, name in writes(ast.parse(text))] == ["open", "open", "write_text"]
