"""An agent object of a framework is refused by the framework's name, also where it could be called."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from agent_eval.agents.frameworks import _CLASSES
from agent_eval.agents.load import load_function
from agent_eval.errors import UsageError


def agent_class(name: str) -> type:
    """A class as the framework names it, whose objects can be called."""
    module, _, own = name.rpartition(".")
    return type(own, (), {"__module__": module, "__qualname__": own, "__call__": lambda self, task: "Done."})


@pytest.mark.parametrize("name", _CLASSES)
def test_an_agent_of_a_framework_is_no_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ModuleType("project_agents")
    subclass = type("Mine", (agent_class(name),), {"__module__": "project_agents"})
    own.agent = subclass()  # type: ignore[attr-defined]  # a module takes any attribute
    monkeypatch.setitem(sys.modules, "project_agents", own)
    with pytest.raises(UsageError) as refused:
        load_function("project_agents:agent", what="agent")
    assert f"is an agent of {_CLASSES[name]}" in str(refused.value)
    assert "docs/guides/my-agent.md" in refused.value.remedy


def test_a_callable_object_of_a_projects_own_is_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ModuleType("agents")
    own.agent = agent_class("agents.Agent")()  # type: ignore[attr-defined]  # a module takes any attribute
    monkeypatch.setitem(sys.modules, "agents", own)
    assert load_function("agents:agent", what="agent") is own.agent
