"""A function takes at most six parameters, or its docstring says why it takes more."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from agent_eval.ci.config import PLATFORM_INPUTS
from agent_eval.config.options import Option
from agent_eval.config.table import ROWS

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


# An option changes something: the field that its value goes to is read by the program

PACKAGE = Path(__file__).parents[2] / "agent_eval"


@cache
def names_read() -> frozenset[str]:
    """Every name that a module other than the tables reads: a variable, an attribute, a key as text."""
    tables = PACKAGE / "config" / "rows"
    modules = (
        path for path in PACKAGE.rglob("*.py") if tables not in path.parents and path.name != "gone.py"
    )
    return frozenset(name for path in modules for name in reads(path.read_text(encoding="utf-8")))


def reads(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Constant(value=str(key)):
                yield key.rpartition("__")[2]


@pytest.mark.parametrize("option", [*ROWS, *PLATFORM_INPUTS], ids=lambda option: option.name)
def test_the_value_of_an_option_is_read(option: Option) -> None:
    field = (option.goes_to or option.field).rpartition(".")[2]
    assert field in names_read(), (
        f"`{option.name}` is asked for, and nothing reads `{field}`: use it, or remove it"
    )


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("spec.trials", {"spec", "trials"}),
        ("spec.trials = 1", {"spec"}),
        ("def run(trials): return how['agent__trials']", {"how", "trials"}),
        ("RunSpec(trials=1)\nclass RunSpec:\n    trials: int = 1", {"RunSpec", "int"}),
    ],
)
def test_what_counts_as_reading(source: str, names: set[str]) -> None:
    assert set(reads(source)) == names
