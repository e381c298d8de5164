"""A GitLab that holds every request to its description, and a runner of one of its projects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.gitlab import FakeGitLab
from tests.unit.ci.platforms.build_runner import at_work, contract, served
from tests.unit.ci.platforms.gitlab.runner import GitLabRunner


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    yield from served(FakeGitLab(contract("gitlab")))


@pytest.fixture
def runner(tmp_path: Path, gitlab: FakeGitLab, monkeypatch: pytest.MonkeyPatch) -> GitLabRunner:
    return at_work(GitLabRunner(tmp_path, gitlab), monkeypatch)
