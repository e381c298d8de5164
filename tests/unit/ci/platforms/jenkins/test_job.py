"""The build on Jenkins: first run, unchanged, regressed, forks, accounts, and jobs in folders."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from agent_eval.ci.platforms.jenkins.job import Jenkins
from tests.e2e.runner import orders
from tests.fakes.server import send, serve
from tests.unit.ci.platforms.build_runner import EVIDENCE, BuildRunner, Step

TOKEN = "11" + "a1b2c3d4" * 4
LOGIN = b64encode(f"ci:{TOKEN}".encode()).decode()
TREE = "builds[number,result,url,timestamp,artifacts[relativePath],actions[lastBuiltRevision[SHA1]]]{0,100}"
FOLDER = "/ci/job/team/job/shop"


class FakeJenkins:
    """A Jenkins on localhost below a path, in the shapes of its remote access API. A context manager."""

    def __init__(self) -> None:
        self.builds: dict[str, list[dict[str, Any]]] = {}
        """Builds by the path of their job, the newest first."""
        self.files: dict[str, bytes] = {}
        self.anonymous_may_read = False
        self.violations: list[str] = []
        self.paths: list[str] = []

    def __enter__(self) -> FakeJenkins:
        self._server = serve(self._request)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add_build(
        self, job: str, number: int, commit: str, data: bytes | None, result: str | None = "SUCCESS"
    ) -> None:
        """A build of a job that archived the evidence, unless `data` is None."""
        row = {
            "_class": "org.jenkinsci.plugins.workflow.job.WorkflowRun",
            "number": number,
            "result": result,
            "url": f"{self.url}{job}/{number}/",
            "timestamp": 1_768_204_800_000,
            "artifacts": [] if data is None else [{"relativePath": EVIDENCE}],
            # Jenkins answers an empty object for an action that has nothing that was asked for.
            "actions": [{}, {"_class": "BuildData", "lastBuiltRevision": {"SHA1": commit}}, {}],
        }
        self.builds.setdefault(job, []).insert(0, row)
        self.files[f"{job}/{number}/artifact/{EVIDENCE}"] = data or b""

    def _request(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        parts = urlsplit(handler.path)
        self.paths.append(parts.path)
        login = handler.headers.get("Authorization")
        if login not in (None, f"Basic {LOGIN}"):
            return send(handler, 401, b"<html>Unauthorized</html>", {"Content-Type": "text/html"})
        may_read = login is not None or self.anonymous_may_read
        job = parts.path.removesuffix("/api/json")
        if may_read and job != parts.path and job in self.builds:
            if dict(parse_qsl(parts.query)) != {"tree": TREE}:
                self.violations.append(f"asked for {parts.query}")
            data = json.dumps({"_class": "WorkflowJob", "builds": self.builds[job]}).encode()
            return send(handler, 200, data, {"Content-Type": "application/json"})
        if may_read and parts.path in self.files:
            return send(handler, 200, self.files[parts.path], {})
        return send(handler, 404, b"<html>Not Found</html>", {"Content-Type": "text/html"})


@pytest.fixture
def jenkins() -> Iterator[FakeJenkins]:
    with FakeJenkins() as server:
        yield server
    assert server.violations == []


class Runner(BuildRunner):
    """Builds of one multibranch project in a folder."""

    def __init__(self, root: Path, jenkins: FakeJenkins) -> None:
        super().__init__(root, Jenkins, (TOKEN, LOGIN))
        self.jenkins = jenkins

    def push(self, number: int, *, commit: str = "") -> Step:
        """A build of main; its evidence is archived."""
        step = self._build("main", number, {"BRANCH_NAME": "main", "GIT_COMMIT": self.base}, {})
        self.jenkins.add_build(f"{FOLDER}/job/main", number, commit or self.base, self.evidence())
        return step

    def pull_request(self, *, environ: Mapping[str, str] | None = None, **inputs: str) -> Step:
        """The build of pull request 12 into main."""
        variables = {
            "BRANCH_NAME": "PR-12",
            "CHANGE_ID": "12",
            "CHANGE_TARGET": "main",
            "GIT_COMMIT": self.change(),
            **(environ or {}),
        }
        return self._build("PR-12", 3, variables, inputs)

    def _build(self, job: str, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        address = f"{self.jenkins.url}{FOLDER}/job/{job}/"
        build = {
            "JENKINS_URL": f"{self.jenkins.url}/ci/",
            "JOB_URL": address,
            "BUILD_NUMBER": str(number),
            "BUILD_URL": f"{address}{number}/",
        }
        return self.start({**build, **variables}, {"jenkins_user": "ci", "jenkins_token": TOKEN, **inputs})


@pytest.fixture
def runner(tmp_path: Path, jenkins: FakeJenkins, monkeypatch: pytest.MonkeyPatch) -> Runner:
    made = Runner(tmp_path, jenkins)
    monkeypatch.chdir(made.repository.top)
    made.write_suite(*orders())
    return made


def test_first_run__of_a_job_without_finished_builds_passes(runner: Runner, jenkins: FakeJenkins) -> None:
    jenkins.add_build(f"{FOLDER}/job/main", 1, runner.base, None, result=None)
    step = runner.pull_request()
    assert step.code == 0, step.log
    assert "no finished build for the merge base" in step.report


def test_unchanged__change_passes(runner: Runner, jenkins: FakeJenkins) -> None:
    jenkins.builds[f"{FOLDER}/job/main"] = []
    assert runner.push(40).code == 0
    step = runner.pull_request()
    assert step.code == 0, step.log
    assert "merge base" in step.report
    assert (runner.out / "junit" / "shop.xml").is_file()


def test_regressed__change_fails_the_build(runner: Runner, jenkins: FakeJenkins) -> None:
    jenkins.builds[f"{FOLDER}/job/main"] = []
    runner.push(40)
    runner.write_suite(*orders(bad=(2,)))
    step = runner.pull_request()
    assert step.code == 1, step.log
    assert "order-2" in step.report


def test_newest__build_counts_where_the_merge_base_has_none(runner: Runner, jenkins: FakeJenkins) -> None:
    jenkins.builds[f"{FOLDER}/job/main"] = []
    runner.push(40, commit="d" * 40)
    assert "newest on main" in runner.pull_request().report


@pytest.mark.parametrize("result", ["ABORTED", "NOT_BUILT", None])
def test_builds__that_did_not_end_are_passed_over(
    runner: Runner, jenkins: FakeJenkins, result: str | None
) -> None:
    jenkins.builds[f"{FOLDER}/job/main"] = []
    runner.push(40)
    jenkins.builds[f"{FOLDER}/job/main"][0]["result"] = result
    assert "no finished build for the merge base" in runner.pull_request().report


def test_branch__with_a_slash_is_encoded_twice(runner: Runner, jenkins: FakeJenkins) -> None:
    job = f"{FOLDER}/job/release%252F2"
    jenkins.add_build(job, 1, runner.base, None)
    runner.repository.git("update-ref", "refs/remotes/origin/release/2", runner.base)
    step = runner.pull_request(environ={"CHANGE_TARGET": "release/2"})
    assert step.code == 0, step.log
    assert f"{job}/api/json" in jenkins.paths


def test_job_of_one_branch__is_compared_with_its_own_builds(runner: Runner, jenkins: FakeJenkins) -> None:
    jenkins.builds[f"{FOLDER}/job/PR-12"] = []
    plain = {"BRANCH_NAME": "", "CHANGE_ID": "", "CHANGE_TARGET": ""}
    runner.pull_request(environ=plain)
    jenkins.add_build(f"{FOLDER}/job/PR-12", 2, runner.base, runner.evidence())
    jenkins.add_build(f"{FOLDER}/job/PR-12", 4, runner.base, b"later than this build")
    runner.write_suite(*orders(bad=(1,)))
    step = runner.pull_request(environ=plain)
    assert step.code == 1, step.log
    assert "newest run" in step.report


@pytest.mark.parametrize("inputs", [{"jenkins_token": ""}, {}], ids=["anonymous", "account"])
def test_not_found__is_never_taken_for_none(runner: Runner, inputs: dict[str, str]) -> None:
    step = runner.pull_request(**inputs)
    assert step.code == 4
    assert "answers 404 also where an account may not look" in step.report


def test_wrong_token__is_an_error(runner: Runner) -> None:
    step = runner.pull_request(jenkins_token="wrong")
    assert step.code == 4
    assert "not accepted" in step.report


def test_anonymous__reads_where_jenkins_lets_it(runner: Runner, jenkins: FakeJenkins) -> None:
    jenkins.anonymous_may_read = True
    jenkins.builds[f"{FOLDER}/job/main"] = []
    runner.push(40)
    assert "merge base" in runner.pull_request(jenkins_token="").report


def test_fork__beside_a_token_is_refused(runner: Runner) -> None:
    step = runner.pull_request(environ={"CHANGE_FORK": "mallory"})
    assert step.code == 2
    assert "secrets and the token of this" in step.log


def test_named__build_is_the_baseline(runner: Runner, jenkins: FakeJenkins) -> None:
    jenkins.builds[f"{FOLDER}/job/main"] = []
    runner.push(40)
    assert "named run" in runner.pull_request(baseline_run_id="40").report
    assert re.search("no finished build 39", runner.pull_request(baseline_run_id="39").log)


def test_address__that_is_no_jobs_is_an_error(runner: Runner) -> None:
    step = runner.pull_request(environ={"JOB_URL": "https://ci.example/"})
    assert step.code == 2
    assert "JOB_URL" in step.log
