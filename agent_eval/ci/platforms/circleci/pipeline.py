"""Read what this job runs for from CircleCI's variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_eval.ci.platforms.spec import COMMIT


@dataclass(frozen=True, kw_only=True)
class CircleCIPipeline:
    """The pipeline and the job. Fields that are not set are None or empty.

    Example:
        >>> read_pipeline({"CIRCLE_BRANCH": "main", "CIRCLE_JOB": "agent-eval"}).branch
        'main'

    Args:
        pipeline: Id of the pipeline.
        job: Name of the job.
        build: Number of the job, which grows with time.
        url: The job's page.
        commit: The commit that is built.
        branch: The branch that is built; `pull/N` for the pull request of a fork.
        pull_request: Page of a pull request of the branch: of several the one with the lowest number.
        from_fork: Whether the change comes from another repository.
    """

    pipeline: str = ""
    job: str = ""
    build: int | None = None
    url: str | None = None
    commit: str | None = None
    branch: str | None = None
    pull_request: str | None = None
    from_fork: bool = False


def read_pipeline(environ: Mapping[str, str]) -> CircleCIPipeline:
    """Read the pipeline of this job."""
    build, commit = environ.get("CIRCLE_BUILD_NUM", ""), environ.get("CIRCLE_SHA1", "")
    branch = environ.get("CIRCLE_BRANCH", "")
    # These variables are set for the pull requests of forks alone.
    of_fork = any(environ.get(f"CIRCLE_PR_{name}") for name in ("NUMBER", "USERNAME", "REPONAME"))
    return CircleCIPipeline(
        pipeline=environ.get("CIRCLE_PIPELINE_ID", ""),
        job=environ.get("CIRCLE_JOB", ""),
        build=int(build) if build.isascii() and build.isdigit() and len(build) <= 18 else None,
        url=environ.get("CIRCLE_BUILD_URL") or None,
        commit=commit if COMMIT.fullmatch(commit) else None,
        branch=branch or None,
        pull_request=_oldest(environ.get("CIRCLE_PULL_REQUESTS") or environ.get("CIRCLE_PULL_REQUEST", "")),
        from_fork=of_fork or branch.startswith("pull/"),
    )


def _oldest(pages: str) -> str | None:
    """Choose from a list of pages separated by commas; CircleCI itself picks one at random."""

    def number(page: str) -> int:
        last = page.rpartition("/")[2]
        return int(last) if last.isascii() and last.isdigit() and len(last) <= 18 else 0

    return min(filter(None, (page.strip() for page in pages.split(","))), key=number, default=None)
