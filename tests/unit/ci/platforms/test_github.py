"""What a job on GitHub is about, from its event and variables; commands to the runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci.platforms.github import GitHubEvent, annotation, read_event
from agent_eval.errors import InvalidInput, UsageError
from tests.fakes.github import sha

HEAD, BASE, MERGE = sha("head"), sha("base"), sha("merge")
NO_PAYLOAD = {"GITHUB_EVENT_PATH": ""}


def event(tmp_path: Path, name: str, payload: Any, **environ: str) -> GitHubEvent:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(payload))
    usual = {"REPOSITORY": "acme/shop", "RUN_ID": "500", "RUN_ATTEMPT": "2", "SHA": MERGE}
    usual |= {"EVENT_NAME": name, "EVENT_PATH": str(path), "REF": "refs/pull/7/merge"}
    return read_event({**{f"GITHUB_{key}": value for key, value in usual.items()}, **environ})


def pull(**sides: Any) -> dict[str, Any]:
    """The payload of a pull request of this repository, with another repository of a side."""
    repositories = {"head": {"id": 1}, "base": {"id": 1}, **sides}
    head = {"sha": HEAD, "ref": "topic", "repo": repositories["head"]}
    base = {"sha": BASE, "ref": "release", "repo": repositories["base"]}
    about = {"number": 7, "head": head, "base": base}
    return {"repository": {"id": 1, "default_branch": "main"}, "pull_request": about}


def workflow(repository: Any) -> dict[str, Any]:
    return {"repository": {"id": 1}, "workflow_run": {"head_sha": HEAD, "head_repository": repository}}


def ref(name: str, **more: str) -> dict[str, str]:
    return {"GITHUB_REF": f"refs/{name}", **more}


QUEUE = {"merge_group": {"head_sha": HEAD, "base_sha": BASE, "base_ref": "refs/heads/main"}}
ODD: list[Any] = [
    *([], {"pull_request": 3}, {"pull_request": {"number": -4, "head": [], "base": None}}),
    {"pull_request": {"number": True, "head": {"sha": "$(id)"}, "base": {"sha": 5, "ref": ""}}},
]
RUN = {"run_id": 500, "attempt": 2, "run_url": "https://github.com/acme/shop/actions/runs/500"}
OF_ITS_HEAD = {"pull_request": 7, "head_sha": HEAD, "base_branch": "release", "branch": None}
ABOUT_THE_HEAD = {**OF_ITS_HEAD, **RUN, "repository_id": 1, "from_fork": False}
SAYS_NOTHING = {"pull_request": None, "head_sha": None, "base_branch": None}
FROM_A_FORK, OF_A_FORK = {"from_fork": True}, {"from_fork": True, "head_sha": HEAD, "base_branch": "main"}
OF_MAIN = {"from_fork": False, "head_sha": MERGE, "base_branch": None}
EVENTS: dict[str, tuple[str, Any, dict[str, str], dict[str, Any]]] = {
    "a pull request is about its head, not the trial merge": ("pull_request", pull(), {}, ABOUT_THE_HEAD),
    "so it is where it has secrets": ("pull_request_target", pull(), {}, ABOUT_THE_HEAD),
    "of a fork": ("pull_request", pull(head={"id": 2}), {}, FROM_A_FORK),
    **{
        f"whose payload has as the repository of its {side} {of}": (
            *("pull_request", pull(**{side: of}), {}, FROM_A_FORK),
        )
        for side in ("head", "base")
        for of in (None, {}, {"id": "1"})
    },
    "a pull request without a payload": ("pull_request", {}, NO_PAYLOAD, FROM_A_FORK),
    "after a run of this repository": ("workflow_run", workflow({"id": 1}), ref("heads/main"), OF_MAIN),
    **{
        f"after a run of {of}": ("workflow_run", workflow(of), ref("heads/main"), OF_A_FORK)
        for of in ({"id": 2}, None, {})
    },
    "a push is about the pushed commit": (
        *("push", {}, ref("heads/feature/a", GITHUB_REPOSITORY_ID="9")),
        {"head_sha": MERGE, "branch": "feature/a", "pull_request": None, "repository_id": 9},
    ),
    "a tag is on no branch": ("push", {}, ref("tags/main"), {"branch": None, "tag": "main"}),
    "a change in the merge queue goes into the branch behind it": (
        *("merge_group", QUEUE, ref("heads/gh-readonly-queue/main/pr-7-abc")),
        {"head_sha": HEAD, "queue_base": BASE, "base_branch": "main", "branch": None, "pull_request": None},
    ),
    **{f"a payload of another shape: {odd}": ("pull_request", odd, {}, SAYS_NOTHING) for odd in ODD},
    "neither a payload nor a run": (
        *("push", {}, {**NO_PAYLOAD, "GITHUB_RUN_ID": "x", "GITHUB_SHA": "x"}),
        {"run_id": None, "run_url": None, "head_sha": None},
    ),
}


@pytest.mark.parametrize("what", EVENTS)
def test_event__says_what_the_job_is_about(tmp_path: Path, what: str) -> None:
    name, payload, environ, expected = EVENTS[what]
    found = event(tmp_path, name, payload, **environ)
    assert {field: getattr(found, field) for field in expected} == expected


def test_payload__that_is_no_json_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(InvalidInput, match=r"broken\.json"):
        event(tmp_path, "push", {}, GITHUB_EVENT_PATH=str(broken))


@pytest.mark.parametrize("repository", ["", "acme", "acme/shop/../x", "a/b?c"])
def test_repository__must_be_owner_and_name(tmp_path: Path, repository: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_REPOSITORY"):
        event(tmp_path, "push", {}, GITHUB_REPOSITORY=repository)


def test_annotation__stays_on_one_line() -> None:
    assert annotation("error", "50%\r\n::error::x\r") == "::error title=agent-eval::50%25%0A::error::x%0A"
