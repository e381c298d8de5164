"""Find the run of a pull request that a second, trusted job reports on, and the pull request it belongs to.

The first job ran the code and the workflow of a fork, so nothing that it wrote says whose comment is written.
Commit, fork and pull request come from GitHub, by the number of the run, which the runner passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent_eval.ci.platforms.github.api import GitHubApi, PullRequest, WorkflowRun
from agent_eval.ci.platforms.github.event import GitHubEvent
from agent_eval.errors import UsageError
from agent_eval.http.errors import HttpError

_MAY_REPORT = frozenset({"workflow_run", "workflow_dispatch"})
"""Events whose jobs run the default branch's workflow, and which no change can alter."""


@dataclass(frozen=True, kw_only=True)
class ReportedRun:
    """A finished run of a pull request.

    Example:
        `find_reported(api, event, 500).event.pull_request` is where its report goes.

    Args:
        run: As GitHub describes it.
        event: The event of this job, with the change that the run evaluated.
        why_no_comment: Why no comment is written, as a sentence; empty where one is.
    """

    run: WorkflowRun
    event: GitHubEvent
    why_no_comment: str = ""


def find_reported(api: GitHubApi, event: GitHubEvent, run_id: int) -> ReportedRun:
    """Read a run and find its pull request.

    Args:
        api: Of the repository.
        event: That triggered this job.
        run_id: Of the run.

    Raises:
        UsageError: This job is not one that no change can alter; or there is no such run, or it is not a
            finished run of a pull request into this repository.
        RemoteError: GitHub refuses or cannot be reached.
    """
    if event.name not in _MAY_REPORT:
        raise _wrong(
            f"A job of `{event.name or 'no event'}` runs a workflow that the change itself may have written.",
            "Use `on: workflow_run`.",
        )
    repository_id = event.repository_id or api.repository().id
    run = _read_run(api, run_id, repository_id)
    pulls = [pull for pull in _listed(api, run) if _is_of(pull, run, repository_id)]
    pull = pulls[0] if len(pulls) == 1 else None
    return ReportedRun(run=run, event=_with_change(event, run, pull), why_no_comment=_why_none(run, pulls))


def _read_run(api: GitHubApi, run_id: int, repository_id: int) -> WorkflowRun:
    try:
        run = api.run(run_id)
    except HttpError as error:
        if error.status != 404:
            raise
        raise _wrong(f"There is no workflow run {run_id} in this repository.") from error
    if run.repository.id != repository_id or run.event != "pull_request":
        raise _wrong(f"Run {run_id} is no run of a pull request into this repository.")
    if run.status != "completed":
        raise _wrong(f"Run {run_id} is not finished.", "Use `types: [completed]`.")
    return run


def _listed(api: GitHubApi, run: WorkflowRun) -> list[PullRequest]:
    head = run.head_repository
    if head is None or head.owner is None or not run.head_branch:
        return []
    return api.open_pulls(head.owner.login, run.head_branch)


def _is_of(pull: PullRequest, run: WorkflowRun, repository_id: int) -> bool:
    """Whether a pull request points at the commit and the fork of the run, whatever the filter let pass."""
    head, base = pull.head, pull.base
    return (
        head.sha == run.head_sha
        and head.repo is not None
        and run.head_repository is not None
        and head.repo.id == run.head_repository.id
        and base.repo is not None
        and base.repo.id == repository_id
    )


def _with_change(event: GitHubEvent, run: WorkflowRun, pull: PullRequest | None) -> GitHubEvent:
    """Describe the change as that of a fork, so that only the base branch's rules count."""
    return replace(
        event,
        # The comment's marker names the run that evaluated: of two reports the one on the newer run stays.
        run_id=run.id,
        attempt=run.run_attempt,
        head_sha=run.head_sha,
        base_branch=pull.base.ref if pull is not None else event.default_branch,
        branch=None,
        tag=None,
        pull_request=pull.number if pull is not None else None,
        from_fork=True,
    )


def _why_none(run: WorkflowRun, pulls: list[PullRequest]) -> str:
    if not pulls:
        return (
            f"No comment was written: no open pull request has the commit of run {run.id} as its newest one. "
            "The report is in the job summary."
        )
    if len(pulls) > 1:
        numbers = ", ".join(str(pull.number) for pull in pulls)
        return (
            f"No comment was written: run {run.id} may belong to any of the pull requests {numbers}. "
            "The report is in the job summary."
        )
    return ""


def _wrong(why: str, remedy: str = "Correct `report-run-id`.") -> UsageError:
    return UsageError(why, remedy=remedy, field="report-run-id")
