"""A function takes at most six parameters, or its docstring says why it takes more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 6
REASON = re.compile(r"More than six parameters: \S.{15,}", re.DOTALL)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters(function: Function) -> list[str]:
    """Every parameter but the instance or class of a method."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    gathered = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    names = [argument.arg for argument in (*named, *gathered)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def is_command(function: Function) -> bool:
    """Whether click calls it, which passes every option by name."""
    calls = (decorator.func for decorator in function.decorator_list if isinstance(decorator, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr == "command" for called in calls)


def too_many(source: str) -> Iterator[str]:
    """`line: name` of each function with too many parameters and no reason; `__init__` has its class's."""
    nodes = list(ast.walk(ast.parse(source)))
    classes = {part: node for node in nodes if isinstance(node, ast.ClassDef) for part in node.body}
    for node in nodes:
        if not isinstance(node, Function) or is_command(node) or len(parameters(node)) <= MOST:
            continue
        documented = classes[node] if node.name == "__init__" else node
        if REASON.search(ast.get_docstring(documented) or "") is None:
            yield f"{node.lineno}: {node.name} takes {len(parameters(node))}"


def test_no_function_takes_more_than_six_parameters_without_a_reason() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{where}"
        for path in sorted((ROOT / "agent_eval").rglob("*.py"))
        for where in too_many(path.read_text(encoding="utf-8"))
    ]
    assert not found, (
        "give what travels together a name (a dataclass), or write `More than six parameters: <reason>` into "
        "the docstring:\n" + "\n".join(found)
    )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(a, /, b, c, d, e, *f, **g): ...", ["1: f takes 7"]),
        ("class C:\n    async def f(self, a, b, c, d, e, f): ...", []),
        ("class C:\n    async def f(self, a, b, c, d, e, f, g): ...", ["2: f takes 7"]),
        (
            "class C:\n    '''More than six parameters: all have a default.'''\n"
            "    def __init__(self, a, b, c, d, e, f, g): ...",
            [],
        ),
        ("@click.command()\ndef f(a, b, c, d, e, f, g): ...", []),
        ("@other()\ndef f(a, b, c, d, e, f, g): ...", ["2: f takes 7"]),
        ("def f(a, b, c, d, e, f, g):\n    '''More than six parameters: fields of one record.'''", []),
        ("def f(a, b, c, d, e, f, g):\n    '''More than six parameters: why.'''", ["1: f takes 7"]),
    ],
)
def test_what_counts_as_a_parameter(source: str, found: list[str]) -> None:
    assert list(too_many(source)) == found
