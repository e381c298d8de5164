"""A GitLab that holds every request to its description, and a runner of one of its projects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.runner import orders
from tests.fakes.contract import Contract
from tests.fakes.gitlab import FakeGitLab
from tests.unit.ci.platforms.gitlab.runner import GitLabRunner


@cache
def contract() -> Contract:
    return Contract("gitlab")


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with FakeGitLab(contract()) as server:
        yield server
    assert server.violations == []


@pytest.fixture
def runner(tmp_path: Path, gitlab: FakeGitLab, monkeypatch: pytest.MonkeyPatch) -> GitLabRunner:
    made = GitLabRunner(tmp_path, gitlab)
    monkeypatch.chdir(made.repository.top)
    made.write_suite(*orders())
    return made
