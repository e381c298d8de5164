"""Set up the model that plays the users of a suite's conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent_eval.agents.base import Agent
from agent_eval.config.spec import RunSpec
from agent_eval.conversation.simulated_user import Simulation, read_prompt, released_prompt
from agent_eval.models.base import Model
from agent_eval.operations.models import llm_key
from agent_eval.suites.reader import SuiteSource

_WITHOUT_KEY = frozenset({"claude-code", "scripted"})
"""Providers that need no key."""


def simulation_for(
    spec: RunSpec,
    agent: Agent,
    suite: SuiteSource,
    environ: Mapping[str, str],
    open_model: Callable[[], Model],
) -> Simulation | None:
    """Open the model that plays users; None where no case has a conversation, or no model is named.

    Args:
        spec: Specification of the run.
        agent: The agent; one that replays recorded traces needs no user.
        suite: The chosen cases.
        environ: The environment variables.
        open_model: Opens the model, which judges have in common with it.

    Raises:
        AgentEvalError: The model cannot be used, or the operator's prompt cannot be read.
    """
    if agent.replays or not _is_named(spec, environ) or not _has_conversation(suite):
        return None
    prompt = spec.agent.user_prompt if spec.agent is not None else None
    return Simulation(open_model(), read_prompt(prompt) if prompt is not None else released_prompt())


def _is_named(spec: RunSpec, environ: Mapping[str, str]) -> bool:
    llm = spec.judging.llm
    return llm.provider in _WITHOUT_KEY or llm.base_url is not None or llm_key(llm, environ) is not None


def _has_conversation(suite: SuiteSource) -> bool:
    return any(
        raw_case.raw.get("conversation") is not None
        for shard in suite.shards
        for raw_case, _ in suite.read(shard)
    )
