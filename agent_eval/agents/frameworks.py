"""Which framework an agent object is of, told by the names of its classes: nothing is imported for it.

A function is asked for an answer and records what it likes. An agent object of a framework may be callable as
well, and nothing that it does would be recorded: a policy that forbids a tool would pass while it calls that.
"""

from __future__ import annotations

_CLASSES: dict[str, str] = {
    "langgraph.pregel.main.Pregel": "LangGraph",
    "langgraph.graph.state.StateGraph": "LangGraph",
    "langchain_core.runnables.base.Runnable": "LangChain",
    "agents.agent.Agent": "OpenAI Agents",
    "pydantic_ai.agent.abstract.AbstractAgent": "pydantic-ai",
    "crewai.crew.Crew": "CrewAI",
    "crewai.flow.runtime.Flow": "CrewAI",
    "crewai.agents.agent_builder.base_agent.BaseAgent": "CrewAI",
    "google.adk.agents.base_agent.BaseAgent": "Google ADK",
    "google.adk.apps.app.App": "Google ADK",
    "strands.agent.agent.Agent": "Strands",
    "strands.multiagent.base.MultiAgentBase": "Strands",
    "autogen_agentchat.base._chat_agent.ChatAgent": "AutoGen",
    "autogen_agentchat.base._team.Team": "AutoGen",
    "agent_framework._agents.BaseAgent": "Microsoft Agent Framework",
    "semantic_kernel.agents.agent.Agent": "Semantic Kernel",
    "llama_index.core.agent.workflow.base_agent.BaseWorkflowAgent": "LlamaIndex",
    "llama_index.core.agent.workflow.multi_agent_workflow.AgentWorkflow": "LlamaIndex",
    "smolagents.agents.MultiStepAgent": "smolagents",
}
"""Base classes of agents, by their full names: `agents` alone is a module that many projects have."""


def framework_of(value: object) -> str | None:
    """Return the name of the framework that an object is an agent of, also by a subclass; None if of none."""
    names = (f"{each.__module__}.{each.__qualname__}" for each in type(value).__mro__)
    return next((_CLASSES[name] for name in names if name in _CLASSES), None)
