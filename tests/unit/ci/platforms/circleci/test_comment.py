"""The comment of a job on CircleCI, which is written where the change is hosted."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.e2e.runner import orders
from tests.fakes import github, gitlab
from tests.fakes.github import FakeGitHub
from tests.fakes.gitlab import FakeGitLab
from tests.unit.ci.platforms.build_runner import contract, served
from tests.unit.ci.platforms.circleci.runner import CircleCIRunner

PULL = 7


@pytest.fixture
def hub(runner: CircleCIRunner) -> Iterator[FakeGitHub]:
    server = FakeGitHub(contract("github"))
    server.add_pull(PULL, "a" * 40)
    yield from served(server)


@pytest.fixture
def lab(runner: CircleCIRunner) -> Iterator[FakeGitLab]:
    yield from served(FakeGitLab(contract("gitlab")))


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


def test_pull_request__is_named_by_the_input_before_the_variable(
    runner: CircleCIRunner, hub: FakeGitHub
) -> None:
    variables = {"CIRCLE_PULL_REQUEST": pull(hub, 12)}
    step = runner.branch(environ=variables, circleci_pull_request=pull(hub), **on_github(hub))
    assert (step.code, len(hub.bodies(PULL))) == (0, 1), step.log


def test_merge_request__is_given_a_note_that_gitlab_does_not_obey(
    runner: CircleCIRunner, lab: FakeGitLab
) -> None:
    runner.push(400)
    runner.write_suite(*orders(bad=(2,)))
    merge_request = page(lab.url, "acme/shop/-/merge_requests/7")
    given = {"gitlab_token": gitlab.TOKEN, "gitlab_api_url": lab.url}
    step = runner.branch(circleci_pull_request=merge_request, **given)
    assert step.code == 1, step.log
    [body] = lab.bodies()
    assert "regressed" in body
    assert lab.obeyed == []


@pytest.mark.parametrize(
    "address",
    [
        "https://git.example/acme/shop/pull/7",
        "https://mallory@git.example/acme/shop/pull/7",
        "https://github.com.example/acme/shop/pull/7",
    ],
)
def test_token__goes_to_no_host_that_only_the_change_names(
    address: str, runner: CircleCIRunner, hub: FakeGitHub
) -> None:
    for given in ({"github_token": github.TOKEN}, on_github(hub)):
        step = runner.branch(environ={"CIRCLE_PULL_REQUEST": address}, **given)
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
