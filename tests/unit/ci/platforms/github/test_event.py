from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci.platforms.github import GitHubEvent, read_event
from agent_eval.errors import InvalidInput, UsageError
from tests.fakes.github import sha

HEAD, BASE, MERGE = sha("head"), sha("base"), sha("merge")


def event(tmp_path: Path, name: str, payload: Any, **environ: str) -> GitHubEvent:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(payload))
    return read_event(
        {
            "GITHUB_REPOSITORY": "acme/shop",
            "GITHUB_EVENT_NAME": name,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_RUN_ID": "500",
            "GITHUB_RUN_ATTEMPT": "2",
            "GITHUB_SHA": MERGE,
            "GITHUB_REF": "refs/pull/7/merge",
            **environ,
        }
    )


def pull_request(*, head_repository: int | None = 1) -> dict[str, Any]:
    repository = None if head_repository is None else {"id": head_repository}
    return {
        "repository": {"id": 1, "default_branch": "main"},
        "pull_request": {
            "number": 7,
            "head": {"sha": HEAD, "ref": "topic", "repo": repository},
            "base": {"sha": BASE, "ref": "release", "repo": {"id": 1}},
        },
    }


@pytest.mark.parametrize("name", ["pull_request", "pull_request_target"])
def test_pull_request__is_about_its_head_not_the_trial_merge(tmp_path: Path, name: str) -> None:
    found = event(tmp_path, name, pull_request())
    assert (found.pull_request, found.head_sha) == (7, HEAD)
    assert found.base_branch == "release"
    assert found.branch is None
    assert not found.from_fork
    assert found.repository_id == 1
    assert (found.run_id, found.attempt) == (500, 2)
    assert found.run_url == "https://github.com/acme/shop/actions/runs/500"


@pytest.mark.parametrize("head_repository", [2, None])
def test_pull_request__from_a_fork_also_when_it_was_deleted(
    tmp_path: Path, head_repository: int | None
) -> None:
    assert event(tmp_path, "pull_request", pull_request(head_repository=head_repository)).from_fork


@pytest.mark.parametrize("side", ["base", "head"])
@pytest.mark.parametrize("repository", [None, {}, {"id": "1"}])
def test_pull_request__whose_payload_does_not_show_its_repositories_is_from_a_fork(
    tmp_path: Path, side: str, repository: Any
) -> None:
    payload = pull_request()
    payload["pull_request"][side]["repo"] = repository
    assert event(tmp_path, "pull_request", payload).from_fork


def test_pull_request__without_a_payload_is_from_a_fork(tmp_path: Path) -> None:
    assert event(tmp_path, "pull_request", {}, GITHUB_EVENT_PATH="").from_fork


@pytest.mark.parametrize(
    ("repository", "from_fork"), [({"id": 1}, False), ({"id": 2}, True), (None, True), ({}, True)]
)
def test_workflow_run__of_a_fork_is_about_the_forks_commit(
    tmp_path: Path, repository: Any, from_fork: bool
) -> None:
    payload = {"repository": {"id": 1}, "workflow_run": {"head_sha": HEAD, "head_repository": repository}}
    found = event(tmp_path, "workflow_run", payload, GITHUB_REF="refs/heads/main")
    assert found.from_fork is from_fork
    expected = (HEAD, "main") if from_fork else (MERGE, None)
    assert (found.head_sha, found.base_branch) == expected


@pytest.mark.parametrize(
    ("name", "has_secrets"),
    [("pull_request", False), ("pull_request_target", True), ("workflow_run", True), ("push", False)],
)
def test_secrets__are_there_in_jobs_of_the_repositorys_own_events(
    tmp_path: Path, name: str, has_secrets: bool
) -> None:
    assert event(tmp_path, name, {}).has_secrets is has_secrets


def test_push__is_about_the_pushed_commit(tmp_path: Path) -> None:
    found = event(tmp_path, "push", {}, GITHUB_REF="refs/heads/feature/a", GITHUB_REPOSITORY_ID="9")
    assert (found.head_sha, found.branch, found.pull_request) == (MERGE, "feature/a", None)
    assert found.repository_id == 9


def test_tag__is_on_no_branch(tmp_path: Path) -> None:
    found = event(tmp_path, "push", {}, GITHUB_REF="refs/tags/main")
    assert (found.branch, found.tag) == (None, "main")


def test_merge_group__goes_into_the_branch_behind_the_queue(tmp_path: Path) -> None:
    payload = {"merge_group": {"head_sha": HEAD, "base_sha": BASE, "base_ref": "refs/heads/main"}}
    found = event(tmp_path, "merge_group", payload, GITHUB_REF="refs/heads/gh-readonly-queue/main/pr-7-abc")
    assert (found.head_sha, found.queue_base, found.base_branch) == (HEAD, BASE, "main")
    assert found.branch is None
    assert found.pull_request is None


@pytest.mark.parametrize(
    "payload",
    [
        [],
        {"pull_request": 3},
        {"pull_request": {"number": True, "head": {"sha": "$(id)"}, "base": {"sha": 5, "ref": ""}}},
        {"pull_request": {"number": -4, "head": [], "base": None}},
    ],
)
def test_payload__of_another_shape_says_nothing(tmp_path: Path, payload: Any) -> None:
    found = event(tmp_path, "pull_request", payload)
    assert (found.pull_request, found.head_sha, found.base_branch) == (None,) * 3


def test_payload__that_is_no_json_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(InvalidInput, match=r"broken\.json"):
        event(tmp_path, "push", {}, GITHUB_EVENT_PATH=str(broken))


def test_environment__without_a_payload_or_a_run(tmp_path: Path) -> None:
    found = event(tmp_path, "push", {}, GITHUB_EVENT_PATH="", GITHUB_RUN_ID="x", GITHUB_SHA="x")
    assert (found.run_id, found.run_url, found.head_sha) == (None, None, None)


@pytest.mark.parametrize("repository", ["", "acme", "acme/shop/../x", "a/b?c"])
def test_repository__must_be_owner_and_name(tmp_path: Path, repository: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_REPOSITORY"):
        event(tmp_path, "push", {}, GITHUB_REPOSITORY=repository)
