"""What the SDKs of hosted models have in common: errors, and answers read within limits.

Answers are read as bytes, so that a slow or endless one is cut off and a broken one is told as such; SDKs
know time limits between two reads only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from agent_eval.agents.helper_thread import GRACE_SECONDS, HelperThread
from agent_eval.agents.protocol import Sent
from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable, UsageError
from agent_eval.http.waiting import asked_wait
from agent_eval.storage.json_reader import parse

_UNLIMITED = 24 * 3600.0
_REFUSED = {
    401: "Set the key for it, and check that it is still valid.",
    403: "Check what the key may do.",
    404: "Check the address and the model's name.",
}
_BUSY = frozenset({408, 429, 529})
_RATE_LIMITED = frozenset({429, 529})
"""Anthropic says 529 when it is overloaded: that too is a reason to ask for less at once."""


_helpers = HelperThread()


class _TooLong(Exception):
    """More bytes than allowed."""


def check_address(url: str | None) -> None:
    """Refuse what is no address of a model; SDKs find that out when they send the first request.

    Raises:
        UsageError: It is none.
    """
    if url is None:
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            f"{url!r} cannot be used as the address of a model",
            remedy="Write it as https://host/v1 or http://host:port/v1.",
        )


def receive(
    sdk: ModuleType,
    open_answer: Callable[[float], AbstractContextManager[Any]],
    *,
    seconds: float | None,
    max_bytes: int,
) -> Sent[dict[str, Any]]:
    """Send a request and read its JSON object.

    Args:
        sdk: The package, for its errors.
        open_answer: Sends the request with a time limit in seconds; gives what `with_streaming_response`
            gives.
        seconds: For all of it.
        max_bytes: What the answer may be long.

    Raises:
        NotEvaluable: The service refuses whatever would be asked: no valid key, no such model.
    """
    limit = _UNLIMITED if seconds is None else seconds
    deadline = time.monotonic() + limit

    def send() -> bytes:
        with open_answer(limit) as response:
            return _read(response, deadline, max_bytes)

    try:
        # SDKs know time limits between two reads only, also while they read headers.
        data = _helpers.call(send, None if seconds is None else seconds + GRACE_SECONDS)
    except _TooLong:
        return Sent(failure=FailureKind.OUTPUT_LIMIT, problem=f"answered with more than {max_bytes} bytes")
    except sdk.APIStatusError as error:
        return _refused(error)
    # The rest is about the connection: an SDK's error, or that of whichever HTTP library it reads with.
    except Exception as error:
        if time.monotonic() >= deadline or "Timeout" in type(error).__name__:
            return Sent(failure=FailureKind.TIMEOUT, problem="did not answer in time")
        problem = f"could not be reached: {type(error).__name__}"
        return Sent(failure=FailureKind.INFRASTRUCTURE, problem=problem)
    return _parsed(data)


def _read(response: Any, deadline: float, max_bytes: int) -> bytes:
    data = bytearray()
    for piece in response.iter_bytes():
        data += piece
        if len(data) > max_bytes:
            raise _TooLong
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(data)


def _parsed(data: bytes) -> Sent[dict[str, Any]]:
    try:
        value = parse(data, source="the model's answer")
    except InvalidInput as error:
        return Sent(failure=FailureKind.PARSE_ERROR, problem=f"gave no JSON: {error.message}")
    if not isinstance(value, dict):
        return Sent(failure=FailureKind.TYPE_ERROR, problem="answered with something else than an object")
    return Sent(value)


def _refused(error: Any) -> Sent[dict[str, Any]]:
    status = int(error.status_code)
    words = f"answered with HTTP {status}: {_message(error)}"
    if status in _REFUSED:
        raise NotEvaluable(f"the model {words}", remedy=_REFUSED[status], status=status)
    if status in _BUSY or status >= 500:
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        wait = _milliseconds(headers)
        if wait is None:
            wait = asked_wait(status, headers, now=time.time())
        return Sent(
            failure=FailureKind.INFRASTRUCTURE,
            problem=words,
            asked_wait=wait,
            rate_limited=status in _RATE_LIMITED,
        )
    return Sent(failure=FailureKind.AGENT_ERROR, problem=words)


def _milliseconds(headers: Mapping[str, str]) -> float | None:
    """Some services ask to wait in `retry-after-ms`."""
    stated = headers.get("retry-after-ms", "")
    return int(stated) / 1000 if stated.isascii() and stated.isdigit() and len(stated) < 12 else None


def _message(error: Any) -> str:
    """What the service says of it, in one bounded line."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error", body)
    said = inner.get("message") if isinstance(inner, dict) else None
    text = said if isinstance(said, str) else "no explanation"
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:300]
