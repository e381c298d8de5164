"""A simulated Buildkite agent: a checkout, its variables, and a `buildkite-agent` that keeps annotations."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.platforms.buildkite.job import Buildkite
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.errors import AgentEvalError
from agent_eval.http.retry import Patience
from tests.e2e.runner import STRICT
from tests.factories import make_suite
from tests.fakes.buildkite import AGENT_TOKEN, TOKEN, WEB, FakeBuildkite
from tests.unit.ci.platforms.repository import Repository

EVIDENCE = "agent-eval-out/evidence.zip"
OWN, FORK = "git@git.example:acme/shop.git", "https://git.example/mallory/shop"
_AGENT = """\
#!/bin/sh
[ "$BUILDKITE_AGENT_ACCESS_TOKEN" = "{token}" ] || {{ echo "no token" >&2; exit 1; }}
[ "$1 $2 $4" = "annotate --context --style" ] || {{ echo "not annotate: $*" >&2; exit 1; }}
echo "$5" > "{left}/$3.style"
cat > "{left}/$3.md"
"""


@dataclass(frozen=True)
class Step:
    """How the job ended, and what it left."""

    code: int
    log: str
    report: str


class BuildkiteRunner:
    """One pipeline's agent. The checkout has one commit on main; `base` is its name.

    Args:
        root: Where the checkout and the programs are made.
        buildkite: The Buildkite it talks to.
    """

    def __init__(self, root: Path, buildkite: FakeBuildkite) -> None:
        self.buildkite = buildkite
        self.repository = Repository(root / "checkout")
        self.base = self.repository.git("rev-parse", "HEAD")
        self.repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.annotations, self._programs = root / "annotations", root / "bin"
        for directory in (self.annotations, self._programs):
            directory.mkdir()
        agent = self._programs / "buildkite-agent"
        agent.write_text(_AGENT.format(token=AGENT_TOKEN, left=self.annotations))
        agent.chmod(0o755)
        self.waits: list[float] = []

    def write_suite(self, *cases: dict[str, object]) -> None:
        """A suite in the checkout."""
        (self.repository.top / "suite.json").write_text(json.dumps(make_suite(*cases, dataset_id="shop")))

    def push(self, number: int, **inputs: str) -> Step:
        """The build of a push to main; its evidence is uploaded."""
        if number not in self.buildkite.builds:
            self.buildkite.add_build(number, commit=self.base)
        step = self._start(number, {"BUILDKITE_BRANCH": "main", "BUILDKITE_COMMIT": self.base}, inputs)
        self.buildkite.add_artifact(number, EVIDENCE, (self.repository.top / EVIDENCE).read_bytes())
        return step

    def pull_request(
        self,
        number: int = 500,
        *,
        source: str = OWN,
        environ: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """The build of pull request 7 into main."""
        self.repository.branch("topic", self.base)
        head = self.repository.commit()
        self.buildkite.add_build(
            number, branch="topic", commit=head, state="running", pull_request={"id": "7"}
        )
        variables = {
            "BUILDKITE_BRANCH": "topic",
            "BUILDKITE_COMMIT": head,
            "BUILDKITE_PULL_REQUEST": "7",
            "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
            "BUILDKITE_PULL_REQUEST_REPO": source,
            **(environ or {}),
        }
        return self._start(number, variables, inputs)

    def annotation(self) -> tuple[str, str]:
        """Style and body of the annotation; empty for none."""
        style, body = (self.annotations / f"agent-eval-default.{kind}" for kind in ("style", "md"))
        return (style.read_text().strip(), body.read_text()) if body.exists() else ("", "")

    def _start(self, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        given = {
            "suite": "suite.json",
            "buildkite_token": TOKEN,
            "buildkite_api_url": self.buildkite.url,
            **STRICT,
            **inputs,
        }
        environ = {
            **self.repository.environ,
            "PATH": f"{self._programs}:{self.repository.environ['PATH']}",
            "BUILDKITE": "true",
            "BUILDKITE_ORGANIZATION_SLUG": "acme",
            "BUILDKITE_PIPELINE_SLUG": "shop",
            "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
            "BUILDKITE_BUILD_NUMBER": str(number),
            "BUILDKITE_BUILD_URL": f"{WEB}/builds/{number}",
            "BUILDKITE_JOB_ID": f"0190a3b4-{number}",
            "BUILDKITE_REPO": OWN,
            "BUILDKITE_PULL_REQUEST": "false",
            "BUILDKITE_AGENT_ACCESS_TOKEN": AGENT_TOKEN,
            "AGENT_EVAL_CLOCK": "2026-01-13T08:00:00+00:00",
            **{f"AGENT_EVAL_{name.upper()}": value for name, value in given.items()},
            **variables,
        }
        stream = io.StringIO()
        try:
            code = int(run_job({}, environ, stream, make_platform=self._platform))
        except AgentEvalError as error:
            code = int(error.exit_code)
            print(f"Error: {error.message} {error.remedy}", file=stream)
        report = self.repository.top / "agent-eval-out" / "report.md"
        step = Step(code, stream.getvalue(), report.read_text() if report.exists() else "")
        files = [path for path in (self.repository.top / "agent-eval-out").rglob("*") if path.is_file()]
        everything = step.log + self.annotation()[1] + "".join(path.read_text("latin-1") for path in files)
        assert TOKEN not in everything
        assert AGENT_TOKEN not in everything
        return step

    def _platform(self, settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> Platform:
        return Buildkite(settings, environ, stream, sleep=self.waits.append, patience=Patience(attempts=2))
