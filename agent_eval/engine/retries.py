"""Sending a request again after a failure of the infrastructure, and only of that.

A verdict is never retried: an agent that answered was evaluated, however it answered. Waiting here is the
engine's time, not the agent's.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from agent_eval.agents.protocol import Sent
from agent_eval.engine.concurrency import AdaptiveLimit
from agent_eval.http.waiting import Patience, backoff

T = TypeVar("T")

PATIENCE = Patience(attempts=5, first_wait=1.0, longest_wait=90.0, total_wait=300.0)
"""How often and how long, unless the caller says otherwise."""


@dataclass
class Retries:
    """When to send again, and how often that was done. One for all threads of a run; see `agents.Retry`.

    Args:
        patience: Attempts, waits and their sum, for each request.
        stopping: Set when the run stops; ends every wait.
        limit: Is told how requests fare; None where nothing adapts.
        chance: From 0 to 1; spreads threads that failed together.
        wait: Waits for that many seconds; true when the run stops meanwhile.
    """

    patience: Patience = PATIENCE
    stopping: threading.Event = field(default_factory=threading.Event)
    limit: AdaptiveLimit | None = None
    chance: Callable[[], float] = random.random
    wait: Callable[[float], bool] | None = None
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, send: Callable[[], Sent[T]]) -> tuple[Sent[T], int]:
        """Send until the infrastructure lets it through, or patience ends.

        Returns:
            The last answer, and how often it was sent again.
        """
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
