"""Trials at once: as many as are wanted, or as a provider takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from agent_eval.engine.scheduler import Crew, FixedLimit
from agent_eval.models.retries import AdaptiveLimit, limit_of


def nothing() -> None:
    """A tick that does nothing."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("places", [1, 3, 8])
def test_every_item_is_done_once_and_never_too_many_at_a_time(places: int) -> None:
    done: list[int] = []
    busy: set[int] = set()
    most = 0
    lock = threading.Lock()

    def work(item: int) -> None:
        nonlocal most
        with lock:
            busy.add(item)
            most = max(most, len(busy))
        time.sleep(0.001)
        with lock:
            busy.discard(item)
            done.append(item)

    Crew(work, iter(range(60)), FixedLimit(places)).run(nothing)
    assert sorted(done) == list(range(60))
    assert most <= places
    assert places == 1 or most > 1


def test_items_are_begun_in_order() -> None:
    begun: list[int] = []
    Crew(begun.append, iter(range(50)), FixedLimit(1)).run(nothing)
    assert begun == list(range(50))


def test_what_work_raises_ends_everything() -> None:
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Crew(work, iter(range(1000)), FixedLimit(2)).run(nothing)
    assert len(begun) < 1000


def test_what_the_items_raise_is_raised() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError

    with pytest.raises(LookupError):
        Crew(lambda _: None, items(), FixedLimit(2)).run(nothing)


def test_stopped_it_begins_nothing_new_and_finishes_what_was_begun() -> None:
    done: list[int] = []

    def work(item: int) -> None:
        time.sleep(0.3)
        done.append(item)

    crew = Crew(work, iter(range(100)), FixedLimit(2))
    crew.run(crew.stop)
    assert 1 <= len(done) <= 4


def test_interrupted_it_leaves_behind_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_eval.engine.scheduler.GRACE_SECONDS", 0.1)
    gate = threading.Event()

    def interrupt() -> None:
        raise KeyboardInterrupt

    crew = Crew(lambda _: gate.wait(30) and None, iter(range(2)), FixedLimit(2))
    with pytest.raises(KeyboardInterrupt):
        crew.run(interrupt)
    began = time.monotonic()
    crew.settle()
    assert time.monotonic() - began < 20
    gate.set()
    crew.settle()


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


def test_a_crew_grows_with_its_limit() -> None:
    limit = AdaptiveLimit(1, most=16)
    most = 0
    busy = 0
    lock = threading.Lock()

    def work(_: int) -> None:
        nonlocal most, busy
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.01)
        limit.report(failed=False)
        with lock:
            busy -= 1

    Crew(work, iter(range(400)), limit).run(nothing)
    assert 4 <= most <= 16


def test_left_behind_what_takes_longer_than_it_may() -> None:
    gate = threading.Event()
    done: list[int] = []

    def work(item: int) -> None:
        if item:
            gate.wait(30)
        done.append(item)

    crew = Crew(work, iter(range(3)), FixedLimit(3))
    began = time.monotonic()
    crew.run(lambda: crew.stop(within=0.1))
    assert time.monotonic() - began < 20
    assert done == [0]
    assert crew.in_flight == 2
    gate.set()
    crew.settle()
    assert sorted(done) == [0, 1, 2]


def test_an_account_has_one_controller_and_what_has_none_its_own() -> None:
    assert limit_of("http://a x") is limit_of("http://a x")
    assert limit_of("http://a x") is not limit_of("http://a y")
    assert limit_of(None) is not limit_of(None)


def test_crews_of_one_account_share_its_places() -> None:
    limit = AdaptiveLimit(3, most=3)
    busy: set[tuple[int, int]] = set()
    most = 0
    lock = threading.Lock()
    done: list[tuple[int, int]] = []

    def run(crew: int) -> None:
        def work(item: int) -> None:
            nonlocal most
            with lock:
                busy.add((crew, item))
                most = max(most, len(busy))
            time.sleep(0.005)
            with lock:
                busy.discard((crew, item))
                done.append((crew, item))

        Crew(work, iter(range(40)), limit).run(nothing)

    crews = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for crew in crews:
        crew.start()
    for crew in crews:
        crew.join()
    assert len(set(done)) == 80
    assert most == 3
