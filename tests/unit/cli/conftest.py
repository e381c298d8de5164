"""A directory of its own for each test, and the command line in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.shell import Shell


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test; nothing of the developer's own environment pins a run."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "GITHUB_SHA", "AGENT_EVAL_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still."""
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-01-14T10:00:00+00:00")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line."""
    return Shell(capsys)
