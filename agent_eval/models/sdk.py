"""Requests through the SDKs of providers: one answer as a JSON object, or why there is none.

Answers are read as bytes, so that a slow or endless answer is cut off and a malformed one is reported as
such; the SDKs check their time limits only between two reads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable, UsageError
from agent_eval.http.errors import one_line, said_in
from agent_eval.http.retry import stated_wait
from agent_eval.models.retries import Reply
from agent_eval.processes.thread_pool import ThreadPool
from agent_eval.storage.json import Limits, parse

_UNLIMITED = 24 * 3600.0
_REFUSALS = {
    401: "Set the key for it, and check that it is still valid.",
    403: "Check what the key may do.",
    404: "Check the address and the model's name.",
}
"""Statuses that no further request can change, with their remedies."""
_BUSY = frozenset({408, 409, 429, 529})
_EXHAUSTED = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
"""Codes of a refusal that waiting does not change: the account has no credit left."""
_BLOCKS = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
"""Codes of a refusal by a filter, in front of the model."""
_RATE_LIMITED = frozenset({429, 529})
"""Anthropic answers with 529 if it is overloaded: another reason to send fewer requests at a time."""


_GRACE_SECONDS = 0.5
"""Extra time for an SDK that enforces the time limit itself."""
_threads = ThreadPool(1024)


class _AnswerTooLong(Exception):
    """More bytes than allowed."""


def check_address(url: str | None) -> None:
    """Refuse a malformed address of a model, which SDKs notice only in the first request."""
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


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, without a name or password in it.

    Example:
        >>> origin_of("https://ann:secret@Models.example:8443/v1")
        'https://models.example:8443'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def receive(
    sdk: ModuleType,
    open_answer: Callable[[float], AbstractContextManager[Any]],
    *,
    seconds: float | None,
    max_bytes: int,
) -> Reply[dict[str, Any]]:
    """Send a request and parse the JSON object in its answer.

    `sdk` is the SDK's package, for its errors. `open_answer` sends the request with a time limit in seconds,
    and returns what the SDK's `with_streaming_response` returns.

    Raises:
        NotEvaluable: The service would refuse every request: invalid key, unknown model.
    """
    limit = _UNLIMITED if seconds is None else seconds
    deadline = time.monotonic() + limit

    def send() -> bytes:
        received = bytearray()
        with open_answer(limit) as response:
            for piece in response.iter_bytes():
                received += piece
                if len(received) > max_bytes:
                    raise _AnswerTooLong
                if time.monotonic() > deadline:
                    raise TimeoutError
        return bytes(received)

    try:
        # SDKs check time limits only between two reads, also while they read headers.
        data = send() if seconds is None else _threads.submit(send).result(seconds + _GRACE_SECONDS)
    except _AnswerTooLong:
        return Reply(failure=FailureKind.OUTPUT_LIMIT, problem=f"answered with more than {max_bytes} bytes")
    except sdk.APIStatusError as error:
        return _refusal(error)
    # Every other error is one of the connection: the SDK's own, or its HTTP library's.
    except Exception as error:
        if time.monotonic() >= deadline or "Timeout" in type(error).__name__:
            return Reply(failure=FailureKind.TIMEOUT, problem="did not answer in time")
        problem = f"could not be reached: {type(error).__name__}"
        return Reply(failure=FailureKind.INFRASTRUCTURE, problem=problem)
    try:
        value = parse(data, source="the model's answer", limits=Limits(wide_integers=True))
    except InvalidInput as error:
        problem = f"gave no JSON: {error.message}"
        return Reply(failure=FailureKind.PARSE_ERROR, problem=problem, received=data)
    if not isinstance(value, dict):
        problem = "answered with something else than an object"
        return Reply(failure=FailureKind.TYPE_ERROR, problem=problem, received=data)
    return Reply(value)


def unreadable(body: Mapping[str, Any], error: Exception) -> Reply[Any]:
    """Make the reply for an object that is no answer: what its provider says in it, else what is missing."""
    words = one_line(said_in(body), 300) or f"{type(error).__name__} at {error}"
    received = json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
    problem = f"gave no answer that can be read: {words}"[:300]
    return Reply(failure=FailureKind.TYPE_ERROR, problem=problem, received=received)


def _refusal(error: Any) -> Reply[dict[str, Any]]:
    status, details = int(error.status_code), _details(error.body)
    codes = {value for value in (details.get("code"), details.get("type")) if isinstance(value, str)}
    nothing = "a redirect, which is not followed" if 300 <= status < 400 else "no explanation"
    explanation = one_line(said_in(error.body), 300) or nothing
    words = f"answered with HTTP {status}: {explanation}"
    if status in _REFUSALS:
        raise NotEvaluable(f"the model {words}", remedy=_REFUSALS[status], status=status)
    if status in _BUSY and codes & _EXHAUSTED:
        raise NotEvaluable(f"the model {words}", remedy="Check the plan and the bill.", status=status)
    if status in _BUSY or status >= 500:
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        return Reply(
            failure=FailureKind.INFRASTRUCTURE,
            problem=words,
            asked_wait=stated_wait(headers, now=time.time()),
            rate_limited=status in _RATE_LIMITED,
        )
    received = json.dumps(error.body, default=str).encode("utf-8", "replace") if error.body else b""
    block = next(iter(sorted(codes & _BLOCKS)), None)
    return Reply(failure=FailureKind.AGENT_ERROR, problem=words, received=received, block_reason=block)


def refused_names(received: bytes) -> str:
    """Return the parameter and the code that the body of a refusal names."""
    try:
        details = _details(json.loads(received))
    except ValueError:
        return ""
    return " ".join(value for value in (details.get("param"), details.get("code")) if isinstance(value, str))


def _details(body: Any) -> Mapping[str, Any]:
    details = body.get("error", body) if isinstance(body, dict) else {}
    return details if isinstance(details, dict) else {}
