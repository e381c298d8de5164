"""Send requests to agents and tool servers: once each, with failures as values. Callers decide on retries."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from agent_eval.errors import FailureKind, UsageError
from agent_eval.http.client import Session
from agent_eval.http.errors import AnswerTooLarge, HttpError, RefusedRedirect
from agent_eval.http.retry import Patience, asked_wait, is_rate_limit
from agent_eval.models.reply import Reply

_ERRORS = tuple(range(400, 600))
_CONNECT_SECONDS = 10.0
_UNLIMITED = 24 * 3600.0


class Address:
    """An address that receives JSON by POST. Safe to use from many threads, which share its connections.

    Args:
        url: The address; `http` is allowed, for agents on a private network.
        secret_headers: Headers that are sent to this origin only, and never shown.

    Raises:
        UsageError: `url` is malformed.

    Example:
        >>> Address("http://localhost:1/run").post({}, seconds=5, max_bytes=1024).failure.value
        'infrastructure'
    """

    def __init__(self, url: str, *, secret_headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        patience = Patience(
            attempts=1, connect_timeout=_CONNECT_SECONDS, read_timeout=_UNLIMITED, transfer_timeout=_UNLIMITED
        )
        try:
            self._session = Session(url, secret_headers=secret_headers, patience=patience, plain_http=True)
        except HttpError as error:
            raise UsageError(
                f"{url!r} cannot be used as an address: {error.message}",
                remedy="Write it as https://host/path or http://host:port/path, without a user name.",
            ) from None

    def close(self) -> None:
        """Close the connections to the address."""
        self._session.close()

    def post(self, body: Any, *, seconds: float | None, max_bytes: int) -> Reply[bytes]:
        """Send JSON and return the bytes of the answer.

        The failure is `TIMEOUT` if the answer takes longer than `seconds`, `OUTPUT_LIMIT` if it has more than
        `max_bytes`, `INFRASTRUCTURE` for a refused or broken connection, too many requests, or a gateway that
        cannot reach the service, and `AGENT_ERROR` for any other error status.
        """
        began = time.monotonic()
        try:
            answer = self._session.request(
                "POST", self.url, json=body, accept=_ERRORS, max_bytes=max_bytes, seconds=seconds
            )
        except AnswerTooLarge:
            return Reply(
                failure=FailureKind.OUTPUT_LIMIT, problem=f"answered with more than {max_bytes} bytes"
            )
        except RefusedRedirect as error:
            return Reply(
                failure=FailureKind.AGENT_ERROR, problem=f"answered with a redirect: {error.message}"
            )
        except HttpError as error:
            if seconds is not None and time.monotonic() - began >= seconds:
                return Reply(failure=FailureKind.TIMEOUT, problem=f"did not end within {seconds:g} s")
            return Reply(failure=FailureKind.INFRASTRUCTURE, problem=f"could not be reached: {error.message}")
        if answer.status < 400:
            return Reply(answer.body)
        problem = f"answered with HTTP {answer.status}: {answer.excerpt}"
        wait = asked_wait(answer.status, answer.headers, now=time.time())
        limited = is_rate_limit(answer.status, answer.headers, answer.body)
        if limited or answer.status in (502, 503, 504):
            return Reply(
                failure=FailureKind.INFRASTRUCTURE, problem=problem, asked_wait=wait, rate_limited=limited
            )
        return Reply(failure=FailureKind.AGENT_ERROR, problem=problem)
