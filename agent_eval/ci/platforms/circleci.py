"""CircleCI: the baseline is an artifact of an earlier pipeline, the report one of the job's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property, partial
from typing import Generic, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel

from agent_eval.ci.clone import Remote
from agent_eval.ci.comment import Marker, Published, job_of, of_pipeline
from agent_eval.ci.earlier import Asked, EarlierRun, Expired, Skipped, Withheld
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, Platform
from agent_eval.ci.platforms.github_api import pull_request_comments
from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words, commit_in, number_in, own_input
from agent_eval.ci.rest import RestApi
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.text.escape import clean

CIRCLECI = PlatformSpec(
    name="circleci",
    detect=lambda environ: environ.get("CIRCLECI") == "true",
    words=Words(
        change="pull request",
        full_report="job's artifacts",
        earlier_run="pipeline",
        job_of_fork="the job of a fork",
    ),
    inputs=(
        own_input(
            "circleci-token",
            "secret",
            "CircleCI: personal API token for the baseline.",
            detail="From a restricted context; jobs have no token of their own.",
        ),
        own_input(
            "circleci-project-slug", "text", "CircleCI: the project; give `<< pipeline.project.slug >>`."
        ),
        own_input(
            "circleci-api-url", "url", "REST address of CircleCI. Default: https://circleci.com/api/v2."
        ),
    ),
    command_files=("BASH_ENV",),
    secret_names=frozenset({"CIRCLE_TOKEN", "CIRCLE_OIDC_TOKEN", "CIRCLE_OIDC_TOKEN_V2", "CIRCLECI_TOKEN"}),
    remedies=Remedies(
        read_runs="Set `circleci-token` to a personal token of an account that may read the project, and "
        "`circleci-project-slug` to `<< pipeline.project.slug >>`.",
        run_fork="Leave `Pass secrets to builds from forked pull requests` off.",
        set_variable="Set it in a context, or in the project's environment variables",
    ),
)

Row = TypeVar("Row")
PUBLIC_API = "https://circleci.com/api/v2"
MAX_PAGES = 10
_HOSTS = (".circle-artifacts.com", ".circleci.com")
_JUDGED = frozenset({"success", "failed"})


class _Source(BaseModel):
    """The code of a pipeline. Both addresses are equal unless it is a fork's."""

    revision: str
    branch: str | None = None
    origin_repository_url: str
    target_repository_url: str


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


