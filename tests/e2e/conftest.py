"""The GitHub that the end-to-end tests talk to. Every difference from GitHub's description fails the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.runner import Runner
from tests.fakes.github import FakeGitHub
from tests.fakes.github_contract import Contract
from tests.shared_data import shared_path


@pytest.fixture(scope="session")
def contract() -> Contract:
    return Contract(shared_path("contracts/github-openapi-subset.json.gz"))


@pytest.fixture
def github(contract: Contract) -> Iterator[FakeGitHub]:
    with FakeGitHub(contract) as server:
        yield server
    assert server.violations == []


@pytest.fixture
def runner(tmp_path: Path, github: FakeGitHub) -> Runner:
    return Runner(tmp_path, github)
