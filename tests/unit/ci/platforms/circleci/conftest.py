"""A CircleCI that holds every request to its description, and a runner of one of its projects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.circleci import FakeCircleCI
from tests.unit.ci.platforms.build_runner import at_work, contract, served
from tests.unit.ci.platforms.circleci.runner import CircleCIRunner


@pytest.fixture
def circleci() -> Iterator[FakeCircleCI]:
    yield from served(FakeCircleCI(contract("circleci")))


@pytest.fixture
def runner(tmp_path: Path, circleci: FakeCircleCI, monkeypatch: pytest.MonkeyPatch) -> CircleCIRunner:
    return at_work(CircleCIRunner(tmp_path, circleci), monkeypatch)
