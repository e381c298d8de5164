"""A Buildkite that holds every request to its description, and an agent of one of its pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.runner import orders
from tests.fakes.buildkite import FakeBuildkite
from tests.fakes.contract import Contract
from tests.unit.ci.platforms.buildkite.runner import BuildkiteRunner


@cache
def contract() -> Contract:
    return Contract("buildkite")


@pytest.fixture
def buildkite() -> Iterator[FakeBuildkite]:
    with FakeBuildkite(contract()) as server:
        yield server
    assert server.violations == []


@pytest.fixture
def runner(tmp_path: Path, buildkite: FakeBuildkite, monkeypatch: pytest.MonkeyPatch) -> BuildkiteRunner:
    made = BuildkiteRunner(tmp_path, buildkite)
    monkeypatch.chdir(made.repository.top)
    made.write_suite(*orders())
    return made
