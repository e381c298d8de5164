"""Simulated builds of platforms whose baseline is in artifacts: a checkout, variables, and what is left."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pytest

from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.platforms.buildkite import Buildkite
from agent_eval.ci.platforms.circleci import CircleCI
from agent_eval.ci.platforms.gitlab import GitLab
from agent_eval.ci.platforms.jenkins import Jenkins
from agent_eval.ci.platforms.spec import PlatformSettings
from agent_eval.config.options import variable
from agent_eval.errors import AgentEvalError
from agent_eval.http.retry import Patience
from tests.e2e.runner import STRICT, orders
from tests.factories import make_suite
from tests.fakes import buildkite as of_buildkite
from tests.fakes import circleci as of_circleci
from tests.fakes import gitlab as of_gitlab
from tests.fakes import jenkins as of_jenkins
from tests.fakes.contract import Contract
from tests.job_inputs import job_inputs

EVIDENCE = "agent-eval-out/evidence.zip"
CLOCK = "2026-01-13T08:00:00+00:00"
FORK = "https://git.example/mallory/shop"


class Repository:
    """A checkout on `main` with one commit, and the server that it was cloned from.

    Nothing of the user's configuration counts. `top` is where the checkout is made.
    """

    def __init__(self, top: Path) -> None:
        self.top = top
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(top.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        top.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.server = top.with_name(f"{top.name}.git")
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.server))
        (top / ".git" / "info" / "exclude").write_text("/agent-eval-out/\n")
        (top / "README").write_text("shop\n")
        self.commit()
        self.push("main")

    def commit(self) -> str:
        """Commit everything but what an evaluation writes; the commit's name."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=change")
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, start: str) -> None:
        """Begin a branch at a commit, with the files as they are."""
        self.git("update-ref", f"refs/heads/{name}", start)
        self.git("symbolic-ref", "HEAD", f"refs/heads/{name}")

    def push(self, branch: str, commit: str = "HEAD") -> None:
        """Let a branch of the server point to a commit."""
        self.git("push", "--quiet", "--force", str(self.server), f"{commit}:refs/heads/{branch}")

    def check_out(self, commit: str) -> None:
        """Be at a commit and on no branch, with the files as they are."""
        (self.top / ".git" / "HEAD").write_text(f"{commit}\n")

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        command, options = ["git", *who, *arguments], {"capture_output": True, "text": True, "check": True}
        done = subprocess.run(command, cwd=self.top, env=self.environ, **options)  # type: ignore[call-overload]
        return str(done.stdout.strip())


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

    def __init__(self, root: Path, platform: Callable[..., Platform], *secrets: str) -> None:
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

    def push(self, number: int, *, commit: str = "", **inputs: str) -> Step:
        """The job of a push to main, whose evidence is kept."""
        commit = commit or self.base
        self.repository.check_out(commit)
        self.begin(number, commit)
        step = self.job(number, self.of_main(commit), inputs)
        self.keep(number, commit)
        return step

    def begin(self, number: int, commit: str) -> None:
        """Let the platform list a run of main, unless it does."""

    def of_main(self, commit: str) -> dict[str, str]:
        """The variables of a push to main."""
        raise NotImplementedError

    def job(self, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        """The job of a run with these variables and inputs beside the usual ones."""
        raise NotImplementedError

    def keep(self, number: int, commit: str) -> None:
        """Keep what the job of a run left."""
        raise NotImplementedError

    def start(self, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        """Run the job with a platform's variables. Inputs are named with underscores for hyphens."""
        given = job_inputs({"suite": "suite.json", **STRICT, **inputs})
        environ = {
            **self.repository.environ, "AGENT_EVAL_CLOCK": CLOCK,
            **{variable(name): value for name, value in given.items()}, **variables,
        }  # fmt: skip
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


def named(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    """The variables of a platform, whose names all begin alike."""
    return {f"{prefix}_{name}": value for name, value in values.items()}


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


class GitLabRunner(BuildRunner):
    """One project's runner, with the predefined variables and the artifacts that a job leaves."""

    def __init__(self, root: Path, gitlab: of_gitlab.FakeGitLab) -> None:
        super().__init__(root, GitLab, of_gitlab.TOKEN, of_gitlab.JOB_TOKEN)
        self.gitlab = gitlab
        self._job = 90_000

    def begin(self, number: int, commit: str) -> None:
        if number not in self.gitlab.pipelines:
            self.gitlab.add_pipeline(number, sha=commit, ref="main")

    def of_main(self, commit: str) -> dict[str, str]:
        return {"CI_COMMIT_BRANCH": "main", "CI_PIPELINE_SOURCE": "push"}

    def keep(self, number: int, commit: str) -> None:
        top = self.repository.top
        paths = [path for path in self.out.rglob("*") if path.is_file()]
        self.gitlab.add_job(number, {path.relative_to(top).as_posix(): path.read_bytes() for path in paths})

    def merge_request(
        self,
        pipeline: int = 500,
        *,
        source: int = of_gitlab.PROJECT,
        runs_in: int = of_gitlab.PROJECT,
        environ: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """The job of merge request 7 into main, for a commit that is made where none was."""
        if self.repository.git("rev-parse", "HEAD") in (self.base, self.earlier):
            self.change()
        self.gitlab.add_pipeline(pipeline, source="merge_request_event", ref="refs/merge-requests/7/head")
        project = {"PROJECT_ID": str(of_gitlab.PROJECT), "PROJECT_URL": of_gitlab.WEB}
        about = {
            "IID": "7",
            "TARGET_BRANCH_NAME": "main",
            "EVENT_TYPE": "detached",
            "DIFF_BASE_SHA": self.base,
        }
        source_of = {"SOURCE_PROJECT_ID": str(source), "SOURCE_BRANCH_SHA": ""}
        variables = named("CI_MERGE_REQUEST", {**project, **about, **source_of})
        started = {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_PROJECT_ID": str(runs_in)}
        return self.job(pipeline, {**started, **variables, **(environ or {})}, inputs)

    def job(self, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        self._job += 1
        self.gitlab.branches["main"] = self.base
        project = {"PROJECT_ID": str(of_gitlab.PROJECT), "PROJECT_DIR": str(self.repository.top)}
        job = {"JOB_TOKEN": of_gitlab.JOB_TOKEN, "JOB_ID": str(self._job), "JOB_NAME": "agent-eval"}
        pages = {"API_V4_URL": self.gitlab.url, "JOB_URL": f"{of_gitlab.WEB}/-/jobs/{self._job}"}
        commit = {"PIPELINE_ID": str(number), "COMMIT_SHA": "c" * 40, "DEFAULT_BRANCH": "main"}
        usual = {"GITLAB_CI": "true", **named("CI", {**project, **job, **pages, **commit})}
        step = self.start({**usual, **variables}, {"gitlab_token": of_gitlab.TOKEN, **inputs})
        assert not any(token in "".join(self.gitlab.bodies()) for token in self._secrets)
        return step


_ANNOTATES = """\
#!/bin/sh
[ "$BUILDKITE_AGENT_ACCESS_TOKEN" = "{token}" ] || {{ echo "no token" >&2; exit 1; }}
[ "$1 $2 $4" = "annotate --context --style" ] || {{ echo "not annotate: $*" >&2; exit 1; }}
echo "$5" > "{left}/$3.style"
cat > "{left}/$3.md"
"""


class BuildkiteRunner(BuildRunner):
    """One pipeline's agent, with a `buildkite-agent` that keeps annotations."""

    def __init__(self, root: Path, buildkite: of_buildkite.FakeBuildkite) -> None:
        super().__init__(root, Buildkite, of_buildkite.TOKEN, of_buildkite.AGENT_TOKEN)
        self.buildkite = buildkite
        self.annotations, self._programs = root / "annotations", root / "bin"
        for directory in (self.annotations, self._programs):
            directory.mkdir()
        agent = self._programs / "buildkite-agent"
        agent.write_text(_ANNOTATES.format(token=of_buildkite.AGENT_TOKEN, left=self.annotations))
        agent.chmod(0o755)

    def begin(self, number: int, commit: str) -> None:
        if number not in self.buildkite.builds:
            self.buildkite.add_build(number, commit=commit)

    def of_main(self, commit: str) -> dict[str, str]:
        return {"BUILDKITE_BRANCH": "main", "BUILDKITE_COMMIT": commit, "BUILDKITE_SOURCE": "webhook"}

    def keep(self, number: int, commit: str) -> None:
        self.buildkite.add_artifact(number, EVIDENCE, self.evidence())

    def pull_request(
        self,
        number: int = 500,
        *,
        source: str | None = None,
        environ: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """The build of pull request 7 into main."""
        head = self.change()
        self.buildkite.add_build(
            number, branch="topic", commit=head, state="running", pull_request={"id": "7"}
        )
        origin = str(self.repository.server) if source is None else source
        about = {"PULL_REQUEST": "7", "PULL_REQUEST_BASE_BRANCH": "main", "PULL_REQUEST_REPO": origin}
        variables = named("BUILDKITE", {"BRANCH": "topic", "COMMIT": head, **about})
        return self.job(number, {**variables, **(environ or {})}, inputs)

    def annotation(self) -> tuple[str, str]:
        """Style and body of the annotation; empty for none."""
        left = [*self.annotations.glob("*.style"), *self.annotations.glob("*.md")]
        return (left[0].read_text().strip(), left[1].read_text()) if left else ("", "")

    def job(self, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        given = {"buildkite_token": of_buildkite.TOKEN, "buildkite_api_url": self.buildkite.url, **inputs}
        slugs = {"ORGANIZATION_SLUG": "acme", "PIPELINE_SLUG": "shop", "PIPELINE_DEFAULT_BRANCH": "main"}
        build = {"BUILD_NUMBER": str(number), "BUILD_URL": f"{of_buildkite.WEB}/builds/{number}"}
        job = {"JOB_ID": f"0190a3b4-{number}", "AGENT_ACCESS_TOKEN": of_buildkite.AGENT_TOKEN}
        source = {"REPO": str(self.repository.server), "PULL_REQUEST": "false"}
        usual = {"BUILDKITE": "true", **named("BUILDKITE", {**slugs, **build, **job, **source})}
        path = {"PATH": f"{self._programs}:{self.repository.environ['PATH']}"}
        step = self.start({**path, **usual, **variables}, given)
        assert not any(token in self.annotation()[1] for token in self._secrets)
        return step


class CircleCIRunner(BuildRunner):
    """Jobs of one project."""

    def __init__(self, root: Path, circleci: of_circleci.FakeCircleCI) -> None:
        super().__init__(root, CircleCI, of_circleci.TOKEN)
        self.circleci = circleci

    def begin(self, number: int, commit: str) -> None:
        if number not in self.circleci.pipelines:
            self.circleci.add_pipeline(number, source={"revision": commit})

    def of_main(self, commit: str) -> dict[str, str]:
        return {"CIRCLE_BRANCH": "main", "CIRCLE_SHA1": commit}

    def keep(self, number: int, commit: str) -> None:
        self.circleci.add_job(number, {EVIDENCE: self.evidence()})

    def branch(self, number: int = 500, *, environ: Mapping[str, str] | None = None, **inputs: str) -> Step:
        """The pipeline of a branch."""
        head = self.change()
        self.circleci.add_pipeline(number, source={"revision": head, "branch": "topic"})
        return self.job(number, {"CIRCLE_BRANCH": "topic", "CIRCLE_SHA1": head, **(environ or {})}, inputs)

    def job(self, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        given = {"circleci_token": of_circleci.TOKEN, "circleci_project_slug": of_circleci.SLUG}
        build = {"BUILD_NUM": "9000", "BUILD_URL": "https://circleci.com/gh/acme/shop/9000"}
        job = {"JOB": "agent-eval", "PIPELINE_ID": of_circleci.identity(f"pipeline {number}")}
        source = {"REPOSITORY_URL": str(self.repository.server)}
        usual = {"CIRCLECI": "true", **named("CIRCLE", {**build, **job, **source})}
        return self.start({**usual, **variables}, {**given, "circleci_api_url": self.circleci.url, **inputs})


class JenkinsRunner(BuildRunner):
    """Builds of one multibranch project in a folder."""

    def __init__(self, root: Path, jenkins: of_jenkins.FakeJenkins) -> None:
        super().__init__(root, Jenkins, of_jenkins.TOKEN, of_jenkins.LOGIN)
        self.jenkins = jenkins

    def of_main(self, commit: str) -> dict[str, str]:
        return {"BRANCH_NAME": "main", "GIT_COMMIT": commit}

    def keep(self, number: int, commit: str) -> None:
        self.jenkins.add_build(f"{of_jenkins.FOLDER}/job/main", number, commit, self.evidence())

    def pull_request(self, *, environ: Mapping[str, str] | None = None, **inputs: str) -> Step:
        """The build of pull request 12 into main."""
        about = {"BRANCH_NAME": "PR-12", "CHANGE_ID": "12", "CHANGE_TARGET": "main"}
        variables = {**about, "GIT_COMMIT": self.change()}
        return self.job(3, {**variables, **(environ or {})}, inputs)

    def job(self, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        branch = "main" if variables["BRANCH_NAME"] == "main" else "PR-12"
        address = f"{self.jenkins.url}{of_jenkins.FOLDER}/job/{branch}/"
        build = {"JOB_URL": address, "BUILD_NUMBER": str(number), "BUILD_URL": f"{address}{number}/"}
        usual = {"GIT_URL": str(self.repository.server), "JENKINS_URL": f"{self.jenkins.url}/ci/", **build}
        given = {"jenkins_user": "ci", "jenkins_token": of_jenkins.TOKEN, **inputs}
        return self.start({**usual, **variables}, given)
