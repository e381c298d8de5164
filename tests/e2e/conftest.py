"""The GitHub that the end-to-end tests talk to: every difference from its description fails the test.

And repositories whose main was evaluated before.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.runner import Runner, Step, orders
from tests.e2e.scenarios.repository import Evaluated
from tests.fakes.contract import Contract
from tests.fakes.github import FakeGitHub


@pytest.fixture(scope="session")
def contract() -> Contract:
    return Contract("github")


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return Evaluated(tmp_path_factory.mktemp("evaluated"))


@pytest.fixture(scope="session")
def left_on_main(contract: Contract, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Step]:
    """What a run on main left in which these orders are bad. Made once: the tests only look at it."""

    @cache
    def left(*bad: int) -> Step:
        with FakeGitHub(contract) as github:
            runner = Runner(tmp_path_factory.mktemp("main"), github)
            runner.write_suite(*orders(bad=bad))
            return runner.push()

    return left


@pytest.fixture
def github(contract: Contract) -> Iterator[FakeGitHub]:
    with FakeGitHub(contract) as server:
        yield server
    assert server.violations == []


@pytest.fixture
def runner(tmp_path: Path, github: FakeGitHub, left_on_main: Callable[..., Step]) -> Runner:
    return Runner(tmp_path, github, left_on_main)
