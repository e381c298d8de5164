"""The job on CircleCI: forks, tokens and where they go; its comment is written where the change is hosted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.runner import orders
from tests.fakes import github
from tests.fakes.circleci import FORK, FakeCircleCI, identity
from tests.fakes.github import FakeGitHub
from tests.unit.ci.platforms.builds import CircleCIRunner, at_work, contract, served

PULL = 7
REFUSED = "has secrets and would run a fork's code"


@pytest.fixture
def circleci() -> Iterator[FakeCircleCI]:
    yield from served(FakeCircleCI(contract("circleci")))


@pytest.fixture
def runner(tmp_path: Path, circleci: FakeCircleCI, monkeypatch: pytest.MonkeyPatch) -> CircleCIRunner:
    return at_work(CircleCIRunner(tmp_path, circleci), monkeypatch)


def test_merge_base__is_found_on_a_later_page(runner: CircleCIRunner, circleci: FakeCircleCI) -> None:
    runner.push(400)
    for number in range(401, 445):
        circleci.add_pipeline(number)
    assert "merge base" in runner.branch().report


def test_main__is_compared_with_the_pipeline_before_it(runner: CircleCIRunner) -> None:
    runner.push(400)
    runner.circleci.add_pipeline(402)
    runner.write_suite(*orders(bad=(1,)))
    assert runner.push(401).code == 1
    assert runner.circleci.count(identity("pipeline 402")) == 0


@pytest.mark.parametrize(
    ("source", "fields"),
    [({"origin_repository_url": FORK}, {}), ({"branch": "topic"}, {}), ({}, {"state": "errored"})],
    ids=["fork", "branch", "errored"],
)
def test_untrusted__pipelines_are_passed_over(
    runner: CircleCIRunner, circleci: FakeCircleCI, source: dict[str, str], fields: dict[str, str]
) -> None:
    runner.push(400)
    circleci.pipelines[400].update(fields)
    circleci.pipelines[400]["vcs"].update(source)
    assert "First run: nothing to compare with" in runner.branch().report
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
    assert (step.code, "unknown host" in step.report) == (4, True)


def test_fork__without_a_token_is_judged_by_the_absolute_rules(runner: CircleCIRunner) -> None:
    runner.push(400)
    step = runner.branch(environ={"CIRCLE_BRANCH": "pull/7"}, circleci_token="")
    assert step.code == 0, step.log
    assert "has no token" in step.report


def test_server__is_the_origin_of_the_checkout_where_no_variable_names_it(runner: CircleCIRunner) -> None:
    runner.push(400)
    runner.repository.git("config", "remote.origin.url", str(runner.repository.server))
    assert runner.branch(environ={"CIRCLE_REPOSITORY_URL": ""}).code == 0


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ({"circleci_token": ""}, 4, "Set `circleci-token`"),
        ({"circleci_token": "wrong"}, 4, "not accepted"),
        ({"circleci_project_slug": ""}, 2, "pipeline.project.slug"),
        ({"circleci_project_slug": "gh/acme/other"}, 4, "circleci-project-slug"),
        ({"baseline": "run:399"}, 2, "no pipeline 399"),
        *(({"environ": {f"CIRCLE_PR_{of}": "7"}}, 2, REFUSED) for of in ("NUMBER", "REPONAME", "USERNAME")),
        ({"environ": {"CIRCLE_REPOSITORY_URL": "/nowhere"}}, 4, "The tip of the default branch is not known"),
    ],
    ids=str,
)
def test_wrong__settings_are_said(runner: CircleCIRunner, how: dict[str, Any], code: int, said: str) -> None:
    step = runner.branch(**how)
    assert (step.code, said in step.log) == (code, True), step.log


def test_change__that_names_itself_as_the_base_branch_does_not_pass(runner: CircleCIRunner) -> None:
    runner.push(400)
    (runner.repository.top / "agent-eval.yml").write_text("baseline: {branches: topic}\n")
    runner.write_suite(*orders(bad=(2,)))
    runner.repository.push("topic", runner.change())
    step = runner.branch()
    assert (step.code, "order-2" in step.report) == (1, True)


@pytest.fixture
def hub(runner: CircleCIRunner) -> Iterator[FakeGitHub]:
    server = FakeGitHub(contract("github"))
    server.add_pull(PULL, "a" * 40)
    yield from served(server)


def page(address: str, path: str) -> str:
    """A page on the host of an API."""
    return f"https://{urlsplit(address).netloc}/{path}"


def pull(hub: FakeGitHub, number: int = PULL) -> str:
    return page(hub.url, f"{github.REPOSITORY}/pull/{number}")


def on_github(hub: FakeGitHub) -> dict[str, str]:
    return {"github_token": github.TOKEN, "github_api_url": hub.url}


def test_pull_request__is_commented_and_the_comment_updated(runner: CircleCIRunner, hub: FakeGitHub) -> None:
    runner.push(400)
    runner.write_suite(*orders(bad=(2,)))
    variables = {"CIRCLE_PULL_REQUESTS": f"{pull(hub, 12)},{pull(hub)}", "CIRCLE_PULL_REQUEST": pull(hub, 12)}
    step = runner.branch(environ=variables, **on_github(hub))
    assert step.code == 1, step.log
    [body] = hub.bodies(PULL)
    assert "order\\-2" in body or "order-2" in body
    runner.write_suite(*orders())
    assert runner.branch(501, environ=variables, **on_github(hub)).code == 0
    [updated] = hub.bodies(PULL)
    assert updated != body


@pytest.mark.parametrize("host", ["git.example", "mallory@git.example", "github.com.example"])
def test_token__goes_to_no_host_of_the_change(host: str, runner: CircleCIRunner, hub: FakeGitHub) -> None:
    for given in ({"github_token": github.TOKEN}, on_github(hub)):
        step = runner.branch(environ={"CIRCLE_PULL_REQUEST": f"https://{host}/acme/shop/pull/7"}, **given)
        assert step.code == 0, step.log
        assert "No comment was written. The job has no token for" in step.log
    assert hub.requests == []


@pytest.mark.parametrize("address", ["", "https://git.example/acme/shop/pull/", "file:///etc/passwd", "7"])
def test_no_pull_request__has_no_comment(address: str, runner: CircleCIRunner) -> None:
    step = runner.branch(environ={"CIRCLE_PULL_REQUEST": address})
    assert (step.code, "No comment" in step.log) == (0, False), step.log


def test_address__that_is_no_https_is_a_warning_and_no_crash(runner: CircleCIRunner) -> None:
    given = {"github_token": github.TOKEN, "github_api_url": "http://git.example/api/v3"}
    variables = {"CIRCLE_PULL_REQUEST": "https://git.example/acme/shop/pull/7"}
    step = runner.branch(environ=variables, **given)
    assert (step.code, "No comment was written." in step.log) == (0, True), step.log


def test_refused__comment_is_a_warning(runner: CircleCIRunner, hub: FakeGitHub) -> None:
    hub.permissions = frozenset({"contents: read"})
    step = runner.branch(environ={"CIRCLE_PULL_REQUEST": pull(hub)}, **on_github(hub))
    assert (step.code, "may not write comments" in step.log) == (0, True), step.log


def test_fork__beside_a_token_for_comments_is_refused(runner: CircleCIRunner, hub: FakeGitHub) -> None:
    variables = {"CIRCLE_PULL_REQUEST": pull(hub), "CIRCLE_PR_NUMBER": "7"}
    step = runner.branch(environ=variables, circleci_token="", **on_github(hub))
    assert step.code == 2, step.log
    assert all("This job has secrets" in body for body in hub.bodies(PULL))
