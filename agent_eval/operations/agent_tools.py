"""The tools of a run's agent: from a live server, from a cassette, from the cases themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_eval.agents.base import AgentOptions, Tools
from agent_eval.agents.cassette import Cassette, open_cassette
from agent_eval.agents.live_tools import open_tool_server
from agent_eval.agents.tools import CaseTools, canonical
from agent_eval.config.spec import AgentSpec
from agent_eval.contracts import Case
from agent_eval.models.retries import Retries
from agent_eval.storage.redaction import Redactor


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
    live = None
    if agent_spec.tools:
        live = open_tool_server(agent_spec.tools, headers=options.headers, retry=Retries())
    if agent_spec.cassette is None:
        return None if live is None else Cassette("record", live=live)
    mode, path = agent_spec.cassette
    if mode == "record" and is_resumed and live is not None:
        return Cassette(mode, live=live)
    return open_cassette(path, mode, live, redacted=redacted)


def tools_of(
    agent_spec: AgentSpec, cassette: Cassette | None, redacted: Callable[[Any], Any]
) -> Callable[[Case], Tools]:
    """Return the function that makes the tools of an attempt."""

    def tools(case: Case) -> Tools:
        beyond = cassette.attempt(case.case_id) if cassette is not None else None
        return CaseTools(case, strict=agent_spec.strict_side_effects, beyond=beyond, redacted=redacted)

    return tools
