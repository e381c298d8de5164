"""A Jenkins, and a runner of one of its multibranch projects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.jenkins import FakeJenkins
from tests.unit.ci.platforms.build_runner import at_work, served
from tests.unit.ci.platforms.jenkins.runner import JenkinsRunner


@pytest.fixture
def jenkins() -> Iterator[FakeJenkins]:
    yield from served(FakeJenkins())


@pytest.fixture
def runner(tmp_path: Path, jenkins: FakeJenkins, monkeypatch: pytest.MonkeyPatch) -> JenkinsRunner:
    return at_work(JenkinsRunner(tmp_path, jenkins), monkeypatch)
