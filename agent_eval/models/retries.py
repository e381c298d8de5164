"""Send requests again when the infrastructure fails, within patience and under a provider's limit."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from agent_eval.http.retry import Patience, backoff
from agent_eval.models.limits import AdaptiveLimit
from agent_eval.models.reply import Reply

T = TypeVar("T")

PATIENCE = Patience(attempts=5, first_wait=1.0, longest_wait=90.0, total_wait=300.0)
"""Number of attempts and length of waits, unless the caller sets others."""


@dataclass
class Retries:
    """Sends requests again when the infrastructure fails. All threads of a run share one.

    Implements `reply.Retry`.

    Attributes:
        limit: Receives the result of every request; None if the limit does not adapt.
        chance: Returns a number from 0 to 1, which spreads the retries of threads that failed together.
        wait: Waits for that many seconds; returns True if the run stopped meanwhile.
    """

    patience: Patience = PATIENCE
    stopping: threading.Event = field(default_factory=threading.Event)
    limit: AdaptiveLimit | None = None
    chance: Callable[[], float] = random.random
    wait: Callable[[float], bool] | None = None
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
        """Send until the infrastructure does not fail, or patience ends; return the number of repetitions."""
        waited, attempt = 0.0, 1
        while True:
            sent = send()
            if self.limit is not None:
                self.limit.report(
                    failed=sent.is_infrastructure, refused=sent.rate_limited, asked_wait=sent.asked_wait
                )
            if not sent.is_infrastructure or attempt >= self.patience.attempts:
                return sent, attempt - 1
            seconds = sent.asked_wait
            if seconds is None:
                seconds = backoff(attempt, self.patience, self.chance())
            waited += seconds
            if seconds > self.patience.longest_wait or waited > self.patience.total_wait:
                return sent, attempt - 1
            if (self.wait or self.stopping.wait)(seconds):
                return sent, attempt - 1
            attempt += 1
            with self._lock:
                self.count += 1
