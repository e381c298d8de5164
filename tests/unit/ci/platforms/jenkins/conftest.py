"""A Jenkins, and a runner of one of its multibranch projects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.runner import orders
from tests.fakes.jenkins import FakeJenkins
from tests.unit.ci.platforms.jenkins.runner import JenkinsRunner


@pytest.fixture
def jenkins() -> Iterator[FakeJenkins]:
    with FakeJenkins() as server:
        yield server
    assert server.violations == []


@pytest.fixture
def runner(tmp_path: Path, jenkins: FakeJenkins, monkeypatch: pytest.MonkeyPatch) -> JenkinsRunner:
    made = JenkinsRunner(tmp_path, jenkins)
    monkeypatch.chdir(made.repository.top)
    made.write_suite(*orders())
    return made
