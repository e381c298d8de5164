"""Trials at once: as many as are wanted, or as a provider takes. Each is on disk when it counts."""

import errno
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_eval.engine.journaled_suite import FinishedTrial
from agent_eval.engine.scheduler import Scheduler
from agent_eval.engine.usage import NO_COSTS
from agent_eval.errors import StorageError
from agent_eval.models.retries import AdaptiveLimit, limit_of
from agent_eval.storage import journal as journals
from agent_eval.storage.journal import Journal, encode, read_records


def nothing() -> None:
    """A tick that does nothing."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Bench:
    """Runs numbers in place of trials, and counts how many are in progress."""

    journal: Journal
    pool: ThreadPoolExecutor
    lock: Any = field(default_factory=threading.Lock)
    busy: int = 0
    most: int = 0
    begun: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    recorded: dict[int, int] = field(default_factory=dict)

    def scheduler(
        self,
        numbers: Iterable[int],
        do: Callable[[int], object] = lambda _: time.sleep(0.001),
        *,
        pool: ThreadPoolExecutor | None = None,
        **options: Any,
    ) -> Scheduler:
        def trial(number: int) -> FinishedTrial | None:
            with self.lock:
                self.busy += 1
                self.most = max(self.most, self.busy)
                self.begun.append(number)
            try:
                do(number)
            finally:
                with self.lock:
                    self.busy -= 1
            self.done.append(number)
            return FinishedTrial(number, "passed", NO_COSTS, 0, [], encode([number]))

        def start(number: int) -> Future[FinishedTrial | None]:
            return (pool or self.pool).submit(trial, number)

        return Scheduler(
            journal=self.journal, start=start, numbers=iter(numbers), on_recorded=self.record,
            **{"places": 2, **options},
        )  # fmt: skip

    def record(self, done: FinishedTrial, offset: int) -> None:
        assert [*read_records(self.journal.path, [(offset, None)])] == [[done.number]], "it is on disk"
        self.recorded[done.number] = offset


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Journal.create(tmp_path / "j", {}) as journal, ThreadPoolExecutor(2) as pool:
        yield Bench(journal, pool)


def test_every_trial_is_done_once_and_recorded_when_it_is_told(bench: Bench) -> None:
    bench.scheduler(range(60)).run(nothing)
    assert sorted(bench.done) == sorted(bench.recorded) == list(range(60))
    assert {entry.offset for entry in bench.journal.entries()} == set(bench.recorded.values())


def test_trials_are_begun_in_order(bench: Bench) -> None:
    with ThreadPoolExecutor(1) as one:
        bench.scheduler(range(50), places=1, pool=one).run(nothing)
    assert bench.begun == list(range(50))


def test_a_limit_of_costs_keeps_what_is_in_progress_few(bench: Bench) -> None:
    with ThreadPoolExecutor(8) as many:
        bench.scheduler(range(40), places=8, may_start=lambda running: running < 3, pool=many).run(nothing)
    assert bench.most <= 3
    assert len(bench.done) == 40


def test_what_a_trial_raises_ends_everything_and_keeps_what_is_done(bench: Bench) -> None:
    def do(number: int) -> None:
        if number == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.scheduler(range(1000), do).run(nothing)
    assert len(bench.begun) < 1000
    assert sorted(bench.recorded) == sorted(set(bench.begun) - {3})


def test_what_the_numbers_raise_is_raised(bench: Bench) -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise LookupError

    with pytest.raises(LookupError):
        bench.scheduler(numbers()).run(nothing)


def test_stopped_it_begins_nothing_new_and_finishes_what_was_begun(bench: Bench) -> None:
    stopped = threading.Event()
    scheduler = bench.scheduler(range(100), lambda _: stopped.wait(60))
    scheduler.run(lambda: (scheduler.stop(), stopped.set()))
    assert sorted(bench.recorded) == sorted(bench.begun) == [0, 1]


def test_interrupted_it_waits_a_moment_and_leaves_behind_what_does_not_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.engine.scheduler.GRACE_SECONDS", 2.0)
    interrupted, gate = threading.Event(), threading.Event()

    def interrupt() -> None:
        interrupted.set()
        raise KeyboardInterrupt

    scheduler = bench.scheduler(range(9), lambda number: (gate if number else interrupted).wait(60))
    with pytest.raises(KeyboardInterrupt):
        scheduler.run(interrupt)
    scheduler.settle()
    gate.set()
    assert list(bench.recorded) == [0]


def test_left_behind_what_takes_longer_than_it_may(bench: Bench) -> None:
    gate = threading.Event()
    scheduler = bench.scheduler(range(2), lambda number: number and gate.wait(60))
    scheduler.run(lambda: bench.recorded and scheduler.stop(within=0.1))
    assert (bench.done, scheduler.in_flight) == ([0], 1)
    gate.set()


def test_records_that_wait_share_a_sync(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    sync = journals._sync

    all_ended = threading.Event()

    def slow_sync(descriptor: int) -> None:
        all_ended.wait(60)
        syncs.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(journals, "_sync", slow_sync)
    bench.scheduler(range(50), lambda number: number == 49 and all_ended.set()).run(nothing)
    assert len(bench.recorded) == 50
    assert len(syncs) <= 4  # of the first to end, of those that ended meanwhile, and of the last two


def test_a_full_disk_ends_it_and_nothing_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journals, "_sync", full)
    scheduler = bench.scheduler(range(9))
    with pytest.raises(StorageError, match="No space left"):
        scheduler.run(nothing)
    scheduler.settle()
    assert bench.recorded == {}
    assert list(bench.journal.entries()) == []


def test_a_run_grows_with_its_limit_and_waits_for_a_place_that_another_has(bench: Bench) -> None:
    limit = AdaptiveLimit(1, most=16)
    assert limit.take()
    threading.Timer(0.3, limit.give_back).start()

    def do(_: int) -> None:
        while bench.most < min(4, limit.current()):
            time.sleep(0.001)
        limit.report(failed=False)

    with ThreadPoolExecutor(64) as many:
        bench.scheduler(range(400), do, adaptive=limit, pool=many).run(nothing)
    assert len(bench.done) == 400
    assert 4 <= bench.most <= 16


def test_runs_of_one_account_share_its_places(bench: Bench) -> None:
    limit = AdaptiveLimit(3, most=3)
    with ThreadPoolExecutor(64) as many:
        runs = [
            threading.Thread(target=bench.scheduler(numbers, adaptive=limit, pool=many).run, args=(nothing,))
            for numbers in (range(40), range(40, 80))
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
    assert len(set(bench.done)) == 80
    assert bench.most == 3


def rounds(limit: AdaptiveLimit, count: int, *, taken: float = 1.0) -> list[int]:
    """Places after each clean round, of whose places this share was taken."""
    found = []
    for _ in range(count):
        places = max(1, round(limit.current() * taken))
        assert all(limit.take() for _ in range(places))
        for _ in range(max(limit.current(), AdaptiveLimit.SHORTEST_ROUND) - places):
            limit.report(failed=False)
        for _ in range(places):
            limit.give_back()
            limit.report(failed=False)
        found.append(limit.current())
    return found


def test_places_double_while_all_goes_well() -> None:
    assert rounds(AdaptiveLimit(4, most=50), 5) == [8, 16, 32, 50, 50]


def test_unused_places_do_not_grow() -> None:
    assert rounds(AdaptiveLimit(10), 3, taken=0.5) == [10, 10, 10]


def test_a_refusal_takes_a_fifth_once_per_wait_and_ends_doubling() -> None:
    clock = Clock()
    limit = AdaptiveLimit(40, most=100, clock=clock)
    for _ in range(10):
        limit.report(failed=True, refused=True, asked_wait=5.0)
    assert limit.current() == 32
    assert rounds(limit, 2) == [32, 32]  # what succeeds while others wait does not count
    clock.now = 6.0
    assert rounds(limit, 2) == [33, 35]
    limit.report(failed=True, refused=True)
    assert limit.current() == 28
    clock.now = 20.0
    limit.report(failed=True, refused=True)
    assert limit.current() == 28
    clock.now = 22.0
    limit.report(failed=True, refused=True)
    assert limit.current() == 22


def test_one_place_is_left_whatever_happens() -> None:
    clock = Clock()
    limit = AdaptiveLimit(2, clock=clock)
    for _ in range(10):
        clock.now += 60
        limit.report(failed=True, refused=True)
    assert limit.current() == 1


def test_other_failures_only_delay_growth() -> None:
    limit = AdaptiveLimit(4)
    for _ in range(4):
        assert limit.take()
    for failed in (False, False, False, True, False, False, False):
        limit.report(failed=failed)
    assert limit.current() == 4
    limit.report(failed=False)
    assert limit.current() == 8


def test_an_account_has_one_controller_and_what_has_none_its_own() -> None:
    assert limit_of("http://a x") is limit_of("http://a x")
    assert limit_of("http://a x") is not limit_of("http://a y")
    assert limit_of(None) is not limit_of(None)
