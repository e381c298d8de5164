"""A shard that is scored while its cases are still coming."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from agent_eval.contracts import Case
from agent_eval.engine.plan import ScoringJob
from agent_eval.engine.shard import ShardOutcome, score_cases
from agent_eval.judges.base import Judge
from agent_eval.suites.document import RawCase, Shard
from agent_eval.suites.reader import SuiteSource


class BegunShard:
    """A shard whose cases come one by one.

    Args:
        job: Its suite is as if all its cases were there.
        judges: The judges.
        shard: Which shard.
    """

    def __init__(self, job: ScoringJob, judges: Sequence[Judge], shard: Shard) -> None:
        self._job, self._shard = job, shard
        self._taken = 0
        self._rest: SuiteSource | None = None
        self._scored = score_cases(job, judges, shard, self._cases())
        self._outcome: ShardOutcome | None = None

    def _cases(self) -> Iterator[tuple[RawCase, Case]]:
        reading = self._job.suite.read(self._shard)
        while self._rest is None:
            found = next(reading, None)
            if found is None:
                return
            self._taken += 1
            yield found
        shard = self._rest.shards[self._shard.index]
        yield from islice(self._rest.read(shard), self._taken, None)

    def score_next(self) -> bool:
        """Score the next case. Returns whether that was the last, or could not be scored."""
        self._advance()
        return self._outcome is not None or self._taken == self._shard.count

    def go_on_with(self, suite: SuiteSource) -> None:
        """Take what is left from this suite, which may have fewer cases."""
        self._rest = suite

    def finish(self) -> ShardOutcome:
        """Score what is left, and give what became of the shard."""
        while self._outcome is None:
            self._advance()
        return self._outcome

    def _advance(self) -> None:
        try:
            next(self._scored)
        except StopIteration as end:
            self._outcome = end.value

    def close(self) -> None:
        """Let go of its files."""
        self._scored.close()
