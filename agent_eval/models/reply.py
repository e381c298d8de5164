"""Results of requests: a value or why there is none; repeated requests; the account they count against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from agent_eval.contracts import digest
from agent_eval.errors import FailureKind

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """Result of one request to an agent or a model: its answer, or why there is none.

    Attributes:
        value: The answer; None if there is none.
        failure: Why there is none. `INFRASTRUCTURE` means that a retry may help.
        rate_limited: Whether the service refused because of too many requests (429); the scheduler then
            sends fewer requests at a time.
        received: What came instead of an answer, for the case's artifacts.
        block_reason: What kept the answer back, such as a content filter; None if nothing is known to have.
        delivered: Whether the request may have reached the service although there is no answer of use.
    """

    value: T | None = None
    failure: FailureKind | None = None
    problem: str = ""
    asked_wait: float | None = None
    rate_limited: bool = False
    received: bytes = b""
    block_reason: str | None = None
    delivered: bool = False

    def without_value(self) -> Reply[Any]:
        """Return the same failure, typed for another kind of answer."""
        return replace(self, value=None)

    @property
    def is_infrastructure(self) -> bool:
        """Whether something between this program and the agent failed."""
        return self.failure is FailureKind.INFRASTRUCTURE


class Retry(Protocol):
    """Repeats a request while the infrastructure fails, up to a limit."""

    def __call__(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
        """Send the request; return the last result, and the number of repetitions."""
        ...


def send_once(send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
    """Send the request once; the `Retry` that repeats nothing."""
    return send(), 0


def account_name(address: str, *credentials: str) -> str:
    """Identify an account at a provider, without revealing its credentials.

    Only scheme and host of the address count, and only a digest of the credentials is in the name.
    """
    origin = "/".join(address.split("/", 3)[:3]).lower()
    return f"{origin} {digest(sorted(credentials))}"
