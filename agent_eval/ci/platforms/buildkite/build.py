"""Read what this job runs for from Buildkite's variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent_eval.ci.platforms.spec import COMMIT
from agent_eval.errors import UsageError

_SLUG = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ADDRESS = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/]*@)?(?P<host>[^:/]+)[:/]+(?:\d+/)?(?P<path>.+?)(?:\.git)?/*", re.I
)


@dataclass(frozen=True, kw_only=True)
class BuildkiteBuild:
    """The build and the job. Fields that a kind of build does not have are None.

    Example:
        >>> variables = {"BUILDKITE_ORGANIZATION_SLUG": "acme", "BUILDKITE_PIPELINE_SLUG": "shop"}
        >>> read_build({**variables, "BUILDKITE_BRANCH": "main"}).branch
        'main'

    Args:
        organization: Its slug.
        pipeline: Its slug.
        number: Of the build, which grows with time in each pipeline.
        job: Id of the job.
        url: The build's page.
        commit: The commit that is built; None where the build was started for `HEAD`.
        branch: The branch that is built; of a tag its name.
        default_branch: The pipeline's.
        source: What started the build, such as `webhook` or `schedule`.
        pull_request: Whether the build is one of a pull request.
        target_branch: The branch that the pull request goes into.
        from_fork: Whether the pull request comes from another repository.
    """

    organization: str
    pipeline: str
    number: int | None = None
    job: str = ""
    url: str | None = None
    commit: str | None = None
    branch: str | None = None
    default_branch: str | None = None
    source: str = ""
    pull_request: bool = False
    target_branch: str | None = None
    from_fork: bool = False


def read_build(environ: Mapping[str, str]) -> BuildkiteBuild:
    """Read the build of this job.

    Raises:
        UsageError: The slug of the organization or of the pipeline is missing.
    """
    pull_request = environ.get("BUILDKITE_PULL_REQUEST", "false") not in ("", "false")
    number = environ.get("BUILDKITE_BUILD_NUMBER", "")
    commit = environ.get("BUILDKITE_COMMIT", "")
    return BuildkiteBuild(
        organization=_slug(environ, "BUILDKITE_ORGANIZATION_SLUG"),
        pipeline=_slug(environ, "BUILDKITE_PIPELINE_SLUG"),
        number=int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None,
        job=environ.get("BUILDKITE_JOB_ID", ""),
        url=environ.get("BUILDKITE_BUILD_URL") or None,
        commit=commit if COMMIT.fullmatch(commit) else None,
        branch=environ.get("BUILDKITE_BRANCH") or None,
        default_branch=environ.get("BUILDKITE_PIPELINE_DEFAULT_BRANCH") or None,
        source=environ.get("BUILDKITE_SOURCE", ""),
        pull_request=pull_request,
        target_branch=environ.get("BUILDKITE_PULL_REQUEST_BASE_BRANCH") or None if pull_request else None,
        from_fork=pull_request and _is_fork(environ),
    )


def same_repository(first: str, second: str) -> bool:
    """Whether two addresses name one repository, whatever the protocol.

    Example:
        >>> same_repository("git@git.example:acme/shop.git", "https://git.example/acme/shop")
        True
    """
    return _normalized(first) == _normalized(second) != ""


def _is_fork(environ: Mapping[str, str]) -> bool:
    """Whether the pull request's repository is another one, or is not shown to be this one."""
    own, source = environ.get("BUILDKITE_REPO", ""), environ.get("BUILDKITE_PULL_REQUEST_REPO", "")
    return not same_repository(own, source)


def _normalized(address: str) -> str:
    match = _ADDRESS.fullmatch(address.strip())
    return f"{match['host']}/{match['path']}".lower() if match else ""


def _slug(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not _SLUG.fullmatch(value):
        raise UsageError(
            f"{name} is not the slug that Buildkite sets: {value[:200]!r}",
            remedy="Run this inside Buildkite, or unset BUILDKITE.",
            field=name,
        )
    return value
