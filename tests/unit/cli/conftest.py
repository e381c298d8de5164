"""A directory of its own for each test, and the command line in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.shell import EXAMPLES, Shell


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
def examples(here: Path, cli: Shell) -> None:
    """`good`, and `bad`, which holds a comparison with it: runs of the bundled examples."""
    for name in ("good", "bad"):
        cli.out("run", str(EXAMPLES / f"suite_{name}.json"), "--out", name, "--run-id", name)
    cli.out("compare", "--baseline", "good", "--candidate", "bad")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line."""
    return Shell(capsys)
