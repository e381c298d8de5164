"""An option changes something: the field that its value goes to is read by the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from agent_eval.ci.config import PLATFORM_INPUTS
from agent_eval.config.options import Option
from agent_eval.config.table import ROWS

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
