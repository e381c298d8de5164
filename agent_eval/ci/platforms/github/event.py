"""Read what triggered the job from the runner's environment and the event's payload."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.ci.platforms.checkout_job import number_in
from agent_eval.ci.platforms.spec import COMMIT
from agent_eval.errors import UsageError
from agent_eval.storage.json import Limits, read_json

_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")
_EVENT_LIMITS = Limits(max_bytes=32 << 20)
_PULL_REQUEST_EVENTS = frozenset(
    {"pull_request", "pull_request_target", "pull_request_review", "pull_request_review_comment"}
)
_WITH_SECRETS = frozenset({"pull_request_target", "workflow_run"})
"""Events that a fork can cause, and whose jobs have the secrets and the token of the repository itself."""
_BRANCH, _TAG = "refs/heads/", "refs/tags/"


@dataclass(frozen=True, kw_only=True)
class GitHubEvent:
    """The trigger of a workflow run. Fields that an event does not have are None.

    Example:
        >>> read_event({"GITHUB_REPOSITORY": "acme/shop", "GITHUB_EVENT_NAME": "push"}).repository
        'acme/shop'

    Args:
        name: As in `on:` of the workflow.
        repository: `owner/name` in whose Actions the job runs.
        repository_id: Its number, which survives renames.
        run_id: The workflow run.
        attempt: Which attempt of that run, from 1.
        run_url: The run's page.
        head_sha: The commit under review; for a pull request its head, not the trial merge.
        queue_base: The commit onto which the merge queue puts the change.
        base_branch: The branch that the change goes into.
        branch: The branch that the job runs on; None for pull requests and tags.
        tag: The tag that the job runs on.
        default_branch: The repository's.
        pull_request: Its number.
        from_fork: Whether the change comes from another repository, or the payload does not show that it
            comes from this one.
    """

    name: str
    repository: str
    repository_id: int | None
    run_id: int | None
    attempt: int
    run_url: str | None
    head_sha: str | None
    queue_base: str | None = None
    base_branch: str | None = None
    branch: str | None = None
    tag: str | None = None
    default_branch: str | None = None
    pull_request: int | None = None
    from_fork: bool = False

    @property
    def of_pull_request(self) -> bool:
        """Whether a pull request triggered the job, even if the payload does not name it."""
        return self.name in _PULL_REQUEST_EVENTS

    @property
    def has_secrets(self) -> bool:
        """Whether a job of this event has the repository's secrets, also when a fork caused it."""
        return self.name in _WITH_SECRETS


def read_event(environ: Mapping[str, str]) -> GitHubEvent:
    """Read the event of this job.

    Raises:
        UsageError: `GITHUB_REPOSITORY` is not `owner/name`.
        InvalidInput: The event's payload is not valid JSON.
    """
    repository = environ.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError(
            f"GITHUB_REPOSITORY is not owner/name: {repository[:200]!r}",
            remedy="Run this inside GitHub Actions, or unset GITHUB_ACTIONS.",
            field="GITHUB_REPOSITORY",
        )
    path = environ.get("GITHUB_EVENT_PATH", "")
    payload = read_json(Path(path), limits=_EVENT_LIMITS) if path and Path(path).is_file() else {}
    name = environ.get("GITHUB_EVENT_NAME", "")
    run_id = number_in(environ.get("GITHUB_RUN_ID"))
    server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    common: dict[str, Any] = {
        "name": name,
        "repository": repository,
        "repository_id": number_in(environ.get("GITHUB_REPOSITORY_ID")) or _int(payload, "repository", "id"),
        "run_id": run_id,
        "attempt": number_in(environ.get("GITHUB_RUN_ATTEMPT")) or 1,
        "run_url": f"{server}/{repository}/actions/runs/{run_id}" if run_id else None,
        "default_branch": _text(payload, "repository", "default_branch"),
    }
    if name in _PULL_REQUEST_EVENTS:
        return GitHubEvent(**common, **_pull_request(payload))
    if name == "merge_group":
        return GitHubEvent(**common, **_merge_group(payload, environ))
    if name == "workflow_run" and _is_of_fork(payload, common["repository_id"]):
        return GitHubEvent(**common, **_workflow_run_of_fork(payload, environ))
    reference = environ.get("GITHUB_REF", "")
    return GitHubEvent(
        **common,
        head_sha=_sha(environ.get("GITHUB_SHA")),
        branch=_branch(reference),
        tag=reference.removeprefix(_TAG) if reference.startswith(_TAG) else None,
    )


def _pull_request(payload: Any) -> dict[str, Any]:
    head, base = (_int(payload, "pull_request", side, "repo", "id") for side in ("head", "base"))
    return {
        "pull_request": _int(payload, "pull_request", "number"),
        "head_sha": _sha(_text(payload, "pull_request", "head", "sha")),
        "base_branch": _text(payload, "pull_request", "base", "ref"),
        # A head without a repository is of a deleted fork. Without a base nothing shows that it is not one.
        "from_fork": base is None or head != base,
    }


def _is_of_fork(payload: Any, repository_id: int | None) -> bool:
    head = _int(payload, "workflow_run", "head_repository", "id")
    return head is None or head != repository_id


def _workflow_run_of_fork(payload: Any, environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        "head_sha": _sha(_text(payload, "workflow_run", "head_sha")),
        "base_branch": _branch(environ.get("GITHUB_REF")),
        "from_fork": True,
    }


def _merge_group(payload: Any, environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        "head_sha": _sha(_text(payload, "merge_group", "head_sha")) or _sha(environ.get("GITHUB_SHA")),
        "queue_base": _sha(_text(payload, "merge_group", "base_sha")),
        "base_branch": _branch(_text(payload, "merge_group", "base_ref")),
    }


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(payload: Any, *keys: str) -> str | None:
    value = _at(payload, *keys)
    return value if isinstance(value, str) and value else None


def _int(payload: Any, *keys: str) -> int | None:
    value = _at(payload, *keys)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _sha(text: str | None) -> str | None:
    return text if text and COMMIT.fullmatch(text) else None


def _branch(reference: str | None) -> str | None:
    return reference.removeprefix(_BRANCH) if reference and reference.startswith(_BRANCH) else None
