"""Run trials in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType

from typing_extensions import override

from agent_eval.engine.journaled_suite import FinishedTrial
from agent_eval.engine.scheduler import Crew, TrialRunner
from agent_eval.models.limits import Limit
from agent_eval.storage.background import BackgroundWriter


class TrialThreads(TrialRunner):
    """Runs trials in threads of this process; one more thread writes finished trials. A context manager.

    `run_one` runs a trial, and returns None if the run is being ended.
    """

    def __init__(
        self,
        run_one: Callable[[int], FinishedTrial | None],
        numbers: Iterator[int],
        limit: Limit,
        writer: BackgroundWriter[FinishedTrial],
    ) -> None:
        self._run_one, self._writer = run_one, writer
        self._crew = Crew(self._run, numbers, limit)

    @property
    @override
    def in_flight(self) -> int:
        return self._crew.in_flight

    @override
    def run(self, tick: Callable[[], object]) -> None:

        def check_and_tick() -> None:
            self._writer.check()
            tick()

        self._crew.run(check_and_tick)

    def _run(self, number: int) -> None:
        done = self._run_one(number)
        if done is not None:
            self._writer.put(done, done.line)

    @override
    def stop(self, within: float | None = None) -> None:
        self._crew.stop(within)

    @override
    def settle(self) -> None:
        self._crew.settle()

    def __enter__(self) -> TrialThreads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)
