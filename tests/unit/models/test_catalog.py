"""A provider is one file and one row: where its name is needed elsewhere, it is read from the catalog."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import agent_eval
from agent_eval import models
from agent_eval.agents.catalog import AGENTS
from agent_eval.config.table import ROWS
from agent_eval.models.base import Model
from agent_eval.models.catalog import DEFAULT_PROVIDER, MODELS
from tests.fakes.models import FAKES

_FORMATS_OF_IMPORTS = ("importers", "config/rows/commands.py")
"""Where `openai` and `anthropic` are formats of recorded conversations."""
_SCRIPTED_OF_ITSELF = ("judges/builtin/llm.py", "ci/demonstration.py", "reports/conversations.py")
"""Where reports and demonstrations speak of the scripted model alone."""
_PYTHON_NAME_OF_THE_SPECIFICATION = ("agents/adapter.py",)


def test_every_model_of_the_package_is_in_the_catalog() -> None:
    found = set()
    for module in pkgutil.iter_modules(models.__path__):
        loaded = importlib.import_module(f"agent_eval.models.{module.name}")
        for value in vars(loaded).values():
            is_own = isinstance(value, type) and value.__module__ == loaded.__name__
            if is_own and issubclass(value, Model) and value.default_model:
                found.add((value.kind, f"{loaded.__name__}:{value.__name__}"))
    assert found == {(row.name, row.location) for row in MODELS.values()}


def test_every_option_that_names_a_provider_offers_all_of_the_catalog() -> None:
    options = [option for option in ROWS if option.goes_to in ("judging.llm.provider", "provider")]
    assert options
    for option in options:
        assert (option.choices, option.default) == (tuple(MODELS), DEFAULT_PROVIDER)


def test_every_provider_whose_models_are_agents_is_one_and_has_a_server_for_tests() -> None:
    testable = [row.name for row in MODELS.values() if row.is_agent]
    assert testable == [name for name in AGENTS if name in MODELS] == list(FAKES), (
        "add its server to FAKES of tests/fakes/models.py"
    )
    assert {name: AGENTS[name].key_variable for name in testable} == {
        name: MODELS[name].key_variable for name in testable
    }


def test_the_name_of_a_provider_stands_nowhere_else() -> None:
    root = Path(agent_eval.__file__).parent
    allowed = ("models/", *_FORMATS_OF_IMPORTS, *_SCRIPTED_OF_ITSELF, *_PYTHON_NAME_OF_THE_SPECIFICATION)
    named = [
        f"{path.relative_to(root)}:{node.lineno} names {node.value}"
        for path in sorted(root.rglob("*.py"))
        if not str(path.relative_to(root)).startswith(allowed)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in MODELS
    ]
    assert named == [], "read it from agent_eval.models.catalog"
