"""Functions that wait are called at the same time, and none keeps the process alive."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from agent_eval.processes.thread_pool import ThreadPool


def test_functions_wait_at_the_same_time_and_results_keep_their_order():
    together = threading.Barrier(3, timeout=30)
    with ThreadPool(3) as pool:
        futures = [pool.submit(lambda number=number: (together.wait(), number)[1]) for number in range(3)]
        assert [future.result() for future in futures] == [0, 1, 2]


def test_no_more_threads_are_started_than_allowed():
    names = set()
    with ThreadPool(2) as pool:
        for future in [pool.submit(lambda: names.add(threading.get_ident())) for _ in range(20)]:
            future.result()
    assert 1 <= len(names) <= 2


def test_an_exception_is_raised_where_the_result_is_asked_for():
    def broken() -> None:
        raise LookupError("missing")

    with ThreadPool(1) as pool:
        future = pool.submit(broken)
        with pytest.raises(LookupError, match="missing"):
            future.result()
        assert pool.submit(lambda: 4).result() == 4


def test_what_has_not_begun_is_dropped():
    begun, may_end, later = threading.Event(), threading.Event(), threading.Event()
    with ThreadPool(1) as pool:
        first = pool.submit(lambda: (begun.set(), may_end.wait(30)))
        pool.submit(later.set)
        assert begun.wait(30)
    may_end.set()
    assert first.result(timeout=30)
    for thread in pool._threads:
        thread.join(30)
    assert not later.is_set()


def test_a_function_that_waits_keeps_no_process_alive():
    code = (
        "from agent_eval.processes.thread_pool import ThreadPool\n"
        "import threading\n"
        "begun = threading.Event()\n"
        "with ThreadPool(1) as pool:\n"
        "    pool.submit(lambda: (begun.set(), threading.Event().wait(600)))\n"
        "    begun.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 0
