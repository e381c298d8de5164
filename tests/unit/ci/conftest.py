"""The job within this process: the same simulated runner, without waiting and without a contract."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

import pytest

from agent_eval.ci.clone import Remote
from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.platforms.catalog import platform_for
from agent_eval.ci.platforms.github import GitHub
from agent_eval.ci.platforms.spec import PlatformSettings
from agent_eval.errors import AgentEvalError
from agent_eval.http.retry import Patience
from tests.e2e.runner import Runner
from tests.fakes.git_host import GitHost, serving
from tests.fakes.github import FakeGitHub


class InProcess(Runner):
    """Calls `run_job`; `waits` collects what it would have slept, `patience` is how long GitHub may take."""

    def __init__(self, root: Path, github: FakeGitHub) -> None:
        super().__init__(root, github)
        self.waits: list[float] = []
        self.patience: Patience | None = None

    def execute(self, environ: dict[str, str], command: tuple[str, ...]) -> tuple[int, str]:
        stream = io.StringIO()
        try:
            code = int(run_job({}, environ, stream, make_platform=self._platform))
        except AgentEvalError as error:
            return int(error.exit_code), f"{stream.getvalue()}Error: {error.message} {error.details}"
        return code, stream.getvalue()

    def _platform(self, settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> Platform:
        if environ.get("GITHUB_ACTIONS") == "true":
            return GitHub(settings, environ, stream, sleep=self.waits.append, patience=self.patience)
        return platform_for(settings, environ, stream)


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        yield server
    assert server.violations == []


@pytest.fixture
def runner(tmp_path: Path, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    made = InProcess(tmp_path, github)
    monkeypatch.chdir(made.workspace)
    return made


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GitHost]:
    with serving(tmp_path / "host", token="job-token") as server:
        yield server


def remote(host: GitHost, top: Path) -> Remote:
    """The repository `shop` of the host, which has what a checkout has, with the token of the job."""
    return Remote(host.add("shop.git", top), (host.header,))
