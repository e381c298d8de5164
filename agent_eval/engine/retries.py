"""Trying again after failures of the infrastructure, and only of that.

A verdict is never retried: an agent that answered was evaluated, however it answered. Waiting here is the
engine's time, not the agent's.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from agent_eval.http.waiting import Patience, backoff

T = TypeVar("T")

PATIENCE = Patience(attempts=5, first_wait=1.0, longest_wait=90.0, total_wait=300.0)
"""How often and how long, unless the caller says otherwise."""


@dataclass
class Retries:
    """When to try again, and how often that was done. One for all threads of a run.

    Args:
        patience: Attempts, waits and their sum, for each piece of work.
        stopping: Set when the run stops; ends every wait.
        chance: From 0 to 1; spreads threads that failed together.
    """

    patience: Patience = PATIENCE
    stopping: threading.Event = field(default_factory=threading.Event)
    chance: Callable[[], float] = random.random
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, work: Callable[[], T], is_infrastructure: Callable[[T], bool], asked: Callable[[T], float | None]
    ) -> tuple[T, int]:
        """Do a piece of work until the infrastructure lets it, or patience ends.

        Args:
            work: Gives a result and does not raise.
            is_infrastructure: Whether a result is none, because something between us and the agent failed.
            asked: Seconds that the service asked to wait, as in `Retry-After`; None when it did not.

        Returns:
            The last result, and how often the work was tried again.
        """
        waited, attempt = 0.0, 1
        while True:
            result = work()
            if not is_infrastructure(result) or attempt >= self.patience.attempts:
                return result, attempt - 1
            wait = asked(result)
            wait = backoff(attempt, self.patience, self.chance()) if wait is None else wait
            waited += wait
            if wait > self.patience.longest_wait or waited > self.patience.total_wait:
                return result, attempt - 1
            if self.stopping.wait(wait):
                return result, attempt - 1
            attempt += 1
            with self._lock:
                self.count += 1
