"""A Buildkite that holds every request to its description, and an agent of one of its pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.buildkite import FakeBuildkite
from tests.unit.ci.platforms.build_runner import at_work, contract, served
from tests.unit.ci.platforms.buildkite.runner import BuildkiteRunner


@pytest.fixture
def buildkite() -> Iterator[FakeBuildkite]:
    yield from served(FakeBuildkite(contract("buildkite")))


@pytest.fixture
def runner(tmp_path: Path, buildkite: FakeBuildkite, monkeypatch: pytest.MonkeyPatch) -> BuildkiteRunner:
    return at_work(BuildkiteRunner(tmp_path, buildkite), monkeypatch)
