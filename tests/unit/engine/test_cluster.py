"""Score shards on another executor: the pack is the same, and a lost task is an error."""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import SHARD_CASES
from agent_eval.engine import cluster as clusters
from agent_eval.engine.cluster import ALONE_SECONDS, Cluster, dask_cluster, versions_here, watch_of
from agent_eval.errors import NotEvaluable, UsageError
from tests.unit.engine.conftest import MakeSuite, Score

VERSIONS = versions_here(["orjson"])


def test_no_more_tasks_are_given_than_can_be_held(score: Score, make_suite: MakeSuite) -> None:
    pool = _Counting()
    suite = make_suite(5 * SHARD_CASES)
    score(suite, layout="compact", cluster=pool.cluster(1))
    assert pool.most == 2
    assert pool.task_count == 5


def test_other_versions_are_refused(score: Score, out: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        other = Cluster(pool, 1, {**VERSIONS, "orjson": "0.0.1", "python": "2.7.18"})
        with pytest.raises(NotEvaluable, match=r"orjson \S+ instead of 0.0.1, python \S+ instead of 2.7.18"):
            score(3, cluster=other)
    assert not out.exists()


def test_a_lost_task_is_not_evaluable(score: Score) -> None:
    pool = _Counting(failing=lambda number: number == 1)
    with pytest.raises(NotEvaluable, match="cases 250 to 499 were not scored by the cluster: RuntimeError"):
        score(600, cluster=pool.cluster(4))


def test_a_cluster_that_returns_nothing_is_checked(score: Score, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "CHECK_SECONDS", 0.01)

    def check_alive() -> None:
        raise NotEvaluable("the cluster is gone")

    pool = _Silent()
    cluster = Cluster(pool, 1, VERSIONS, check_alive)
    with pytest.raises(NotEvaluable, match="the cluster is gone"):
        score(600, cluster=cluster)
    assert [future.cancelled() for future in pool.futures] == [True, True]


def test_a_cluster_without_workers_is_given_up_after_a_while() -> None:
    now = 0.0
    client = _Client(threads=[2, 0, OSError("gone"), 1, 0, 0])
    check_alive = watch_of(client, clock=lambda: now)
    for seconds in (20, 20, 15, 0, ALONE_SECONDS):
        check_alive()
        now += seconds
    with pytest.raises(NotEvaluable, match="no workers for 60 s"):
        check_alive()


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(UsageError) as caught, dask_cluster("tcp://127.0.0.1:1", []):
        pass
    assert "extra `dask`" in caught.value.remedy


class _Client:
    def __init__(self, threads: list[Any]) -> None:
        self._threads = iter(threads)

    def nthreads(self) -> dict[str, int]:
        found = next(self._threads)
        if isinstance(found, Exception):
            raise found
        return {"worker": found}


class _Counting(Executor):
    """Does a task when it is waited for the next time; counts."""

    def __init__(self, failing: Callable[[int], bool] = lambda _: False) -> None:
        self.task_count = self.most = self._open = 0
        self._failing = failing
        self._pool = ThreadPoolExecutor(1)

    def cluster(self, at_once: int) -> Cluster:
        return Cluster(self, at_once, VERSIONS)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        number = self.task_count
        self.task_count += 1
        self._open += 1
        self.most = max(self.most, self._open)
        future: Future[Any] = self._pool.submit(self._do, number, fn, *args)
        future.add_done_callback(lambda _: self._close())
        return future

    def _do(self, number: int, fn: Callable[..., Any], *args: Any) -> Any:
        if self._failing(number):
            raise RuntimeError("the worker was killed")
        return fn(*args)

    def _close(self) -> None:
        self._open -= 1


class _Silent(Executor):
    """Never does anything."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]
