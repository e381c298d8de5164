"""The build on Jenkins: first run, unchanged, regressed, forks, accounts, and jobs in folders."""

from __future__ import annotations

import re

import pytest

from tests.e2e.runner import orders
from tests.fakes.jenkins import FOLDER, FakeJenkins
from tests.unit.ci.platforms.jenkins.runner import JenkinsRunner


def test_first_run__of_a_job_without_finished_builds_passes(
    runner: JenkinsRunner, jenkins: FakeJenkins
) -> None:
    jenkins.add_build(f"{FOLDER}/job/main", 1, runner.base, None, result=None)
    step = runner.pull_request()
    assert step.code == 0, step.log
    assert "no finished run of the base" in step.report


def test_unchanged__change_passes(runner: JenkinsRunner, jenkins: FakeJenkins) -> None:
    jenkins.builds[f"{FOLDER}/job/main"] = []
    assert runner.push(40).code == 0
    step = runner.pull_request()
    assert step.code == 0, step.log
    assert "merge base" in step.report
    assert (runner.out / "junit" / "shop.xml").is_file()


@pytest.mark.parametrize("result", ["ABORTED", "NOT_BUILT", None])
def test_builds__that_did_not_end_are_passed_over(
    runner: JenkinsRunner, jenkins: FakeJenkins, result: str | None
) -> None:
    jenkins.builds[f"{FOLDER}/job/main"] = []
    runner.push(40)
    jenkins.builds[f"{FOLDER}/job/main"][0]["result"] = result
    assert "no finished run of the base" in runner.pull_request().report


def test_branch__with_a_slash_is_encoded_twice(runner: JenkinsRunner, jenkins: FakeJenkins) -> None:
    job = f"{FOLDER}/job/release%252F2"
    jenkins.add_build(job, 1, runner.base, None)
    jenkins.add_build(f"{FOLDER}/job/main", 1, runner.base, None)
    (runner.repository.top / "agent-eval.yml").write_text("baseline: {branches: release/2}\n")
    runner.base = runner.repository.commit()
    for branch in ("main", "release/2"):
        runner.repository.push(branch)
    step = runner.pull_request(environ={"CHANGE_TARGET": "release/2"})
    assert step.code == 0, step.log
    assert f"{job}/api/json" in jenkins.paths


def test_job_of_one_branch__is_compared_with_its_own_builds(
    runner: JenkinsRunner, jenkins: FakeJenkins
) -> None:
    jenkins.builds[f"{FOLDER}/job/PR-12"] = []
    plain = {"BRANCH_NAME": "", "CHANGE_ID": "", "CHANGE_TARGET": ""}
    runner.push(1)
    jenkins.add_build(f"{FOLDER}/job/PR-12", 2, runner.base, runner.evidence())
    runner.write_suite(*orders(bad=(1,)))
    jenkins.paths.clear()
    step = runner.pull_request(environ=plain)
    assert step.code == 1, step.log
    assert any(path.startswith(f"{FOLDER}/job/PR-12/2/artifact") for path in jenkins.paths)
    assert f"{FOLDER}/job/main/api/json" not in jenkins.paths


@pytest.mark.parametrize("inputs", [{"jenkins_token": ""}, {}], ids=["anonymous", "account"])
def test_not_found__is_never_taken_for_none(runner: JenkinsRunner, inputs: dict[str, str]) -> None:
    step = runner.pull_request(**inputs)
    assert step.code == 4
    assert "answers 404 also where an account may not look" in step.report


def test_wrong_token__is_an_error(runner: JenkinsRunner) -> None:
    step = runner.pull_request(jenkins_token="wrong")
    assert step.code == 4
    assert "not accepted" in step.report


def test_anonymous__reads_where_jenkins_lets_it(runner: JenkinsRunner, jenkins: FakeJenkins) -> None:
    jenkins.anonymous_may_read = True
    jenkins.builds[f"{FOLDER}/job/main"] = []
    runner.push(40)
    assert "merge base" in runner.pull_request(jenkins_token="").report


def test_fork__beside_a_token_is_refused(runner: JenkinsRunner) -> None:
    step = runner.pull_request(environ={"CHANGE_FORK": "mallory"})
    assert step.code == 2
    assert "has secrets and would run a fork's code" in step.log


def test_named__build_is_the_baseline(runner: JenkinsRunner, jenkins: FakeJenkins) -> None:
    jenkins.builds[f"{FOLDER}/job/main"] = []
    runner.push(40)
    assert "named run" in runner.pull_request(baseline="run:40").report
    assert re.search("no finished build 39", runner.pull_request(baseline="run:39").log)


def test_address__that_is_no_jobs_is_an_error(runner: JenkinsRunner) -> None:
    step = runner.pull_request(environ={"JOB_URL": "https://ci.example/"})
    assert step.code == 2
    assert "JOB_URL" in step.log
