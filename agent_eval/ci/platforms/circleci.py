"""CircleCI: the baseline is an artifact of an earlier pipeline, the report one of the job's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, TextIO, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel

from agent_eval.ci.comment import Marker, Published
from agent_eval.ci.earlier import Asked, EarlierRun, Expired, Skipped, Withheld
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.platforms.checkout_job import NOT_FOUND, CheckoutJob, no_such_run, number_in, opened
from agent_eval.ci.platforms.hosted import HostedChange, comment_on
from agent_eval.ci.platforms.rest import RestApi
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import COMMIT, PlatformSpec, Remedies, Words
from agent_eval.config.options import CI, Option
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience
from agent_eval.text.escape import clean

CIRCLECI = PlatformSpec(
    name="circleci",
    platform="agent_eval.ci.platforms.circleci:CircleCI",
    detect=lambda environ: environ.get("CIRCLECI") == "true",
    comment_limit=65_536,
    summary_limit=1 << 20,
    job_files=r"(.*/)?\.circleci/.*",
    shows_tests=True,
    words=Words(change="pull request", full_report="job's artifacts"),
    inputs=(
        Option(
            "circleci-token",
            "secret",
            "Personal API token of CircleCI, from a restricted context, for the baseline. Jobs have no token "
            "of their own.",
            goes_to="platform.circleci_token",
            commands=(CI,),
            in_file=False,
        ),
        Option(
            "circleci-project-slug",
            "text",
            "The project as CircleCI's API names it; give `<< pipeline.project.slug >>`.",
            goes_to="platform.circleci_project_slug",
            commands=(CI,),
            in_file=False,
        ),
        Option(
            "circleci-pull-request",
            "text",
            "Address of the pull request or merge request, for the comment. Default: CIRCLE_PULL_REQUEST, "
            "which not every kind of project has.",
            goes_to="platform.circleci_pull_request",
            commands=(CI,),
            in_file=False,
        ),
        Option(
            "circleci-api-url",
            "url",
            "REST address of CircleCI. Default: https://circleci.com/api/v2.",
            goes_to="platform.circleci_api_url",
            commands=(CI,),
            in_file=False,
        ),
    ),
    command_files=("BASH_ENV",),
    secret_names=frozenset({"CIRCLE_TOKEN", "CIRCLE_OIDC_TOKEN", "CIRCLE_OIDC_TOKEN_V2", "CIRCLECI_TOKEN"}),
    remedies=Remedies(
        read_runs="Set `circleci-token` to a personal token of an account that may read the project, and "
        "`circleci-project-slug` to `<< pipeline.project.slug >>`.",
        run_fork="Leave `Pass secrets to builds from forked pull requests` off.",
        write_comment="The token may not write comments: give it the right to, on the repository",
        set_variable="Set it in a context, or in the project's environment variables",
    ),
)

Row = TypeVar("Row")

PUBLIC_API = "https://circleci.com/api/v2"
MAX_PAGES = 10
_HOSTS = (".circle-artifacts.com", ".circleci.com")
_JUDGED = frozenset({"success", "failed"})
_REMEDY = "Check the API address (`circleci-api-url`)."


@dataclass(frozen=True, kw_only=True)
class CircleCIPipeline:
    """The pipeline and the job, as CircleCI's variables describe them. What is not set is None or empty.

    Attributes:
        pipeline: Id of the pipeline.
        job: Name of the job.
        build: Number of the job, which grows with time.
        url: The job's page.
        commit: The commit that is built.
        branch: The branch that is built; None for a tag and for the pull request of a fork.
        tag: The tag that is built.
        repository: Address of the repository.
        pull_request: Page of a pull request of the branch: of several the one with the lowest number.
        from_fork: Whether the change comes from another repository.
    """

    pipeline: str = ""
    job: str = ""
    build: int | None = None
    url: str | None = None
    commit: str | None = None
    branch: str | None = None
    tag: str | None = None
    repository: str = ""
    pull_request: str | None = None
    from_fork: bool = False


def read_pipeline(environ: Mapping[str, str]) -> CircleCIPipeline:
    """Read the pipeline of this job.

    Example:
        >>> read_pipeline({"CIRCLE_BRANCH": "main", "CIRCLE_JOB": "agent-eval"}).branch
        'main'
    """
    commit, branch = environ.get("CIRCLE_SHA1", ""), environ.get("CIRCLE_BRANCH", "")
    # These variables are set for the pull requests of forks alone, whose branch is called `pull/N`.
    of_fork = any(environ.get(f"CIRCLE_PR_{name}") for name in ("NUMBER", "USERNAME", "REPONAME"))
    from_fork = of_fork or branch.startswith("pull/")
    return CircleCIPipeline(
        pipeline=environ.get("CIRCLE_PIPELINE_ID", ""),
        job=environ.get("CIRCLE_JOB", ""),
        build=number_in(environ.get("CIRCLE_BUILD_NUM")),
        url=environ.get("CIRCLE_BUILD_URL") or None,
        commit=commit if COMMIT.fullmatch(commit) else None,
        branch=None if from_fork else branch or None,
        tag=environ.get("CIRCLE_TAG") or None,
        repository=environ.get("CIRCLE_REPOSITORY_URL", ""),
        pull_request=_oldest(environ.get("CIRCLE_PULL_REQUESTS") or environ.get("CIRCLE_PULL_REQUEST", "")),
        from_fork=from_fork,
    )


def _oldest(pages: str) -> str | None:
    """Choose from a list of pages separated by commas; CircleCI itself picks one at random."""
    listed = filter(None, (page.strip() for page in pages.split(",")))
    return min(listed, key=lambda page: number_in(page.rpartition("/")[2]) or 0, default=None)


class _Source(BaseModel):
    """The code of a pipeline. Both addresses are equal unless it is a fork's."""

    revision: str
    branch: str | None = None
    origin_repository_url: str
    target_repository_url: str

    @property
    def is_own(self) -> bool:
        return self.origin_repository_url == self.target_repository_url


