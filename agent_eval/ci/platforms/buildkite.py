"""Buildkite: the baseline is an earlier build's artifact, the comment an annotation of the build."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TextIO, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from agent_eval.ci.comment import Marker, Published
from agent_eval.ci.earlier import Asked, EarlierRun, Expired, Skipped, Withheld, refuse_large_archive
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.platforms.checkout_job import NOT_FOUND, CheckoutJob, no_such_run, number_in, opened
from agent_eval.ci.platforms.rest import RestApi
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import COMMIT, PlatformSpec, Remedies, Words
from agent_eval.config.options import CI, Option
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child

BUILDKITE = PlatformSpec(
    name="buildkite",
    platform="agent_eval.ci.platforms.buildkite:Buildkite",
    detect=lambda environ: environ.get("BUILDKITE") == "true",
    comment_limit=250_000,  # An annotation takes 1 MiB, and a character up to four bytes.
    summary_limit=1 << 20,
    words=Words(change="pull request", full_report="build's artifacts"),
    inputs=(
        Option(
            "buildkite-token",
            "secret",
            "API token of Buildkite with the scopes `read_builds` and `read_artifacts`, for the baseline. "
            "The job's own token lists no builds.",
            goes_to="platform.buildkite_token",
            commands=(CI,),
            in_file=False,
        ),
        Option(
            "buildkite-api-url",
            "url",
            "REST address of Buildkite. Default: https://api.buildkite.com/v2.",
            goes_to="platform.buildkite_api_url",
            commands=(CI,),
            in_file=False,
        ),
    ),
    secret_names=frozenset({"BUILDKITE_AGENT_TOKEN", "BUILDKITE_API_TOKEN"}),
    job_files=r"(.*/)?\.buildkite/.*",
    secret_prefixes=("BUILDKITE_AGENT_ACCESS_TOKEN", "BUILDKITE_AGENT_JOB_API_"),
    remedies=Remedies(
        read_runs="Give `buildkite-token` the scopes `read_builds` and `read_artifacts`.",
        write_comment="The agent may not annotate the build",
        write_from_fork="The build of a fork may not annotate",
        run_fork="Build forks in a cluster of their own, which has no secrets.",
        set_variable="Set it with the pipeline's secrets, or in an agent's `environment` hook",
    ),
)

Row = TypeVar("Row", bound=BaseModel)

PUBLIC_API = "https://api.buildkite.com/v2"
PAGE = 100
MAX_ARTIFACT_PAGES = 10
_STYLES = {"passed": "success", "inconclusive": "warning", "no-baseline": "info"}
"""Style of the annotation by outcome; `error` for any other."""
_SECONDS = 60.0
_JUDGED = frozenset({"passed", "failed"})
_SLUG = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ADDRESS = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/]*@)?(?P<host>[^:/]*)[:/]+(?:\d+/)?(?P<path>.+?)(?:\.git)?/*", re.I
)


@dataclass(frozen=True, kw_only=True)
class BuildkiteBuild:
    """The build and the job, as Buildkite's variables describe them. What a kind of build lacks is None.

    Attributes:
        organization: Its slug.
        pipeline: Its slug.
        number: Of the build, which grows with time in each pipeline.
        job: Id of the job.
        url: The build's page.
        commit: The commit that is built; None where the build was started for `HEAD`.
        branch: The branch that is built; None for a tag and a pull request.
        tag: The tag that is built.
        default_branch: The pipeline's.
        source: What started the build, such as `webhook` or `schedule`.
        target: The branch that the pull request, or the merge queue, goes into.
        queue_base: The commit onto which a merge queue puts the change.
        repository: Its address.
        from_fork: Whether the pull request comes from another repository.
    """

    organization: str
    pipeline: str
    number: int | None = None
    job: str = ""
    url: str | None = None
    commit: str | None = None
    branch: str | None = None
    tag: str | None = None
    default_branch: str | None = None
    source: str = ""
    target: str | None = None
    queue_base: str | None = None
    repository: str = ""
    from_fork: bool = False


def read_build(environ: Mapping[str, str]) -> BuildkiteBuild:
    """Read the build of this job.

    Example:
        >>> variables = {"BUILDKITE_ORGANIZATION_SLUG": "acme", "BUILDKITE_PIPELINE_SLUG": "shop"}
        >>> read_build({**variables, "BUILDKITE_BRANCH": "main"}).branch
        'main'

    Raises:
        UsageError: The slug of the organization or of the pipeline is missing.
    """

    def commit(name: str) -> str | None:
        stated = environ.get(name, "")
        return stated if COMMIT.fullmatch(stated) else None

    of_pull_request = environ.get("BUILDKITE_PULL_REQUEST", "false") not in ("", "false")
    repository = environ.get("BUILDKITE_REPO", "")
    default = environ.get("BUILDKITE_PIPELINE_DEFAULT_BRANCH") or None
    queue = environ.get("BUILDKITE_MERGE_QUEUE_BASE_BRANCH") or None
    tag = environ.get("BUILDKITE_TAG") or None
    target = (environ.get("BUILDKITE_PULL_REQUEST_BASE_BRANCH") or default) if of_pull_request else queue
    return BuildkiteBuild(
        organization=_slug(environ, "BUILDKITE_ORGANIZATION_SLUG"),
        pipeline=_slug(environ, "BUILDKITE_PIPELINE_SLUG"),
        number=number_in(environ.get("BUILDKITE_BUILD_NUMBER")),
        job=environ.get("BUILDKITE_JOB_ID", ""),
        url=environ.get("BUILDKITE_BUILD_URL") or None,
        commit=commit("BUILDKITE_COMMIT"),
        branch=None if tag or target else environ.get("BUILDKITE_BRANCH") or None,
        tag=tag,
        default_branch=default,
        source=environ.get("BUILDKITE_SOURCE", ""),
        target=target,
        queue_base=commit("BUILDKITE_MERGE_QUEUE_BASE_COMMIT"),
        repository=repository,
        # A pull request whose repository is not shown to be this one may come from any.
        from_fork=of_pull_request
        and not same_repository(repository, environ.get("BUILDKITE_PULL_REQUEST_REPO", "")),
    )


def same_repository(first: str, second: str) -> bool:
    """Whether two addresses name one repository, whatever the protocol.

    Example:
        >>> same_repository("git@git.example:acme/shop.git", "https://git.example/acme/shop")
        True
    """

    def normalized(address: str) -> str:
        match = _ADDRESS.fullmatch(address.strip())
        return f"{match['host']}/{match['path']}".lower() if match else ""

    return normalized(first) == normalized(second) != ""


def _slug(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not _SLUG.fullmatch(value):
        raise UsageError(
            f"{name} is not the slug that Buildkite sets: {value[:200]!r}",
            remedy="Run this inside Buildkite, or unset BUILDKITE.",
            field=name,
        )
    return value


class _PullRequest(BaseModel):
    id: str | int | None = None


class _Build(BaseModel):
    """A build. `pull_request` is null or empty where there is none."""

    number: int
    state: str
    commit: str
    branch: str
    web_url: str
    created_at: datetime
    pull_request: _PullRequest | None = None

    @property
    def of_pull_request(self) -> bool:
        return self.pull_request is not None and self.pull_request.id is not None


class _Artifact(BaseModel):
    id: str
    job_id: str
    state: str
    path: str
    file_size: int
    sha1sum: str


class Buildkite(CheckoutJob):
    """One job of Buildkite.

    Args:
        settings: The checked settings.
        environ: The environment variables that the agent sets.
        stream: The job's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often Buildkite is asked.

    Raises:
        UsageError: The variables cannot be read, or the API address is not https.
    """

    spec = BUILDKITE

    def __init__(
        self,
        settings: PlatformSettings,
        environ: Mapping[str, str],
        stream: TextIO,
        *,
        sleep: Callable[[float], None] = time.sleep,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(settings, environ, stream)
        self.build = read_build(environ)
        self._outcome = ""
        self._root = f"/organizations/{self.build.organization}/pipelines/{self.build.pipeline}/builds"
        token = settings.own["buildkite_token"]
        self._api: RestApi | None = None
        if token:
            address = settings.own["buildkite_api_url"] or PUBLIC_API
            secret = {"Authorization": f"Bearer {token}"}
            session = opened(
                lambda: Session(address, secret_headers=secret, patience=patience, sleep=sleep),
                field="buildkite-api-url",
            )
            remedy = "Check the API address (`buildkite-api-url`)."
            self._api = RestApi(session, name="Buildkite", remedy=remedy)

    @property
    def run(self) -> CiRun:
        """The build, as Buildkite's variables describe it."""
        build = self.build
        # Buildkite tells no build of a fork what it may do; a token of this pipeline shows that it may.
        trusted_with_secrets = build.from_fork and self._api is not None
        return CiRun(
            head_sha=build.commit or self._commit,
            run_url=f"{build.url}#{build.job}" if build.url and build.job else build.url,
            run_name=f"buildkite-{build.number}-{build.job[:8]}" if build.number else None,
            evidence_url=build.url,
            from_fork=build.from_fork,
            is_scheduled=build.source in ("schedule", "ui") if build.source else None,
            fork_event="pull request" if trusted_with_secrets else "",
        )

    @property
    def refs(self) -> Refs:
        """The branches as Buildkite names them."""
        build = self.build
        return Refs(
            default_branch=build.default_branch,
            branch=build.branch,
            tag=build.tag,
            target=build.target,
            queue_base=build.queue_base,
            remote=self._remote_at(build.repository),
        )

    @property
    def _reads(self) -> RestApi:
        if self._api is None:
            fork = "the build of a fork" if self.build.from_fork else ""
            self._cannot_search(noun="build", of_a_fork=fork, remedy="Set `buildkite-token`")
        return self._api

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the builds of the commit, then the newest hundred of each branch."""
        own = self.build.number
        for query in (
            *([{"commit": asked.commit}] if asked.commit is not None else []),
            *({"branch": branch} for branch in asked.branches),
        ):
            for build in self._rows(_Build, "", 1, state="finished", exclude_pipeline="true", **query):
                is_later = own is not None and asked.before_own and build.number > own
                if build.state in _JUDGED and build.number != own and not is_later:
                    yield self._earlier(build)

    def run_named(self, number: int) -> EarlierRun:
        """Find a build that is none of a pull request."""
        try:
            build = self._reads.get(_Build, f"{self._root}/{number}")
        except HttpError as error:
            if error.status != NOT_FOUND:
                raise
            raise no_such_run(f"There is no build {number} that the token may read.", "build") from error
        if build.of_pull_request:
            raise no_such_run(f"Build {number} is one of a pull request.", "build")
        return self._earlier(build)

    def _earlier(self, build: _Build) -> EarlierRun:
        return EarlierRun(
            number=build.number,
            label=f"build {build.number}",
            commits=frozenset({build.commit}),
            branch=build.branch,
            created_at=build.created_at.isoformat(),
            url=build.web_url,
            # The branch of a pull request has the name that its author chose, also in a fork.
            is_own_code=not build.of_pull_request,
            fetch=partial(self._fetch, build.number, f"build {build.number}"),
        )

    def _fetch(self, number: int, label: str) -> bytes:
        artifact = self._usable(number, label)
        # The address is built here: the answer's could lead the token elsewhere.
        place = f"jobs/{quote(artifact.job_id)}/artifacts/{quote(artifact.id)}/download"
        data = self._reads.evidence(f"{self._root}/{number}/{place}", label=label)
        # It proves that the transport lost nothing; who made the evidence only a signature shows.
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() != artifact.sha1sum:
            raise Withheld(
                f"The evidence of {label} is not what Buildkite recorded; it was not used.", loud=True
            )
        return data

    def _usable(self, number: int, label: str) -> _Artifact:
        path = self._evidence_path
        listed = self._rows(_Artifact, f"/{number}/artifacts", MAX_ARTIFACT_PAGES, path=path)
        artifacts = [artifact for artifact in listed if artifact.path == path]
        finished = [artifact for artifact in artifacts if artifact.state == "finished"]
        if len(finished) > 1:
            raise Withheld(f"Several jobs of {label} left `{path}`; which one counts is not known.")
        if finished:
            refuse_large_archive(finished[0].file_size, label)
            return finished[0]
        if any(artifact.state in ("expired", "deleted") for artifact in artifacts):
            raise Expired(f"The artifacts of {label} have expired.")
        raise Skipped(f"{label.capitalize()} left no artifact `{path}`.")

    def _rows(self, model: type[Row], place: str, max_pages: int, **query: str) -> Iterator[Row]:
        listing = f"{self._root}{place}?{urlencode(query)}"
        return self._reads.rows(model, listing, page=PAGE, max_pages=max_pages)

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Keep the outcome, which decides the annotation's style; later steps read the artifacts."""
        self._outcome = values.get("outcome", self._outcome)

    def publish(self, body: Callable[[str], str]) -> Published:
        """Write the annotation of this evaluation, or replace it."""
        build, comment_id = self.build, self._settings.comment_id
        marker = Marker(comment_id, build.commit, build.number or 0, 1)
        style = _STYLES.get(self._outcome, "error")
        command = ["buildkite-agent", "annotate", "--context", f"agent-eval-{comment_id}", "--style", style]
        buildkite = {name: value for name, value in self._environ.items() if name.startswith("BUILDKITE")}
        try:
            done = run_child(
                command,
                stdin=body(str(marker)).encode("utf-8", "replace"),
                env={**allowed_environment(self._environ), **buildkite},
                limits=ChildLimits(seconds=_SECONDS),
            )
        except AgentEvalError as error:
            return _no_annotation(f"{error.message} Run the job where `buildkite-agent` is on the PATH.")
        if done.failure is not None:
            stderr = done.stderr.decode("utf-8", "replace").strip()[-500:]
            return _no_annotation(f"`buildkite-agent annotate` failed: {stderr}")
        return Published("updated", build.url or "")


def _no_annotation(why: str) -> Published:
    report = f"The report is in the {BUILDKITE.words.full_report}."
    return Published("refused", warning=f"The build was not annotated. {why} {report}")
