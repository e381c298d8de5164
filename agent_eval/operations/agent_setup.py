"""What a run of an agent is set up with: options, tools, simulated user, and what a suite itself says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_eval.agents.base import Agent, AgentOptions
from agent_eval.agents.cassette import Cassette, open_cassette
from agent_eval.agents.live_tools import open_tool_server
from agent_eval.agents.tools import canonical
from agent_eval.config.spec import AgentSpec, RunSpec
from agent_eval.conversation.simulated_user import Simulation, read_prompt, released_prompt
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.models.base import Model
from agent_eval.models.catalog import MODELS
from agent_eval.models.retries import Retries
from agent_eval.operations.models import llm_key
from agent_eval.storage.files import read_bytes
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.aui import AuiDocument
from agent_eval.suites.aui_faults import KEY_VARIABLE
from agent_eval.suites.reader import SuiteSource

LARGEST_PROMPT = 1 << 20


def agent_options(agent: AgentSpec, environ: Mapping[str, str]) -> AgentOptions:
    """Read the texts and secrets that an agent's specification names.

    Raises:
        UsageError: A header's variable is not set.
        InvalidInput: The system prompt cannot be read.
    """
    for _, variable in agent.headers:
        if not environ.get(variable):
            raise UsageError(
                f"agent-header names the environment variable {variable}, which is not set.",
                remedy="Set it to the value of the header.",
                field="agent-header",
            )
    return AgentOptions(
        environ=environ,
        repair_command=agent.repair_command,
        pass_on=agent.environment,
        keep_alive=agent.keep_alive,
        headers={name: environ[variable] for name, variable in agent.headers},
        gateway=agent.gateway,
        base_url=agent.base_url,
        system=read_system_prompt(agent.system_prompt) if agent.system_prompt is not None else None,
    )


def read_system_prompt(path: Path) -> str:
    """Read the text of a system prompt.

    Raises:
        InvalidInput: The file is missing, larger than a MiB, or not UTF-8.
    """
    try:
        return read_bytes(path, max_bytes=LARGEST_PROMPT).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text", remedy="Save it as UTF-8.", file=str(path)) from None


def redaction_of(redactor: Redactor) -> Callable[[Any], Any]:
    """Return the function that replaces secrets in the arguments of a call, as in files that are written."""

    def redacted(arguments: Any) -> Any:
        has_secret = redactor.may_find_in_json(canonical(arguments).encode())
        return redactor.redact_value(arguments) if has_secret else arguments

    return redacted


def cassette_of(
    agent_spec: AgentSpec, options: AgentOptions, redacted: Callable[[Any], Any], *, is_resumed: bool
) -> Cassette | None:
    """Open the cassette of live tools; None if the run has none.

    A resumed run needs no cassette file: the journal has the calls of earlier trials.
    """
    live, path, mode = None, agent_spec.cassette, agent_spec.cassette_mode
    if agent_spec.tools:
        live = open_tool_server(agent_spec.tools, headers=options.headers, retry=Retries())
    if path is None:
        return None if live is None else Cassette("record", live=live)
    if mode == "record" and is_resumed and live is not None:
        return Cassette(mode, live=live, path=path)
    return open_cassette(path, mode, live, redacted=redacted)


def simulation_for(
    spec: RunSpec,
    agent: Agent,
    suite: SuiteSource,
    environ: Mapping[str, str],
    open_model: Callable[[], Model],
) -> Simulation | None:
    """Open the model that plays users; None where no case has a conversation, or no model is named."""
    llm = spec.judging.llm
    needs_key = llm.provider not in MODELS or MODELS[llm.provider].needs_key
    is_named = not needs_key or llm.base_url is not None or llm_key(llm, environ) is not None
    if agent.replays or not is_named:
        return None
    cases = (raw_case.raw for shard in suite.shards for raw_case, _ in suite.read(shard))
    if all(raw.get("conversation") is None for raw in cases):
        return None
    prompt = spec.agent.user_prompt if spec.agent is not None else None
    return Simulation(open_model(), read_prompt(prompt) if prompt is not None else released_prompt())


_AUI = ("aui", "aui-v3")
_FROM_PYTHON = "adapter"


def completed(spec: RunSpec, source: SuiteSource) -> RunSpec:
    """Return the specification with the agent, the judges and the judging model that a suite names.

    What the operator says comes first. A suite of cases changes nothing.

    Raises:
        UsageError: The suite names a model that its agent's interface cannot carry, or a variable for its key
            that the operator did not allow.
    """
    document, judging = source.document, spec.judging
    if not isinstance(document, AuiDocument) or document.agent is None:
        return spec
    llm = judging.llm if judging.llm.model else replace(judging.llm, model=document.judge_model)
    judging = replace(judging, llm=llm, judges=judging.judges or document.default_judges)
    if spec.agent is None:
        return replace(spec, judging=judging)
    for problem in document.key_problems(spec.agent.key_variables or (KEY_VARIABLE,)):
        raise problem.to_error(str(spec.suite))
    # The operator may have named an agent; an address alone is that of the AUI API.
    own = spec.agent
    named = own if own.names_one else replace(own, name=f"aui:{document.agent.agent_id}")
    kind, model = (named.name or "").partition(":")[0], document.agent.model
    if model is not None and kind in MODELS:
        named = replace(named, name=f"{kind}:{model}")
    elif model is not None and kind != _FROM_PYTHON:
        interface = "the AUI API has no field for one" if kind in _AUI else "its interface cannot carry one"
        raise UsageError(
            f"{spec.suite}: the suite names the model {model!r} for its agent, but {interface}",
            remedy="Remove model from the suite, or run an agent such as openai:MODEL.",
            file=str(spec.suite),
            field="model",
        )
    return replace(spec, agent=named, judging=judging)


def literal_secrets(source: SuiteSource) -> tuple[str, ...]:
    """Return the key that a suite itself has, which nothing that is written may hold."""
    agent = source.document.agent if isinstance(source.document, AuiDocument) else None
    return (agent.key,) if agent is not None and agent.key_variable is None else ()


def with_key(
    options: AgentOptions, spec: AgentSpec, source: SuiteSource, environ: Mapping[str, str]
) -> AgentOptions:
    """Give an AUI agent the key of its suite."""
    agent = source.document.agent if isinstance(source.document, AuiDocument) else None
    if agent is None or (spec.name or "").partition(":")[0] not in _AUI:
        return options
    return replace(options, environ={**options.environ, KEY_VARIABLE: agent.resolved_key(environ)})
