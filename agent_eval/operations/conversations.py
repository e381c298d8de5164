"""Complete the specification of a run with what a suite of conversations says itself: agent, key, judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agent_eval.agents.base import AgentOptions
from agent_eval.config.spec import AgentSpec, RunSpec
from agent_eval.errors import UsageError
from agent_eval.suites.aui import AuiDocument, SuiteAgent
from agent_eval.suites.aui_faults import KEY_VARIABLE
from agent_eval.suites.reader import SuiteSource

_AUI = ("aui", "aui-v3")
_HOSTED = ("openai", "anthropic")
_FROM_PYTHON = "adapter"


def completed(spec: RunSpec, source: SuiteSource) -> RunSpec:
    """Return the specification with the agent, the judges and the judging model that a suite names.

    What the operator says comes first. A suite of cases changes nothing.

    Raises:
        UsageError: The suite names a model for its agent, whose interface cannot carry one; or a variable for
            its key that the operator did not allow.
    """
    document = source.document
    if not isinstance(document, AuiDocument) or document.agent is None:
        return spec
    judging = spec.judging
    llm = judging.llm if judging.llm.model else replace(judging.llm, model=document.judge_model)
    judging = replace(judging, llm=llm, judges=judging.judges or document.default_judges)
    if spec.agent is None:
        return replace(spec, judging=judging)
    for problem in document.key_problems(spec.agent.key_variables or (KEY_VARIABLE,)):
        raise problem.to_error(str(spec.suite))
    agent = _with_model(_named(spec.agent, document.agent), document.agent, spec.suite)
    return replace(spec, agent=agent, judging=judging)


def _named(spec: AgentSpec, agent: SuiteAgent) -> AgentSpec:
    """Name the suite's own agent, unless the operator named one; an address alone is that of the AUI API."""
    return spec if spec.names_one else replace(spec, name=f"aui:{agent.agent_id}")


def _with_model(spec: AgentSpec, agent: SuiteAgent, suite: Path) -> AgentSpec:
    """Have the agent use the model that the suite names.

    Raises:
        UsageError: The agent's interface cannot carry a model.
    """
    kind = (spec.name or "").partition(":")[0]
    if agent.model is None or kind == _FROM_PYTHON:
        return spec
    if kind in _HOSTED:
        return replace(spec, name=f"{kind}:{agent.model}")
    interface = "the AUI API has no field for one" if kind in _AUI else "its interface cannot carry one"
    raise UsageError(
        f"{suite}: the suite names the model {agent.model!r} for its agent, but {interface}",
        remedy="Remove model from the suite, or run an agent such as openai:MODEL.",
        file=str(suite),
        field="model",
    )


def literal_secrets(source: SuiteSource) -> tuple[str, ...]:
    """Return the key that a suite itself has, which nothing that is written may hold."""
    document = source.document
    agent = document.agent if isinstance(document, AuiDocument) else None
    return (agent.key,) if agent is not None and agent.key_variable is None else ()


def with_key(
    options: AgentOptions, spec: AgentSpec, source: SuiteSource, environ: Mapping[str, str]
) -> AgentOptions:
    """Give an AUI agent the key of its suite.

    Raises:
        UsageError: The variable that the suite names is not set.
    """
    document = source.document
    is_aui = (spec.name or "").partition(":")[0] in _AUI
    if not is_aui or not isinstance(document, AuiDocument) or document.agent is None:
        return options
    return replace(options, environ={**options.environ, KEY_VARIABLE: document.agent.resolved_key(environ)})