class _Pipeline(BaseModel):
    """A pipeline. `vcs` is None where something else than a push or a pull request started it."""

    id: str
    number: int
    state: str
    created_at: datetime
    vcs: _Source | None = None


class _Workflow(BaseModel):
    """A workflow of a pipeline. A rerun is another one."""

    id: str
    created_at: datetime


class _Job(BaseModel):
    """A job of a workflow. Approvals have no number."""

    name: str
    status: str
    job_number: int | None = None


class _Artifact(BaseModel):
    path: str
    url: str


class _Page(BaseModel, Generic[Row]):
    items: list[Row]
    next_page_token: str | None


class CircleCI(CheckoutJob):
    """One job of CircleCI.

    Args:
        settings: The checked settings.
        environ: The environment variables that CircleCI sets.
        stream: The job's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often CircleCI is asked.

    Raises:
        UsageError: The API address is not https, or a token comes without the project's slug.
    """

    spec = CIRCLECI

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
        self.pipeline = read_pipeline(environ)
        self._sleep, self._patience = sleep, patience
        own = settings.own
        token, project = own["circleci_token"], own["circleci_project_slug"]
        self._headers = {"Circle-Token": token}
        self._base = own["circleci_api_url"] or PUBLIC_API
        self._root = f"/project/{quote(project, safe='')}"
        self._api: RestApi | None = None
        if token and not project:
            raise UsageError(
                "The project's slug is not known.",
                remedy="Set `circleci-project-slug` to `<< pipeline.project.slug >>`.",
                field="circleci-project-slug",
            )
        if token:
            self._api = opened(lambda: self._rest(self._base), field="circleci-api-url")

    def _rest(self, base: str) -> RestApi:
        session = Session(base, secret_headers=self._headers, sleep=self._sleep, patience=self._patience)
        return RestApi(session, name="CircleCI", remedy=_REMEDY)

    @property
    def run(self) -> CiRun:
        """The job, as CircleCI's variables describe it."""
        pipeline = self.pipeline
        # A fork's job that has a token was given the project's secrets.
        tokens = [self._settings.own[name] for name in ("circleci_token", "github_token", "gitlab_token")]
        return CiRun(
            head_sha=pipeline.commit or self._commit,
            run_url=pipeline.url,
            run_name=f"circleci-{pipeline.build}" if pipeline.build else None,
            evidence_url=f"{pipeline.url}/artifacts" if pipeline.url else None,
            from_fork=pipeline.from_fork,
            fork_event="pull request" if pipeline.from_fork and any(tokens) else "",
        )

    @property
    def refs(self) -> Refs:
        """The branches as CircleCI names them; it knows neither the default branch nor a target."""
        pipeline = self.pipeline
        return Refs(branch=pipeline.branch, tag=pipeline.tag, remote=self._remote_at(pipeline.repository))

    @property
    def _reads(self) -> RestApi:
        if self._api is None:
            fork = "the job of a fork" if self.pipeline.from_fork else ""
            self._cannot_search(noun="pipeline", of_a_fork=fork, remedy="Set `circleci-token`")
        return self._api

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the newest pipelines of each branch: CircleCI finds none by its commit."""
        for branch in asked.branches:
            # The list begins with the newest, so those before this one are after it.
            is_earlier = not asked.before_own or self.pipeline.branch != branch
            for pipeline in self._rows(_Page[_Pipeline], f"{self._root}/pipeline", branch=branch):
                if pipeline.id == self.pipeline.pipeline:
                    is_earlier = True
                elif is_earlier and pipeline.state == "created" and pipeline.vcs is not None:
                    yield self._earlier(pipeline)

    def run_named(self, number: int) -> EarlierRun:
        """Find a pipeline whose code is this repository's."""
        try:
            pipeline = self._reads.get(_Pipeline, f"{self._root}/pipeline/{number}")
        except HttpError as error:
            if error.status != NOT_FOUND:
                raise
            raise no_such_run(
                f"There is no pipeline {number} that the token may read.", "pipeline"
            ) from error
        if pipeline.vcs is None or not pipeline.vcs.is_own:
            raise no_such_run(f"The code of pipeline {number} is not from this repository.", "pipeline")
        return self._earlier(pipeline)

    def _earlier(self, pipeline: _Pipeline) -> EarlierRun:
        source = pipeline.vcs
        return EarlierRun(
            number=pipeline.number,
            label=f"pipeline {pipeline.number}",
            commits=frozenset({source.revision} if source is not None else ()),
            branch=source.branch or "" if source is not None else "",
            created_at=pipeline.created_at.isoformat(),
            is_own_code=source is not None and source.is_own,
            fetch=partial(self._fetch, pipeline),
        )

    def _fetch(self, pipeline: _Pipeline) -> bytes:
        """Read the evidence of the newest workflow in which the job of this name came to an end."""
        label, path = f"pipeline {pipeline.number}", self._evidence_path
        job = self._job_of(pipeline)
        if job is None:
            raise Skipped(f"Pipeline {pipeline.number} has no finished job `{self.pipeline.job}`.")
        # The first page has all: the description knows no further ones.
        listed = self._reads.get(_Page[_Artifact], f"{self._root}/{job}/artifacts").items
        artifacts = [artifact for artifact in listed if artifact.path == path]
        if not artifacts:
            raise Expired(
                f"Pipeline {pipeline.number} has no artifact `{path}`: it has expired, or none was left."
            )
        if len(artifacts) > 1:
            raise Withheld(f"Several nodes of {label} left `{path}`; which one counts is not known.")
        return self._download(artifacts[0], label)

    def _job_of(self, pipeline: _Pipeline) -> int | None:
        workflows = self._rows(_Page[_Workflow], f"/pipeline/{quote(pipeline.id)}/workflow")
        for workflow in sorted(workflows, key=lambda row: row.created_at, reverse=True):
            # The first page has all jobs but those of the very largest workflows.
            for job in self._reads.get(_Page[_Job], f"/workflow/{quote(workflow.id)}/job").items:
                if job.name == self.pipeline.job and job.status in _JUDGED and job.job_number is not None:
                    return job.job_number
        return None

    def _download(self, artifact: _Artifact, label: str) -> bytes:
        """Download an artifact, which is on another host that wants the token as well.

        The token goes to hosts of CircleCI alone, and across no redirect.
        """
        address = urlsplit(artifact.url)
        host = address.hostname or ""
        if host != urlsplit(self._base).hostname and not host.endswith(_HOSTS):
            raise Withheld(f"The evidence of {label} is on an unknown host, {host[:100]}; it was not read.")
        rest = self._rest(f"{address.scheme}://{address.netloc}")
        return rest.evidence(address._replace(scheme="", netloc="").geturl(), label=label)

    def _rows(self, page: type[_Page[Row]], path: str, **params: str) -> Iterator[Row]:
        for _ in range(MAX_PAGES):
            answer = self._reads.get(page, path, params)
            yield from answer.items
            if not answer.next_page_token:
                return
            params["page-token"] = answer.next_page_token

    def publish(self, body: Callable[[str], str]) -> Published:
        """Write the comment where the change is hosted, if the job has a token for that."""
        pipeline, own = self.pipeline, self._settings
        url = own.own["circleci_pull_request"] or pipeline.pull_request
        if not url:
            return Published("none")
        marker = Marker(own.comment_id, pipeline.commit, pipeline.build or 0, 1)
        change = HostedChange(url=url, settings=own, sleep=self._sleep, patience=self._patience)
        report = CIRCLECI.words.full_report
        try:
            published = comment_on(change, marker, body(str(marker)), full_report=report)
        except AgentEvalError as error:
            return _no_comment(f"{error.message} {error.remedy}")
        if published is None and (own.own["github_token"] or own.own["gitlab_token"]):
            host = clean(change.host, limit=100)
            return _no_comment(
                f"The job has no token for {host}: set `github-token` or `gitlab-token`, and for a server of "
                "your own `github-api-url` or `gitlab-api-url`."
            )
        return published or Published("none")


def _no_comment(why: str) -> Published:
    report = f"The report is in the {CIRCLECI.words.full_report}."
    return Published("refused", warning=f"No comment was written. {why} {report}")
