"""The build on Jenkins: forks, accounts, and jobs in folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.runner import orders
from tests.fakes.jenkins import FOLDER, FakeJenkins
from tests.unit.ci.platforms.builds import JenkinsRunner, at_work, served

MAIN, PR = f"{FOLDER}/job/main", f"{FOLDER}/job/PR-12"


@pytest.fixture
def jenkins() -> Iterator[FakeJenkins]:
    yield from served(FakeJenkins())


@pytest.fixture
def runner(tmp_path: Path, jenkins: FakeJenkins, monkeypatch: pytest.MonkeyPatch) -> JenkinsRunner:
    return at_work(JenkinsRunner(tmp_path, jenkins), monkeypatch)


@pytest.fixture
def pushed(runner: JenkinsRunner) -> None:
    """Build 40 of main left evidence."""
    assert runner.push(40).code == 0


@pytest.mark.parametrize("result", ["ABORTED", "NOT_BUILT", None])
def test_builds__that_did_not_end_are_passed_over(
    runner: JenkinsRunner, jenkins: FakeJenkins, pushed: None, result: str | None
) -> None:
    jenkins.builds[MAIN][0]["result"] = result
    assert "First run: nothing to compare with" in runner.pull_request().report


def test_branch__with_a_slash_is_encoded_twice(runner: JenkinsRunner, jenkins: FakeJenkins) -> None:
    job = f"{FOLDER}/job/release%252F2"
    for name in (job, MAIN):
        jenkins.add_build(name, 1, runner.base, None)
    (runner.repository.top / "agent-eval.yml").write_text("baseline: {branches: release/2}\n")
    runner.base = runner.repository.commit()
    for branch in ("main", "release/2"):
        runner.repository.push(branch)
    step = runner.pull_request(environ={"CHANGE_TARGET": "release/2"})
    assert step.code == 0, step.log
    assert f"{job}/api/json" in jenkins.paths


def test_job_of_one_branch__is_compared_with_its_own_builds(runner: JenkinsRunner) -> None:
    runner.jenkins.builds[PR] = []
    runner.push(1)
    runner.jenkins.add_build(PR, 2, runner.base, runner.evidence())
    runner.write_suite(*orders(bad=(1,)))
    runner.jenkins.paths.clear()
    step = runner.pull_request(environ={"BRANCH_NAME": "", "CHANGE_ID": "", "CHANGE_TARGET": ""})
    assert step.code == 1, step.log
    assert any(path.startswith(f"{PR}/2/artifact") for path in runner.jenkins.paths)
    assert f"{MAIN}/api/json" not in runner.jenkins.paths


NOT_FOUND = "answers 404 also where an account may not look"


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ({"jenkins_token": ""}, 4, NOT_FOUND),
        ({}, 4, NOT_FOUND),
        ({"jenkins_token": "wrong"}, 4, "not accepted"),
        ({"environ": {"CHANGE_FORK": "mallory"}}, 2, "has secrets and would run a fork's code"),
        ({"environ": {"JOB_URL": "https://ci.example/"}}, 2, "JOB_URL"),
    ],
    ids=["not found anonymously", "not found by the account", "wrong token", "fork", "address of no job"],
)
def test_what_cannot_be_evaluated__is_an_error_that_says_why(
    runner: JenkinsRunner, how: dict[str, Any], code: int, said: str
) -> None:
    runner.jenkins.builds.clear()
    step = runner.pull_request(**how)
    assert (step.code, said in step.log + step.report) == (code, True), step.log


def test_anonymous__reads_where_jenkins_lets_it(runner: JenkinsRunner, pushed: None) -> None:
    runner.jenkins.anonymous_may_read = True
    assert "merge base" in runner.pull_request(jenkins_token="").report
    assert (runner.out / "junit" / "shop.xml").is_file()


def test_named__build_is_the_baseline(runner: JenkinsRunner, pushed: None) -> None:
    assert "named run" in runner.pull_request(baseline="run:40").report
    assert "There is no build 39" in runner.pull_request(baseline="run:39").log
