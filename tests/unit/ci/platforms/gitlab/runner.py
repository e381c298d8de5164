"""A simulated GitLab runner: a checkout, the predefined variables, and the artifacts that a job leaves."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.platforms.gitlab import GitLab
from agent_eval.ci.platforms.spec import PlatformSettings
from agent_eval.errors import AgentEvalError
from agent_eval.http.retry import Patience
from tests.e2e.runner import STRICT
from tests.factories import make_suite
from tests.fakes.gitlab import FORK, JOB_TOKEN, PROJECT, TOKEN, WEB, FakeGitLab
from tests.unit.ci.platforms.repository import Repository

EVIDENCE = "agent-eval-out/evidence.zip"


@dataclass(frozen=True)
class Step:
    """How the job ended, and what it left."""

    code: int
    log: str
    report: str


class GitLabRunner:
    """One project's runner. The checkout has two commits on main, `earlier` and `base`.

    Args:
        root: Where the checkout is made.
        gitlab: The GitLab it talks to.
    """

    def __init__(self, root: Path, gitlab: FakeGitLab) -> None:
        self.gitlab = gitlab
        self.repository = Repository(root / "checkout")
        self.earlier = self.repository.git("rev-parse", "HEAD")
        self.base = self.repository.commit()
        self.waits: list[float] = []
        self._job = 90_000

    def write_suite(self, *cases: dict[str, object]) -> None:
        """A suite in the checkout."""
        (self.repository.top / "suite.json").write_text(json.dumps(make_suite(*cases, dataset_id="shop")))

    def push(
        self, pipeline: int, *, branch: str = "main", commit: str = "", source: str = "push", **inputs: str
    ) -> Step:
        """The job of a push; its artifacts are kept."""
        commit = commit or self.base
        self.repository.check_out(commit)
        if pipeline not in self.gitlab.pipelines:
            self.gitlab.add_pipeline(pipeline, sha=commit, ref=branch)
        step = self._start(pipeline, {"CI_COMMIT_BRANCH": branch, "CI_PIPELINE_SOURCE": source}, inputs)
        self.gitlab.add_job(pipeline, self.artifacts())
        return step

    def merge_request(
        self,
        pipeline: int = 500,
        *,
        source: int = PROJECT,
        runs_in: int = PROJECT,
        environ: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """The job of merge request 7 into main, for a commit that is made where none was."""
        if self.repository.git("rev-parse", "HEAD") in (self.base, self.earlier):
            self.repository.branch("topic", self.base)
            self.repository.commit()
        self.gitlab.add_pipeline(pipeline, source="merge_request_event", ref="refs/merge-requests/7/head")
        variables = {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_PROJECT_ID": str(runs_in),
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_PROJECT_URL": WEB,
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": str(source),
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.base,
            "CI_MERGE_REQUEST_EVENT_TYPE": "detached",
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "",
            **(environ or {}),
        }
        return self._start(pipeline, variables, inputs)

    def artifacts(self) -> dict[str, bytes]:
        """The files below the output directory, by path."""
        top = self.repository.top
        paths = [path for path in (top / "agent-eval-out").rglob("*") if path.is_file()]
        return {path.relative_to(top).as_posix(): path.read_bytes() for path in paths}

    def _start(self, pipeline: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        self._job += 1
        self.gitlab.branches["main"] = self.base
        given = {"suite": "suite.json", "gitlab_token": TOKEN, **STRICT, **inputs}
        environ = {
            **self.repository.environ,
            "GITLAB_CI": "true",
            "CI_PROJECT_ID": str(PROJECT),
            "CI_PROJECT_DIR": str(self.repository.top),
            "CI_API_V4_URL": self.gitlab.url,
            "CI_JOB_TOKEN": JOB_TOKEN,
            "CI_JOB_ID": str(self._job),
            "CI_JOB_NAME": "agent-eval",
            "CI_JOB_URL": f"{WEB}/-/jobs/{self._job}",
            "CI_PIPELINE_ID": str(pipeline),
            "CI_COMMIT_SHA": "c" * 40,
            "CI_DEFAULT_BRANCH": "main",
            "AGENT_EVAL_CLOCK": "2026-01-13T08:00:00+00:00",
            **{f"AGENT_EVAL_{name.upper()}": value for name, value in given.items()},
            **variables,
        }
        code, log = self.execute(environ)
        report = self.repository.top / "agent-eval-out" / "report.md"
        step = Step(code, log, report.read_text() if report.exists() else "")
        self._nothing_leaks(step)
        return step

    def execute(self, environ: Mapping[str, str]) -> tuple[int, str]:
        """Run the job in this process; its exit code and everything it printed."""
        stream = io.StringIO()
        try:
            code = int(run_job({}, environ, stream, make_platform=self._platform))
        except AgentEvalError as error:
            code = int(error.exit_code)
            print(f"Error: {error.message} {error.remedy}", file=stream)
        return code, stream.getvalue()

    def _platform(self, settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> Platform:
        return GitLab(settings, environ, stream, sleep=self.waits.append, patience=Patience(attempts=2))

    def _nothing_leaks(self, step: Step) -> None:
        written = b"".join(self.artifacts().values()).decode("utf-8", "replace")
        issues = "".join(row["title"] + row["description"] for row in self.gitlab.issues.values())
        everything = step.log + step.report + "".join(self.gitlab.bodies()) + issues + written
        assert TOKEN not in everything
        assert JOB_TOKEN not in everything


__all__ = ["EVIDENCE", "FORK", "GitLabRunner", "Step"]
