"""Read what this job runs for from GitLab's predefined variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_eval.ci.platforms.spec import COMMIT
from agent_eval.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class GitLabPipeline:
    """The pipeline and the job. Fields that a kind of pipeline does not have are None.

    Example:
        >>> read_pipeline({"CI_PROJECT_ID": "4", "CI_COMMIT_BRANCH": "main"}).branch
        'main'

    Args:
        project: Number of the project in which the job runs; of a fork, the fork's.
        target_project: Number of the project that the change goes into.
        job_name: As in `.gitlab-ci.yml`, with the number of the shard where the job is parallel.
        pipeline_id: Grows with time.
        source: What started the pipeline, such as `push` or `schedule`.
        job_id: Grows with time; a retried job has a new one.
        job_url: The job's page.
        head_sha: The commit that is evaluated; of a merge request its head, not GitLab's trial merge.
        base_sha: The commit where the merge request left its target branch.
        branch: The branch that the job runs on; None for merge requests and tags.
        target_branch: The branch that the merge request goes into.
        default_branch: The project's.
        merge_request: Its number in the target project.
        merge_request_url: Its page.
        from_fork: Whether the change comes from another project.
    """

    project: int
    target_project: int
    job_name: str = ""
    pipeline_id: int | None = None
    source: str = ""
    job_id: int | None = None
    job_url: str | None = None
    head_sha: str | None = None
    base_sha: str | None = None
    branch: str | None = None
    target_branch: str | None = None
    default_branch: str | None = None
    merge_request: int | None = None
    merge_request_url: str | None = None
    from_fork: bool = False

    @property
    def has_secrets_of_target(self) -> bool:
        """Whether the job runs in the project that the change goes into, with its variables and tokens."""
        return self.project == self.target_project


def read_pipeline(environ: Mapping[str, str]) -> GitLabPipeline:
    """Read the pipeline of this job.

    Raises:
        UsageError: `CI_PROJECT_ID` is not a number.
    """
    project = _number(environ, "CI_PROJECT_ID")
    if project is None:
        raise UsageError(
            f"CI_PROJECT_ID is not a number: {environ.get('CI_PROJECT_ID', '')[:200]!r}",
            remedy="Run this inside GitLab CI, or unset GITLAB_CI.",
            field="CI_PROJECT_ID",
        )
    merge_request = _number(environ, "CI_MERGE_REQUEST_IID")
    job = {
        "project": project,
        "job_name": environ.get("CI_JOB_NAME", ""),
        "pipeline_id": _number(environ, "CI_PIPELINE_ID"),
        "source": environ.get("CI_PIPELINE_SOURCE", ""),
        "job_id": _number(environ, "CI_JOB_ID"),
        "job_url": environ.get("CI_JOB_URL") or None,
        "default_branch": environ.get("CI_DEFAULT_BRANCH") or None,
    }
    if merge_request is None:
        return GitLabPipeline(
            **job,  # type: ignore[arg-type]  # the names and types of the fields
            target_project=project,
            head_sha=_commit(environ, "CI_COMMIT_SHA"),
            branch=environ.get("CI_COMMIT_BRANCH") or None,
        )
    target = _number(environ, "CI_MERGE_REQUEST_PROJECT_ID")
    source = _number(environ, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID")
    project_url = environ.get("CI_MERGE_REQUEST_PROJECT_URL", "")
    return GitLabPipeline(
        **job,  # type: ignore[arg-type]
        target_project=target or project,
        # Merged results and trains evaluate a commit that is in no branch; the variable is empty elsewhere.
        head_sha=_commit(environ, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or _commit(environ, "CI_COMMIT_SHA"),
        base_sha=_commit(environ, "CI_MERGE_REQUEST_DIFF_BASE_SHA"),
        target_branch=environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") or None,
        merge_request=merge_request,
        merge_request_url=f"{project_url}/-/merge_requests/{merge_request}" if project_url else None,
        # A source without a number is a fork that was deleted.
        from_fork=target is None or source != target,
    )


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _commit(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name, "")
    return text if COMMIT.fullmatch(text) else None
