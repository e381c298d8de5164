"""Which framework an agent object is of, told by the names of its classes: nothing is imported for it.

A function is asked for an answer and records what it likes. An agent object of a framework may be callable as
well, and nothing that it does would be recorded: a policy that forbids a tool would pass while it calls that.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_eval.agents.frameworks.conversation import Conversation

_NO_ADAPTER = (
    "Name a function that runs it and returns its answer with its tool calls; "
    "docs/guides/my-agent.md has one to start from."
)


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, with the full names of the base classes of its agents.

    `agents` alone is a module that many projects have. `module` has the framework's `Conversation`; without
    it, its agents are refused, with `remedy`.
    """

    name: str
    module: str | None
    classes: tuple[str, ...]
    remedy: str = _NO_ADAPTER

    def load(self) -> type[Conversation]:
        """Import what runs agents of this framework, which imports the framework."""
        from agent_eval.agents.frameworks.conversation import Conversation  # functions do without

        name = f"agent_eval.agents.frameworks.{self.module}"
        importlib.import_module(name)
        return next(each for each in Conversation.__subclasses__() if each.__module__ == name)


FRAMEWORKS = (
    Framework("LangGraph", "langgraph", ("langgraph.pregel.main.Pregel",)),
    Framework(
        "LangGraph",
        None,
        ("langgraph.graph.state.StateGraph",),
        remedy="Name the compiled graph: what graph.compile() returns.",
    ),
    Framework("LangChain", "langgraph", ("langchain_core.runnables.base.Runnable",)),
    Framework("OpenAI Agents", "openai_agents", ("agents.agent.Agent",)),
    Framework("pydantic-ai", "pydantic_ai", ("pydantic_ai.agent.abstract.AbstractAgent",)),
    Framework("CrewAI", "crewai", ("crewai.crew.Crew", "crewai.agent.core.Agent")),
    Framework(
        "CrewAI",
        None,
        ("crewai.flow.runtime.Flow", "crewai.agents.agent_builder.base_agent.BaseAgent"),
        remedy="Name a crew or an agent of CrewAI, or a function that runs it and returns what it did.",
    ),
    Framework(
        "Google ADK", "google_adk", ("google.adk.agents.base_agent.BaseAgent", "google.adk.apps.app.App")
    ),
    Framework("Strands", "strands", ("strands.agent.agent.Agent",)),
    Framework("Strands", None, ("strands.multiagent.base.MultiAgentBase",)),
    Framework(
        "LlamaIndex",
        "llama_index",
        (
            "llama_index.core.agent.workflow.base_agent.BaseWorkflowAgent",
            "llama_index.core.agent.workflow.multi_agent_workflow.AgentWorkflow",
        ),
    ),
    Framework("smolagents", "smolagents", ("smolagents.agents.ToolCallingAgent",)),
    Framework("smolagents", None, ("smolagents.agents.MultiStepAgent",)),
    Framework("Microsoft Agent Framework", "agent_framework", ("agent_framework._agents.Agent",)),
    Framework("Microsoft Agent Framework", None, ("agent_framework._agents.BaseAgent",)),
    Framework(
        "AutoGen",
        "autogen",
        (
            "autogen_agentchat.agents._base_chat_agent.BaseChatAgent",
            "autogen_agentchat.teams._group_chat._base_group_chat.BaseGroupChat",
        ),
    ),
    Framework(
        "AutoGen", None, ("autogen_agentchat.base._chat_agent.ChatAgent", "autogen_agentchat.base._team.Team")
    ),
    Framework(
        "Semantic Kernel",
        "semantic_kernel",
        ("semantic_kernel.agents.chat_completion.chat_completion_agent.ChatCompletionAgent",),
    ),
    Framework("Semantic Kernel", None, ("semantic_kernel.agents.agent.Agent",)),
)
"""Every framework that is recognised."""

QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""Variables that keep frameworks from the network, which they use without being asked; set where unset."""


def maker_of(value: Any) -> Callable[[], Any] | None:
    """Return what makes an agent: a function without parameters, or a class of CrewAI's; None for others."""
    if getattr(value, "is_crew_class", None) is True:  # with `@CrewBase`, of no base class
        return lambda: value().crew()
    return value if inspect.isfunction(value) and not inspect.signature(value).parameters else None


_BY_CLASS = {name: row for row in FRAMEWORKS for name in row.classes}


def framework_of(value: object) -> Framework | None:
    """Return the framework that an object is an agent of, also by a subclass; None if of none."""
    names = (f"{each.__module__}.{each.__qualname__}" for each in type(value).__mro__)
    return next((_BY_CLASS[name] for name in names if name in _BY_CLASS), None)
