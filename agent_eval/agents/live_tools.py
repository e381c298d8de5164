"""Live tools to record a cassette from: a Python function or an address.

    def call_tool(tool, arguments): return {"status": "shipped"}

An address is sent `{"case_id", "tool", "arguments"}` by POST and answers `{"response": …}` or `{"error": …}`.
A function may take the case's id as a third argument, and may raise.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent_eval.agents.base import Retry, Sent, ToolAnswer, ToolFault, once
from agent_eval.agents.cassette import LiveTools
from agent_eval.agents.http_transport import Address
from agent_eval.agents.load import load_function
from agent_eval.agents.recorder import storable
from agent_eval.agents.tools import answer_of
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.storage.json import parse

SOURCE = "live"
_MAX_BYTES = 8 << 20


class FunctionTools:
    """Tools that a Python function is.

    Args:
        spec: `module:function`.

    Raises:
        UsageError: It cannot be imported.
    """

    def __init__(self, spec: str) -> None:
        self._function = load_function(spec, what="tool server")
        self._wants_case = _takes(self._function, 3)

    def call(self, case_id: str, tool: str, arguments: Any) -> ToolAnswer:
        """See `LiveTools.call`."""
        more = (case_id,) if self._wants_case else ()
        try:
            return answer_of(storable(self._function(tool, arguments, *more)), source=SOURCE)
        # What a tool raises is its error, as the agent would see it.
        except Exception as error:
            return ToolAnswer(error=storable(f"{type(error).__name__}: {error}"), source=SOURCE)


class HttpTools:
    """Tools behind an address.

    Args:
        url: Where they are.
        headers: Sent along, and shown nowhere.
        retry: How calls are repeated that were refused because there were too many.
        seconds: How long one call may take.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        retry: Retry = once,
        seconds: float = 60.0,
    ) -> None:
        self._address = Address(url, secret_headers=headers)
        self._retry, self._seconds = retry, seconds

    def call(self, case_id: str, tool: str, arguments: Any) -> ToolAnswer:
        """See `LiveTools.call`."""
        body = {"case_id": case_id, "tool": tool, "arguments": arguments}
        began = asked = time.monotonic()
        sent: Sent[bytes] = Sent()

        def send() -> Sent[bytes]:
            nonlocal asked, sent
            asked = time.monotonic()
            sent = self._address.post(body, seconds=self._seconds, max_bytes=_MAX_BYTES)
            # Whether a call that got no answer was carried out, nobody knows: only a refusal is tried again.
            return sent if sent.rate_limited else Sent()

        _, retries = self._retry(send)
        if sent.value is None:
            raise ToolFault(FailureKind.INFRASTRUCTURE, f"called {tool}, and the tool server {sent.problem}")
        return replace(_read(sent.value, tool), retries=retries, waited=asked - began if retries else 0.0)


def _read(data: bytes, tool: str) -> ToolAnswer:
    try:
        value = parse(data, source="the tool server's answer")
    except InvalidInput as error:
        raise ToolFault(
            FailureKind.INFRASTRUCTURE, f"called {tool}, and the tool server gave no JSON: {error.message}"
        ) from None
    if not isinstance(value, dict) or not {"response", "error"} & set(value):
        raise ToolFault(
            FailureKind.INFRASTRUCTURE,
            f"called {tool}, and the tool server's answer has neither response nor error",
        )
    if value.get("error") is not None:
        return ToolAnswer(error=value["error"], source=SOURCE)
    return answer_of(value.get("response"), source=SOURCE)


def open_tool_server(
    spec: str, *, headers: Mapping[str, str] | None = None, retry: Retry = once
) -> LiveTools:
    """The tools at an address or in a function.

    Raises:
        UsageError: It is neither.
    """
    if "://" in spec:
        return HttpTools(spec, headers=headers, retry=retry)
    return FunctionTools(spec)


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*(None,) * count)
    except (TypeError, ValueError):
        return False
    return True
