"""Mapping in several processes gives what mapping in one does, in the same order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.engine import in_order
from agent_eval.engine.in_order import map_in_order
from agent_eval.engine.workers import can_fork
from agent_eval.errors import NotEvaluable
from tests.extent import examples

LARGE = bytes(in_order._SLOT_BYTES)
ITEMS = st.lists(
    st.one_of(st.binary(max_size=20), st.integers(), st.sampled_from([LARGE, LARGE[:-8], LARGE[:-9]])),
    max_size=60,
)


@pytest.fixture(autouse=True)
def workers_from_the_first_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "_BEFORE_FORKING", 0)


def children() -> set[int]:
    """Processes that this one has started and not waited for; workers exist on Linux only."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(process) for each in lists for process in each.read_text().split()}


@pytest.fixture
def others() -> set[int]:
    return children()


def described(item: object) -> tuple[object, int]:
    return (item, 0) if isinstance(item, int) else (hash(item), 1)


@settings(max_examples=examples(60), deadline=None)
@given(items=ITEMS, processes=st.integers(1, 4))
def test_results_are_those_of_one_process_in_the_order_of_the_items(
    items: list[object], processes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_order, "_BEFORE_FORKING", 0)
        assert list(map_in_order(described, items, processes)) == [described(item) for item in items]


def process_of(_item: object) -> int:
    return os.getpid()


def test_bytes_go_to_workers_and_everything_else_stays_here() -> None:
    items = [b"item", 1, LARGE] * 20
    processes = list(map_in_order(process_of, items, 3))
    elsewhere = {process for process, item in zip(processes, items, strict=True) if item == b"item"}
    here = {process for process, item in zip(processes, items, strict=True) if item != b"item"}
    assert here == {os.getpid()}
    assert elsewhere - here or not can_fork()


def test_few_items_start_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "_BEFORE_FORKING", 8)
    assert set(map_in_order(process_of, [b"item"] * 8, 3)) == {os.getpid()}


def test_results_larger_than_a_pipe_arrive_whole() -> None:
    results = map_in_order(lambda item: item * (3 << 20), [b"a", b"b", b"c", b"d"], 2)
    assert [(result[:1], len(result)) for result in results] == [
        (each, 3 << 20) for each in (b"a", b"b", b"c", b"d")
    ]


def test_items_are_read_only_a_few_ahead_of_the_results() -> None:
    read = 0

    def source() -> Iterator[bytes]:
        nonlocal read
        while read < 1000:
            read += 1
            yield b"item"

    for taken, _ in enumerate(map_in_order(len, source(), 3), start=1):
        assert read <= taken + in_order._AHEAD


def refuse(item: bytes) -> bytes:
    if item == b"bad":
        raise ValueError("bad item")
    return item


def test_an_exception_reaches_the_caller_and_no_worker_stays(others: set[int]) -> None:
    with pytest.raises(ValueError, match="bad item"):
        list(map_in_order(refuse, [b"good"] * 30 + [b"bad"] + [b"good"] * 30, 3))
    assert children() <= others


def test_closing_early_stops_the_workers(others: set[int]) -> None:
    results = map_in_order(len, (b"item" for _ in range(10_000)), 3)
    assert next(results) == 4
    results.close()
    assert children() <= others


def test_a_worker_that_dies_is_an_error(others: set[int]) -> None:
    here = os.getpid()

    def die(item: bytes) -> bytes:
        if os.getpid() != here:
            os._exit(3)
        return item

    if not can_fork():
        assert len(list(map_in_order(die, [b"item"] * 20, 2))) == 20
        return
    with pytest.raises(NotEvaluable, match="exit code 3"):
        list(map_in_order(die, [b"item"] * 20, 2))
    assert children() <= others
