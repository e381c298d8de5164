"""A CircleCI that holds every request to its description, and a runner of one of its projects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.runner import orders
from tests.fakes.circleci import FakeCircleCI
from tests.fakes.contract import Contract
from tests.unit.ci.platforms.circleci.runner import CircleCIRunner


@cache
def contract() -> Contract:
    return Contract("circleci")


@pytest.fixture
def circleci() -> Iterator[FakeCircleCI]:
    with FakeCircleCI(contract()) as server:
        yield server
    assert server.violations == []


@pytest.fixture
def runner(tmp_path: Path, circleci: FakeCircleCI, monkeypatch: pytest.MonkeyPatch) -> CircleCIRunner:
    made = CircleCIRunner(tmp_path, circleci)
    monkeypatch.chdir(made.repository.top)
    made.write_suite(*orders())
    return made
