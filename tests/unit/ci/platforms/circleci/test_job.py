"""The job on CircleCI: first run, unchanged, regressed, forks, tokens, and where the token goes."""

from __future__ import annotations

import pytest

from tests.e2e.runner import orders
from tests.fakes.circleci import FORK, FakeCircleCI, identity
from tests.unit.ci.platforms.circleci.runner import CircleCIRunner


def test_merge_base__is_found_on_a_later_page(runner: CircleCIRunner, circleci: FakeCircleCI) -> None:
    runner.push(400)
    for number in range(401, 445):
        circleci.add_pipeline(number)
    assert "merge base" in runner.branch().report


def test_main__is_compared_with_the_pipeline_before_it(
    runner: CircleCIRunner, circleci: FakeCircleCI
) -> None:
    runner.push(400)
    circleci.add_pipeline(402)
    runner.write_suite(*orders(bad=(1,)))
    assert runner.push(401).code == 1
    assert circleci.count(identity("pipeline 402")) == 0


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ({"origin_repository_url": FORK}, {}),
        ({"branch": "topic"}, {}),
        ({}, {"state": "errored"}),
    ],
    ids=["fork", "branch", "errored"],
)
def test_untrusted__pipelines_are_passed_over(
    runner: CircleCIRunner, circleci: FakeCircleCI, source: dict[str, str], fields: dict[str, str]
) -> None:
    runner.push(400)
    circleci.pipelines[400].update(fields)
    circleci.pipelines[400]["vcs"].update(source)
    assert "no finished run of the base" in runner.branch().report
    assert circleci.count("/artifacts") == 0


def test_rerun__replaces_what_the_first_workflow_left(runner: CircleCIRunner, circleci: FakeCircleCI) -> None:
    runner.push(400)
    circleci.add_workflow(400, "2026-01-12T09:00:00Z")
    circleci.add_job(400, {})
    assert "has no artifact" in runner.branch().report


def test_several_nodes__are_not_chosen_between(runner: CircleCIRunner, circleci: FakeCircleCI) -> None:
    runner.push(400)
    rows = next(iter(circleci.artifacts.values()))
    rows.append({**rows[0], "node_index": 1})
    assert "Several nodes" in runner.branch().report


@pytest.mark.parametrize(
    "address", ["https://evil.example/x", "https://circle-artifacts.com.evil.example/x", "file:///etc/passwd"]
)
def test_token__goes_to_no_other_host(runner: CircleCIRunner, circleci: FakeCircleCI, address: str) -> None:
    runner.push(400)
    next(iter(circleci.artifacts.values()))[0]["url"] = address
    step = runner.branch()
    assert step.code == 4
    assert "unknown host" in step.report


@pytest.mark.parametrize("variable", ["CIRCLE_PR_NUMBER", "CIRCLE_PR_REPONAME", "CIRCLE_PR_USERNAME"])
def test_fork__beside_a_token_is_refused(runner: CircleCIRunner, variable: str) -> None:
    step = runner.branch(environ={variable: "7"})
    assert step.code == 2
    assert "has secrets and would run a fork's code" in step.log


def test_fork__without_a_token_is_judged_by_the_absolute_rules(runner: CircleCIRunner) -> None:
    runner.push(400)
    step = runner.branch(environ={"CIRCLE_BRANCH": "pull/7"}, circleci_token="")
    assert step.code == 0, step.log
    assert "has no token" in step.report


def test_tip__that_the_server_does_not_say_ends_the_job_in_an_error(runner: CircleCIRunner) -> None:
    runner.push(400)
    step = runner.branch(environ={"CIRCLE_REPOSITORY_URL": str(runner.repository.top / "nowhere")})
    assert step.code == 4
    assert "The tip of the default branch is not known" in step.log


def test_server__is_the_origin_of_the_checkout_where_no_variable_names_it(runner: CircleCIRunner) -> None:
    runner.push(400)
    runner.repository.git("config", "remote.origin.url", str(runner.repository.server))
    assert runner.branch(environ={"CIRCLE_REPOSITORY_URL": ""}).code == 0


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({"circleci_token": ""}, 4, "Set `circleci-token`"),
        ({"circleci_token": "wrong"}, 4, "not accepted"),
        ({"circleci_project_slug": ""}, 2, "pipeline.project.slug"),
        ({"circleci_project_slug": "gh/acme/other"}, 4, "circleci-project-slug"),
        ({"baseline": "run:399"}, 2, "no pipeline 399"),
    ],
    ids=str,
)
def test_wrong__settings_say_what_to_do(
    runner: CircleCIRunner, inputs: dict[str, str], code: int, said: str
) -> None:
    step = runner.branch(**inputs)
    assert step.code == code, step.log
    assert said in step.log


def test_change__that_names_itself_as_the_base_branch_does_not_pass(
    runner: CircleCIRunner, circleci: FakeCircleCI
) -> None:
    runner.push(400)
    (runner.repository.top / "agent-eval.yml").write_text("baseline: {branches: topic}\n")
    runner.write_suite(*orders(bad=(2,)))
    head = runner.change()
    runner.repository.push("topic", head)
    step = runner.branch()
    assert step.code == 1
    assert "order-2" in step.report