class CircleCI(Platform):
    """One job of CircleCI."""

    spec = CIRCLECI

    def begin(self) -> None:
        """Read pipeline and job, and open the API where there is a token."""
        environ, own = self._environ, self._own
        self._pipeline, self._job = environ.get("CIRCLE_PIPELINE_ID", ""), environ.get("CIRCLE_JOB", "")
        self._number = number_in(environ.get("CIRCLE_BUILD_NUM"))
        self._head = commit_in(environ.get("CIRCLE_SHA1"))
        self._base = own["circleci_api_url"] or PUBLIC_API
        self._root = f"/project/{quote(own['circleci_project_slug'], safe='')}"
        if own["circleci_token"] and not own["circleci_project_slug"]:
            raise UsageError(
                "The project's slug is not known.",
                remedy="Set `circleci-project-slug` to `<< pipeline.project.slug >>`.",
                field="circleci-project-slug",
            )
        if own["circleci_token"]:
            self._api = self._open(self._base)

    def _open(self, base: str) -> RestApi:
        token = {"Circle-Token": self._own["circleci_token"]}
        return self._connect.open(base, token, name="CircleCI", field="circleci-api-url")

    @cached_property
    def run(self) -> CiRun:
        """The job, as CircleCI's variables describe it."""
        environ, url = self._environ, self._environ.get("CIRCLE_BUILD_URL") or None
        # These variables are set for the pull requests of forks alone, whose branch is called `pull/N`.
        of_fork = any(environ.get(f"CIRCLE_PR_{name}") for name in ("NUMBER", "USERNAME", "REPONAME"))
        from_fork = of_fork or environ.get("CIRCLE_BRANCH", "").startswith("pull/")
        # A fork's job that has a token was given the project's secrets.
        tokens = [self._own[name] for name in ("circleci_token", "github_token", "gitlab_token")]
        return CiRun(
            head_sha=self._head or self._commit,
            run_url=url,
            run_name=f"circleci-{self._number}" if self._number else None,
            evidence_url=f"{url}/artifacts" if url else None,
            from_fork=from_fork,
            fork_event="pull request" if from_fork and any(tokens) else "",
        )

    @cached_property
    def refs(self) -> Refs:
        """The branches as CircleCI names them; it knows neither the default branch nor a target."""
        environ, url = self._environ, self._environ.get("CIRCLE_REPOSITORY_URL", "")
        return Refs(
            branch=None if self.run.from_fork else environ.get("CIRCLE_BRANCH") or None,
            tag=environ.get("CIRCLE_TAG") or None,
            remote=Remote(url) if url else self._origin,
        )

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the newest pipelines of each branch: CircleCI finds none by its commit."""
        for branch in asked.branches:
            # The list begins with the newest, so those before this one are after it.
            is_earlier = not asked.before_own or self.refs.branch != branch
            for pipeline in self._rows(_Page[_Pipeline], f"{self._root}/pipeline", branch=branch):
                if pipeline.id == self._pipeline:
                    is_earlier = True
                elif is_earlier and pipeline.state == "created" and pipeline.vcs is not None:
                    yield self._earlier(pipeline, pipeline.vcs)

    def _earlier(self, pipeline: _Pipeline, source: _Source) -> EarlierRun:
        return EarlierRun(
            number=pipeline.number,
            label=f"pipeline {pipeline.number}",
            commits=frozenset({source.revision}),
            branch=source.branch or "",
            created_at=pipeline.created_at.isoformat(),
            is_own_code=source.origin_repository_url == source.target_repository_url,
            fetch=partial(self._fetch, pipeline),
        )

    def _fetch(self, pipeline: _Pipeline) -> bytes:
        """Download the evidence, which is on another host that wants the token as well.

        The token goes to hosts of CircleCI alone, and across no redirect.
        """
        label, path = f"pipeline {pipeline.number}", self._evidence_path
        job = self._job_of(pipeline)
        if job is None:
            raise Skipped(f"Pipeline {pipeline.number} has no finished job `{self._job}`.")
        # The first page has all: the description knows no further ones.
        listed = self._reads().get(_Page[_Artifact], f"{self._root}/{job}/artifacts").items
        artifacts = [artifact for artifact in listed if artifact.path == path]
        if not artifacts:
            raise Expired(
                f"Pipeline {pipeline.number} has no artifact `{path}`: it has expired, or none was left."
            )
        if len(artifacts) > 1:
            raise Withheld(f"Several nodes of {label} left `{path}`; which one counts is not known.")
        address = urlsplit(artifacts[0].url)
        host = address.hostname or ""
        if host != urlsplit(self._base).hostname and not host.endswith(_HOSTS):
            raise Withheld(f"The evidence of {label} is on an unknown host, {host[:100]}; it was not read.")
        api = self._open(f"{address.scheme}://{address.netloc}")
        return api.evidence(address._replace(scheme="", netloc="").geturl(), label=label)

    def _job_of(self, pipeline: _Pipeline) -> int | None:
        """The job of this name that came to an end, in the newest workflow that has one."""
        workflows = self._rows(_Page[_Workflow], f"/pipeline/{quote(pipeline.id)}/workflow")
        for workflow in sorted(workflows, key=lambda row: row.created_at, reverse=True):
            # The first page has all jobs but those of the very largest workflows.
            for job in self._reads().get(_Page[_Job], f"/workflow/{quote(workflow.id)}/job").items:
                if job.name == self._job and job.status in _JUDGED and job.job_number is not None:
                    return job.job_number
        return None

    def _rows(self, page: type[_Page[Row]], path: str, **params: str) -> Iterator[Row]:
        for _ in range(MAX_PAGES):
            answer = self._reads().get(page, path, params)
            yield from answer.items
            if not answer.next_page_token:
                return
            params["page-token"] = answer.next_page_token

    def write_comment(self, body: Callable[[str], str]) -> Published:
        """Write the comment where the change is hosted, if the job has a token for that."""
        environ = self._environ
        listed = environ.get("CIRCLE_PULL_REQUESTS") or environ.get("CIRCLE_PULL_REQUEST", "")
        pages = filter(None, (page.strip() for page in listed.split(",")))
        # Of several pages the one with the lowest number: CircleCI itself picks one at random.
        page = min(pages, key=lambda page: number_in(page.rpartition("/")[2]) or 0, default=None)
        if page is None or not self._own["github_token"]:
            return Published("none")
        of, job = of_pipeline(self._pipeline, self._job), job_of(".circleci/config.yml", self._job)
        marker = Marker(self._settings.comment_id, self._head, self._number or 0, 1, of, job)
        try:
            comments = pull_request_comments(page, self._own, self._connect)
        except AgentEvalError as error:
            return self._not_written(f"{error.message} {error.remedy}")
        if comments is None:
            host = clean(urlsplit(page).netloc.rpartition("@")[2], limit=100)
            why = f"The job has no token for {host}: for a server of your own set `github-api-url` as well."
            return self._not_written(why)
        return self._publish(comments, marker, body)
