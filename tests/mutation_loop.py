"""Run the tests of many changes in one session: a pytest plugin for `tests/run_mutation.py`.

    python -m pytest -p tests.mutation_loop ...      # below `mutants/`, with the environment variable CHANGES

Tests are collected once. Each change runs in a fork, which takes milliseconds, where a session of its own
takes a tenth of a second or more: most changes are noticed by the first test or two.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import pytest

CHANGES = "AGENT_EVAL_TEST_CHANGES"
"""The variable with the path of a file that names the changes to try, one a line."""
UNDER_TEST = "MUTANT_UNDER_TEST"
"""The variable by which mutmut's functions know which change to run."""

NOTICED, SURVIVED, UNTESTED, TIMEOUT = 1, 0, 33, 36
"""Exit codes by which mutmut calls what became known of a change."""
WHOLE_JOBS = {"runner"}
"""Fixtures of tests that drive a whole job, reach nearly everything and take long."""
SECONDS_OF_TESTS = 20.0
"""The quickest tests that reach a change run for it, up to so many seconds together."""
SECONDS_OF_A_NEW_TEST = 0.05
SECONDS_IDLE = 60
"""How long a change may wait for something before it counts as noticed."""


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Try every change instead of running the tests once."""
    names = Path(os.environ[CHANGES]).read_text().splitlines()
    known = json.loads(Path("mutmut-stats.json").read_text())
    seconds: dict[str, float] = known["duration_by_test"]
    items = {item.nodeid: item for item in session.items if not WHOLE_JOBS.intersection(_fixtures(item))}
    scratch: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    # Tests that are newer than what mutmut learnt run for every change, if they pass without any.
    fresh = [
        test
        for test, item in items.items()
        if test not in seconds and try_change("nothing", [item], SECONDS_IDLE) == SURVIVED
    ]
    seconds.update(dict.fromkeys(fresh, SECONDS_OF_A_NEW_TEST))
    found: dict[str, int] = {}
    begun = time.monotonic()
    for number, name in enumerate(names, start=1):
        reached = known["tests_by_mangled_function_name"].get(name.rpartition("__mutmut_")[0], [])
        tests = quickest([*items.keys() & set(reached), *fresh], seconds)
        limit = 3 + 5 * sum(seconds[test] for test in tests)
        found[name] = try_change(name, [items[test] for test in tests], int(limit)) if tests else UNTESTED
        for entry in scratch.iterdir():
            shutil.rmtree(entry, ignore_errors=True)
        if number % 20 == 0 or number == len(names):
            keep(found)
            survived = sum(code == SURVIVED for code in found.values())
            rate = number / (time.monotonic() - begun)
            print(
                f"{number} of {len(names)}: {survived} survived, {rate:.1f} a second",
                file=sys.stderr,
                flush=True,
            )
    return True


def _fixtures(item: pytest.Item) -> Iterable[str]:
    return getattr(item, "fixturenames", ())


def quickest(tests: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
    """Choose the quickest tests, as many as fit the time of one change, and at least one; quickest first."""
    ordered = sorted(set(tests), key=lambda test: (seconds[test], test))
    spent = accumulate(seconds[test] for test in ordered)
    return ordered[: max(1, sum(total <= SECONDS_OF_TESTS for total in spent))] if ordered else []


def try_change(name: str, items: Sequence[pytest.Item], cpu_seconds: int) -> int:
    """Run tests with a change, in a process of its own, until one fails."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        os.environ[UNDER_TEST] = name
        try:
            os._exit(SURVIVED if all_pass(items) else NOTICED)
        except BaseException:
            os._exit(NOTICED)
    status = wait(child)
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        return TIMEOUT
    return SURVIVED if status == 0 else NOTICED


def wait(child: int) -> int | None:
    """Wait for a process; kill it and return None where it does nothing for too long."""
    pause, until = 0.001, time.monotonic() + SECONDS_IDLE
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class _Failed(Exception):
    """Raised by the first test that fails."""


class _FirstFailure:
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            raise _Failed


def all_pass(items: Sequence[pytest.Item]) -> bool:
    """Run tests until one fails."""
    if not items:
        return True
    items[0].config.pluginmanager.register(_FirstFailure())
    try:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    except _Failed:
        return False
    return True


def keep(found: Mapping[str, int]) -> None:
    """Write results where mutmut has its own."""
    by_module: dict[str, dict[str, int]] = defaultdict(dict)
    for name, code in found.items():
        by_module[name.rpartition(".")[0]][name] = code
    for module, codes in by_module.items():
        path = Path(f"{module.replace('.', '/')}.py.meta")
        stated = json.loads(path.read_text())
        stated["exit_code_by_key"].update(codes)
        path.write_text(json.dumps(stated, indent=4))
