"""Scoring what is done while other cases are still being run.

Agents mostly wait, so the processor has time for it, and little is left to do when the last one has ended.
Shards are scored in suite order, each once all trials of its cases are done: the pack is the same as without.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from agent_eval.engine.recorded import Slots
from agent_eval.suites.document import Shard
from agent_eval.suites.reader import SuiteSource

ScoreShard = Callable[[SuiteSource, Shard], None]

MOST_BUSY = 0.7
"""Share of one processor that this process may use for more to be put upon it."""


class Ahead:
    """Scores one shard at a time, when asked to look whether that can be done.

    Args:
        suite: The suite as it was executed, as if every trial were done.
        slots: Which trials are.
        score: Scores the next shard.
        busy: Seconds of processor time that this process has used.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        suite: SuiteSource,
        slots: Slots,
        score: ScoreShard,
        *,
        busy: Callable[[], float] = time.process_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._suite, self._slots, self._score = suite, slots, score
        self._busy, self._clock = busy, clock
        self._next = 0
        self._mark = busy(), clock()

    def look(self) -> None:
        """Score the next shard if its cases are done and the processor has time.

        Raises:
            AgentEvalError: It cannot be scored.
        """
        if self._has_time() and self._is_ready():
            self._score(self._suite, self._suite.shards[self._next])
            self._next += 1
        self._mark = self._busy(), self._clock()

    def _has_time(self) -> bool:
        busy, began = self._mark
        return self._busy() - busy <= MOST_BUSY * (self._clock() - began)

    def _is_ready(self) -> bool:
        if self._next == len(self._suite.shards):
            return False
        shard = self._suite.shards[self._next]
        positions = range(shard.first, shard.first + shard.count)
        return all(self._slots.has_all(trial, positions) for trial in range(self._slots.trials))
