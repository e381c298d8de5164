"""Read what this build is for from Jenkins' variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from agent_eval.ci.platforms.spec import COMMIT
from agent_eval.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class JenkinsBuild:
    """The build. Fields that a kind of job does not have are None.

    Example:
        >>> build = read_build({"JOB_URL": "https://ci.example/job/shop/job/PR-12/", "CHANGE_TARGET": "main"})
        >>> build.job_of("release/2")
        'https://ci.example/job/shop/job/release%252F2'

    Args:
        job_url: Address of the job, without a slash at its end.
        number: Of the build.
        url: The build's page.
        commit: The commit that is built; of a merged pull request a local merge.
        branch: The branch of a multibranch job; None for the build of a change, or of another kind of job.
        target: The branch that the change goes into.
        multibranch: Whether the job is one of several, one a branch.
        from_fork: Whether the change comes from another repository.
    """

    job_url: str
    number: int | None = None
    url: str | None = None
    commit: str | None = None
    branch: str | None = None
    target: str | None = None
    multibranch: bool = False
    from_fork: bool = False

    def job_of(self, branch: str) -> str:
        """The address of the sibling job for a branch, whose name Jenkins encodes twice."""
        parent = self.job_url.rpartition("/job/")[0]
        return f"{parent}/job/{quote(quote(branch, safe=''), safe='')}"


def read_build(environ: Mapping[str, str]) -> JenkinsBuild:
    """Read this build.

    Raises:
        UsageError: `JOB_URL` is not the address of a job.
    """
    job_url = environ.get("JOB_URL", "").strip().rstrip("/")
    if "/job/" not in job_url:
        raise UsageError(
            f"JOB_URL is not the address of a job: {job_url[:200]!r}",
            remedy="Set Jenkins' address under Manage Jenkins > System, or unset JENKINS_URL.",
            field="JOB_URL",
        )
    number, commit = environ.get("BUILD_NUMBER", ""), environ.get("GIT_COMMIT", "")
    target = environ.get("CHANGE_TARGET") or None
    of_change = bool(environ.get("CHANGE_ID")) or target is not None
    return JenkinsBuild(
        job_url=job_url,
        number=int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None,
        url=environ.get("BUILD_URL") or None,
        commit=commit if COMMIT.fullmatch(commit) else None,
        branch=None if of_change else environ.get("BRANCH_NAME") or None,
        target=target,
        multibranch=of_change or bool(environ.get("BRANCH_NAME")),
        from_fork=bool(environ.get("CHANGE_FORK")),
    )
