"""Live tools, whose answers a cassette can record: a Python function or an address.

    def call_tool(tool, arguments): return {"status": "shipped"}

A function may take the case's id as a third argument, and may raise. An address receives
`{"case_id", "tool", "arguments"}` by POST and answers `{"response": …}` or `{"error": …}`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agent_eval.agents.base import ToolAnswer, ToolFault
from agent_eval.agents.cassette import LiveTools
from agent_eval.agents.http import Service
from agent_eval.agents.load import accepts, load_function
from agent_eval.agents.recorder import plain
from agent_eval.agents.tools import answer_of
from agent_eval.errors import FailureKind, InvalidInput, words_of
from agent_eval.models.retries import Reply, Retry, send_once
from agent_eval.storage.json import Limits, parse

SOURCE = "live"
"""`ToolAnswer.source` of answers of live tools."""

_MAX_BYTES = 8 << 20
"""Of an answer, or characters of an exception, which the agent reads as a whole."""
_SECONDS = 60.0
"""Time limit of one call."""


def open_tool_server(
    spec: str, *, headers: Mapping[str, str] | None = None, retry: Retry = send_once
) -> LiveTools:
    """Open the tools behind an address, or those that a function implements (`module:function`).

    `headers` are never shown or recorded. `retry` repeats calls that the server refused because of too many
    requests.

    Raises:
        UsageError: `spec` is neither.
    """
    if "://" in spec:
        return partial(_ask, Service(spec, secret_headers=headers), retry)
    function = load_function(spec, what="tool server")
    takes_case_id = accepts(function, 3)

    def call(case_id: str, tool: str, arguments: Any) -> ToolAnswer:
        try:
            response = function(tool, arguments, *([case_id] if takes_case_id else []))
            return answer_of(plain(response), source=SOURCE)
        # An exception of a tool is the tool's error, as the agent would see it.
        except Exception as error:
            return ToolAnswer(error=plain(words_of(error, _MAX_BYTES)), source=SOURCE)

    return call


def _ask(service: Service, retry: Retry, case_id: str, tool: str, arguments: Any) -> ToolAnswer:
    """Call a tool behind an address."""
    body = {"case_id": case_id, "tool": tool, "arguments": arguments}
    first_sent = last_sent = time.monotonic()
    reply: Reply[bytes] = Reply()

    def send() -> Reply[bytes]:
        nonlocal last_sent, reply
        last_sent = time.monotonic()
        reply = service.post(body, seconds=_SECONDS, max_bytes=_MAX_BYTES)
        # A call without an answer may have been carried out, so only a refused call is repeated.
        return reply if reply.rate_limited else Reply()

    _, retries = retry(send)
    if reply.value is None:
        # What a call that arrived does to the server is a matter of its arguments, which the agent chose.
        kept_out = reply.is_infrastructure and (reply.rate_limited or not reply.delivered)
        kind = FailureKind.ENVIRONMENT if kept_out else FailureKind.AGENT_ERROR
        raise ToolFault(kind, f"called {tool}, and the tool server {reply.problem}")
    try:
        value = parse(reply.value, source="the tool server's answer", limits=Limits(wide_integers=True))
    except InvalidInput as error:
        problem = f"called {tool}, and the tool server gave no JSON: {error.message}"
        raise ToolFault(FailureKind.AGENT_ERROR, problem) from None
    if not isinstance(value, dict) or not {"response", "error"} & set(value):
        problem = f"called {tool}, and the tool server's answer has neither response nor error"
        raise ToolFault(FailureKind.AGENT_ERROR, problem)
    answer = answer_of(value.get("response"), source=SOURCE)
    if value.get("error") is not None:
        answer = ToolAnswer(error=value["error"], source=SOURCE)
    return replace(answer, retries=retries, waited=last_sent - first_sent if retries else 0.0)
