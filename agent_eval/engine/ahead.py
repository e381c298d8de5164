"""Scoring what is done while other cases are still being run.

Agents mostly wait, so the processor has time for it, and little is left to do when the last one has ended.
Cases are scored in suite order, each once all its trials are done: the pack is the same as without.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from agent_eval.engine.journaled_suite import Slots
from agent_eval.suites.reader import SuiteSource

ScoreNext = Callable[[SuiteSource], None]
"""Scores the next case of a suite."""

MOSTLY_IDLE, MOST_BUSY = 0.45, 0.8
"""Shares of one processor that the other threads use while this one waits. Up to the first it scores without
a pause, up to the second with pauses, beyond it not at all: threads take turns, so agents would slow down."""

SECONDS_AT_A_TIME = 0.1
MOST_IN_A_ROW = 10
"""Times without a pause; then the others are measured again, which is only right while this thread waits."""


def _others() -> float:
    return time.process_time() - time.thread_time()


class Ahead:
    """Scores a few cases at a time, when asked to look whether that can be done.

    Args:
        suite: The suite as it was executed, as if every trial were done.
        slots: Which trials are.
        score_next: Scores the next case.
        busy: Seconds of processor time that the other threads of this process have used.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        suite: SuiteSource,
        slots: Slots,
        score_next: ScoreNext,
        *,
        busy: Callable[[], float] = _others,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._suite, self._slots, self._score_next = suite, slots, score_next
        self._busy, self._clock = busy, clock
        self._position = self._in_a_row = 0
        self._level = 0.0
        self._mark = busy(), clock()

    def look(self) -> bool:
        """Score the next cases that are done, as far as the processor has time for it.

        Returns:
            Whether there is more to do at once.

        Raises:
            AgentEvalError: One cannot be scored.
        """
        if not self._in_a_row:
            self._measure()
        more = self._level <= MOST_BUSY and self._score()
        if more and self._level <= MOSTLY_IDLE and self._in_a_row < MOST_IN_A_ROW:
            self._in_a_row += 1
            return True
        self._in_a_row = 0
        self._mark = self._busy(), self._clock()
        return False

    def _measure(self) -> None:
        busy, began = self._mark
        passed = self._clock() - began
        self._level = (self._busy() - busy) / passed if passed > 0 else 1.0

    def _score(self) -> bool:
        """Score for a moment. Returns whether there is more."""
        until = self._clock() + SECONDS_AT_A_TIME
        while self._is_ready():
            if self._clock() >= until:
                return True
            self._score_next(self._suite)
            self._position += 1
        return False

    def _is_ready(self) -> bool:
        return self._position < self._slots.cases and self._slots.is_done(self._position)
