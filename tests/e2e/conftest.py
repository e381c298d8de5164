"""The GitHub that the end-to-end tests talk to: every difference from its description fails the test.

And repositories whose main was evaluated before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.runner import Runner
from tests.e2e.scenarios.repository import Evaluated
from tests.fakes.contract import Contract
from tests.fakes.github import FakeGitHub


@pytest.fixture(scope="session")
def contract() -> Contract:
    return Contract("github")


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return Evaluated(tmp_path_factory.mktemp("evaluated"))


@pytest.fixture
def github(contract: Contract) -> Iterator[FakeGitHub]:
    with FakeGitHub(contract) as server:
        yield server
    assert server.violations == []


@pytest.fixture
def runner(tmp_path: Path, github: FakeGitHub) -> Runner:
    return Runner(tmp_path, github)
