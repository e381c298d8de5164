"""A simulated build on a platform whose baseline is in artifacts: a checkout, variables, and what is left."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pytest

from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.platforms.spec import PlatformSettings
from agent_eval.config.options import variable
from agent_eval.errors import AgentEvalError
from agent_eval.http.retry import Patience
from tests.e2e.runner import STRICT, orders
from tests.factories import make_suite
from tests.fakes.contract import Contract
from tests.job_inputs import job_inputs
from tests.unit.ci.platforms.repository import Repository

EVIDENCE = "agent-eval-out/evidence.zip"
CLOCK = "2026-01-13T08:00:00+00:00"


@dataclass(frozen=True)
class Step:
    """How the job ended, and what it left."""

    code: int
    log: str
    report: str


class BuildRunner:
    """Runs the job in a checkout that has two commits on main, `earlier` and `base`.

    Args:
        root: Where the checkout is made.
        platform: The class of the platform.
        secrets: What may appear nowhere.
    """

    def __init__(self, root: Path, platform: Callable[..., Platform], secrets: tuple[str, ...]) -> None:
        self.repository = Repository(root / "checkout")
        self.earlier = self.repository.git("rev-parse", "HEAD")
        self.base = self.repository.commit()
        self.repository.push("main")
        self.waits: list[float] = []
        self._class, self._secrets = platform, secrets

    @property
    def out(self) -> Path:
        return self.repository.top / "agent-eval-out"

    def write_suite(self, *cases: dict[str, object]) -> None:
        """A suite in the checkout."""
        (self.repository.top / "suite.json").write_text(json.dumps(make_suite(*cases, dataset_id="shop")))

    def change(self) -> str:
        """Begin a branch where main was before; the name of its commit, which is checked out."""
        self.repository.branch("topic", self.base)
        return self.repository.commit()

    def evidence(self) -> bytes:
        """The evidence archive that the last job left."""
        return (self.repository.top / EVIDENCE).read_bytes()

    def start(self, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        """Run the job with a platform's variables. Inputs are named with underscores for hyphens."""
        environ = {
            **self.repository.environ,
            "AGENT_EVAL_CLOCK": CLOCK,
            **{
                variable(name): value
                for name, value in job_inputs({"suite": "suite.json", **STRICT, **inputs}).items()
            },
            **variables,
        }
        code, log = self.execute(environ)
        report = self.out / "report.md"
        step = Step(code, log, report.read_text() if report.exists() else "")
        left = "".join(path.read_text("latin-1") for path in self.out.rglob("*") if path.is_file())
        assert not any(secret in step.log + left for secret in self._secrets)
        return step

    def execute(self, environ: dict[str, str]) -> tuple[int, str]:
        """Run the job within this process; its exit code and log."""
        stream = io.StringIO()
        try:
            code = int(run_job({}, environ, stream, make_platform=self._platform))
        except AgentEvalError as error:
            code = int(error.exit_code)
            print(f"Error: {error.message} {error.remedy}", file=stream)
        return code, stream.getvalue()

    def _platform(self, settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> Platform:
        patience = Patience(attempts=2)
        return self._class(settings, environ, stream, sleep=self.waits.append, patience=patience)


contract = cache(Contract)
Server = TypeVar("Server", bound=Any)
Runner = TypeVar("Runner", bound=BuildRunner)


def served(server: Server) -> Iterator[Server]:
    """Serve a platform's API while a test runs, which must have kept to its description."""
    with server:
        yield server
    assert server.violations == []


def at_work(runner: Runner, patch: pytest.MonkeyPatch) -> Runner:
    """Stand in a runner's checkout, with a suite of which everything passes."""
    patch.chdir(runner.repository.top)
    runner.write_suite(*orders())
    return runner
