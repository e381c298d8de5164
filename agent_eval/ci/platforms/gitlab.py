"""GitLab CI: the baseline is an earlier job's artifact, the comment a note on the merge request.

GitLab executes a line that begins with `/merge`, `/close` and the like with the rights of the token that
writes it, and its own idea of what is code differs from CommonMark's. So no line of what is written begins
with a slash: an invisible character comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import quote

from pydantic import BaseModel

from agent_eval.ci.clone import Remote
from agent_eval.ci.comment import Comment, Comments, Marker, Published, job_of, of_pipeline
from agent_eval.ci.earlier import (
    Asked,
    EarlierRun,
    Expired,
    NoHistory,
    Skipped,
    Withheld,
    refuse_large_archive,
)
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, Platform, before_own
from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words, commit_in, number_in, own_input
from agent_eval.ci.rest import NOT_FOUND, RestApi
from agent_eval.ci.workspace import DOTENV_NAME, refuse_link_out
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.http.errors import HttpError
from agent_eval.operations import clock
from agent_eval.storage.atomic import write_file

GITLAB = PlatformSpec(
    name="gitlab",
    detect=lambda environ: environ.get("GITLAB_CI") == "true",
    comment_limit=250_000,  # A quarter of what GitLab takes, which leaves room for escaped lines.
    words=Words(change="merge request", full_report="job's artifacts", earlier_run="pipeline"),
    inputs=(
        own_input(
            "gitlab-token",
            "secret",
            "GitLab: token for the baseline and the note.",
            detail="The scope `read_api` reads the baseline, `api` also writes the note. Default: "
            "CI_JOB_TOKEN, which may read earlier jobs on GitLab Premium, and write neither.",
        ),
        own_input(
            "gitlab-api-url", "url", "REST address of GitLab. Default: CI_API_V4_URL, which GitLab sets."
        ),
        own_input(
            "baseline-job",
            "text",
            "Job whose artifacts hold the baseline. Default: this one's name.",
            is_key=True,
        ),
    ),
    secret_names=frozenset(
        {
            *("CI_JOB_TOKEN", "CI_BUILD_TOKEN", "GITLAB_TOKEN", "GITLAB_PRIVATE_TOKEN"),
            *("CI_REGISTRY_PASSWORD", "CI_DEPLOY_PASSWORD", "CI_DEPENDENCY_PROXY_PASSWORD"),
            "CI_REPOSITORY_URL",  # It holds the job's token.
        }
    ),
    secret_prefixes=("CI_JOB_JWT",),
    remedies=Remedies(
        read_runs="Set `gitlab-token` (AGENT_EVAL_GITLAB_TOKEN) to a token with the scope `read_api`: the "
        "job's own token reads earlier jobs on GitLab Premium only, and only where the project's job token "
        "permissions allow it.",
        write_comment="The token may not write notes: it needs the scope `api` and the role Reporter",
        write_from_fork="The job of a fork has no token for this project",
        run_fork="Run the pipeline in the fork: there it has none of this project's variables.",
        set_variable="Set it under Settings > CI/CD > Variables; protected variables are absent in the "
        "pipelines of merge requests",
    ),
)

MAX_VALUE = 300
"""Characters of a variable for later jobs; GitLab takes five KiB in all."""

_OWN_SOURCES = frozenset({"push", "schedule", "web", "api", "trigger"})
"""What starts a pipeline that has the project's own code; that of a merge request has its source branch's."""

_FINISHED = frozenset({"success", "failed"})
_FINISHED_JOBS = "scope[]=success&scope[]=failed"
_NOT_PERMITTED = frozenset({401, 403, NOT_FOUND})
_UNSAFE = re.compile(r"[^A-Za-z0-9 ._:/@+=,#?&~-]")
_SLASH = re.compile(r"(?m)^(\s*)/")
_ZERO_WIDTH_SPACE = "\u200b"


class _Pipeline(BaseModel):
    """A pipeline, as listings and jobs name it."""

    id: int
    project_id: int
    sha: str
    ref: str
    source: str
    created_at: datetime | None


class _ArtifactFile(BaseModel):
    """A file that a job left; `archive` is what `artifacts:paths` lists."""

    file_type: str
    size: int | None = None


class _Job(BaseModel):
    """A job and the artifacts that it left."""

    id: int
    name: str
    status: str
    pipeline: _Pipeline
    artifacts: list[_ArtifactFile]
    artifacts_expire_at: datetime | None


class _User(BaseModel):
    """An account. Its number never changes; names may."""

    id: int


class _Note(BaseModel):
    """A note on a merge request."""

    id: int
    body: str
    author: _User


class _MergeRequest(BaseModel):
    """A merge request; `sha` is its newest commit."""

    sha: str | None


class _Commit(BaseModel):
    id: str


class _Branch(BaseModel):
    commit: _Commit


class GitLab(Platform):
    """One job of GitLab CI."""

    spec = GITLAB

    def begin(self) -> None:
        """Read project, merge request and job, and open the API where there is a token."""
        environ = self._environ
        project = number_in(environ.get("CI_PROJECT_ID"))
        if project is None:
            raise UsageError(
                f"CI_PROJECT_ID is not a number: {environ.get('CI_PROJECT_ID', '')[:200]!r}",
                remedy="Run this inside GitLab CI, or unset GITLAB_CI.",
                field="CI_PROJECT_ID",
            )
        self._merge_request = number_in(environ.get("CI_MERGE_REQUEST_IID"))
        of_change = self._merge_request is not None
        target = number_in(environ.get("CI_MERGE_REQUEST_PROJECT_ID")) if of_change else project
        # The project that the change goes into; a fork's job runs in it, with its variables, or in the fork.
        self._target, self._has_secrets = target or project, (target or project) == project
        self._target_url = environ.get("CI_MERGE_REQUEST_PROJECT_URL" if of_change else "CI_PROJECT_URL", "")
        # A source without a number is a fork that was deleted.
        source = number_in(environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID"))
        self._from_fork = of_change and (target is None or source != target)
        self._pipeline = number_in(environ.get("CI_PIPELINE_ID"))
        self._job_id = number_in(environ.get("CI_JOB_ID"))
        self._root = f"/projects/{self._target}"
        self._outputs: dict[str, str] = {}
        self._token, self._job_token = self._own["gitlab_token"], environ.get("CI_JOB_TOKEN", "").strip()
        base = self._own["gitlab_api_url"] or environ.get("CI_API_V4_URL", "").strip()
        if base and (self._token or self._job_token):
            header = {"PRIVATE-TOKEN": self._token} if self._token else {"JOB-TOKEN": self._job_token}
            self._api = self._connect.open(base, header, name="GitLab", field="gitlab-api-url")

    @cached_property
    def run(self) -> CiRun:
        """The job, as GitLab's variables describe it."""
        environ, url = self._environ, self._environ.get("CI_JOB_URL") or None
        # Merged results and trains evaluate a commit that is in no branch; the variable is empty elsewhere.
        of_source = environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") if self._merge_request else None
        return CiRun(
            head_sha=commit_in(of_source) or commit_in(environ.get("CI_COMMIT_SHA")),
            run_url=url,
            run_name=f"gitlab-{self._pipeline}-{self._job_id}" if self._job_id else None,
            evidence_url=f"{url}/artifacts/browse" if url else None,
            from_fork=self._from_fork,
            fork_event="merge_request_event" if self._from_fork and self._has_secrets else "",
        )

    @cached_property
    def refs(self) -> Refs:
        """The branches as GitLab names them. A fork's default one has the name of the target's, as a rule."""
        environ, of_change = self._environ, self._merge_request is not None
        user = "oauth2" if self._token else "gitlab-ci-token"
        remote = Remote.by_token(f"{self._target_url}.git", user, self._token or self._job_token)
        return Refs(
            default_branch=environ.get("CI_DEFAULT_BRANCH") or None,
            branch=None if of_change else environ.get("CI_COMMIT_BRANCH") or None,
            tag=environ.get("CI_COMMIT_TAG") or None,
            target=environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") or None if of_change else None,
            remote=remote if self._target_url else self._origin,
        )

    def tip(self, branch: str) -> str | None:
        """Ask GitLab; None where the job's own token may not, as that of a fork's pipeline."""
        if self._api is None:
            return None
        path = f"{self._root}/repository/branches/{quote(branch, safe='')}"
        try:
            row = self._api.find(_Branch, path, none=(NOT_FOUND,))
        except HttpError as error:
            if not self._token and error.status in _NOT_PERMITTED:
                return None
            raise
        return row.commit.id if row is not None else None

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the pipelines of the commit, then the newest of each branch.

        The job's own token may not list pipelines: there all jobs are gone through. Raises `NoHistory` where
        the job has no name, or is a fork's, which may not read this project's pipelines.
        """
        name: str = self._own["baseline_job"] or self._environ.get("CI_JOB_NAME", "")
        if not name:
            raise NoHistory("This job has no name (CI_JOB_NAME), so it has no earlier ones.")
        try:
            yield from before_own(self._listed(name, asked), self._pipeline, asked)
        except HttpError as error:
            if self._has_secrets or error.status not in _NOT_PERMITTED:
                raise
            raise NoHistory(
                "This pipeline runs in a fork, whose token may not read the pipelines of the project."
            ) from error

    def _listed(self, name: str, asked: Asked) -> Iterator[EarlierRun]:
        if not self._token:
            path = f"{self._root}/jobs?{_FINISHED_JOBS}&pagination=keyset&order_by=id&sort=desc"
            for job in self._reads().rows(_Job, path):
                if job.name == name:
                    yield self._earlier(job.pipeline, partial(self._fetch, job))
            return
        of_commit = [{"sha": asked.commit}] if asked.commit is not None else []
        for query in (*of_commit, *({"ref": branch, "scope": "finished"} for branch in asked.branches)):
            params = {"order_by": "id", "sort": "desc", **query}
            newest = self._reads().rows(_Pipeline, f"{self._root}/pipelines", max_pages=1, params=params)
            for pipeline in newest:
                yield self._earlier(pipeline, partial(self._fetch_of, pipeline, name))

    def _earlier(self, pipeline: _Pipeline, fetch: Callable[[], bytes]) -> EarlierRun:
        return EarlierRun(
            number=pipeline.id,
            label=f"pipeline {pipeline.id}",
            commits=frozenset({pipeline.sha}),
            branch=pipeline.ref,
            created_at=pipeline.created_at.isoformat() if pipeline.created_at is not None else None,
            is_own_code=pipeline.project_id == self._target and pipeline.source in _OWN_SOURCES,
            fetch=fetch,
        )

    def _fetch_of(self, pipeline: _Pipeline, name: str) -> bytes:
        # A job that was retried is listed once, unless GitLab is asked for all attempts.
        path = f"{self._root}/pipelines/{pipeline.id}/jobs?{_FINISHED_JOBS}"
        jobs = (job for job in self._reads().rows(_Job, path) if job.name == name)
        newest = max(jobs, key=lambda job: job.id, default=None)
        if newest is None:
            raise Skipped(f"Pipeline {pipeline.id} has no finished job `{name}`.")
        return self._fetch(newest)

    def _fetch(self, job: _Job) -> bytes:
        label, expires = f"pipeline {job.pipeline.id}", job.artifacts_expire_at
        archive = next((row for row in job.artifacts if row.file_type == "archive"), None)
        if expires is not None and expires <= clock.now(self._environ):
            raise Expired(f"The artifacts of {label} have expired.")
        if job.status not in _FINISHED or archive is None:
            raise Skipped(f"Job `{job.name}` of {label} left no artifacts.")
        refuse_large_archive(archive.size or 0, label)
        path = f"{self._root}/jobs/{job.id}/artifacts/{quote(self._evidence_path)}"
        try:
            return self._reads().evidence(path, label=label)
        except Withheld as withheld:
            error = withheld.__cause__
            # GitLab answers so where it does not let the job's own token read them.
            if not self._token and isinstance(error, HttpError) and error.status == NOT_FOUND:
                raise error from withheld
            raise

    def keep_outputs(self, values: Mapping[str, str]) -> None:
        """Add to the file of variables for later jobs, beside the report."""
        self._outputs |= values
        try:
            # A link out of the checkout may come with the code under review.
            refuse_link_out(self._settings.out, Path.cwd())
            write_file(self._settings.out / DOTENV_NAME, dotenv(self._outputs).encode())
        except AgentEvalError as error:
            self.warn(f"The variables for later jobs could not be written: {error.message}")

    def write_comment(self, body: Callable[[str], str]) -> Published:
        """Create or update this evaluation's note on the merge request, where there is one."""
        number, what = self._merge_request, "No note was written."
        if number is None:
            return Published("none")
        if not self._has_secrets:
            return self._not_written(f"{GITLAB.remedies.write_from_fork}.", what)
        if self._api is None or not self._token:
            return self._not_written(
                "The job's own token may not write notes: set `gitlab-token` (scope `api`).", what
            )
        name, place = self._environ.get("CI_JOB_NAME", ""), self._environ.get("CI_CONFIG_PATH", "")
        of, job = of_pipeline(self._pipeline, name), job_of(place, name)
        marker = Marker(self._settings.comment_id, self.run.head_sha, self._job_id or 0, 1, of, job)
        url = self._target_url and f"{self._target_url}/-/merge_requests/{number}"
        notes = MergeRequestNotes(self._api, self._target, number, url)
        return self._publish(notes, marker, body, from_fork=self._from_fork)


def dotenv(values: Mapping[str, str]) -> str:
    """Write outputs of the job as variables, as GitLab reads them from `artifacts:reports:dotenv`.

    A line is `NAME=value`, without quotation marks or escapes. So a value keeps only characters that can
    neither begin another line nor be expanded as a variable of another job, and no later job takes a name for
    an input of this program.

    Example:
        >>> dotenv({"pass-rate": "0.95", "report": "out/a\\nPATH=x"})
        'AGENT_EVAL_RESULT_PASS_RATE=0.95\\nAGENT_EVAL_RESULT_REPORT=out/a_PATH=x\\n'
    """
    lines = []
    for name, value in values.items():
        variable = re.sub(r"[^A-Z0-9]", "_", name.upper())
        lines.append(f"AGENT_EVAL_RESULT_{variable}={_UNSAFE.sub('_', value.strip())[:MAX_VALUE]}\n")
    return "".join(lines)


def without_quick_actions(markdown: str) -> str:
    """Rewrite every line that begins with a slash."""
    return _SLASH.sub(rf"\1{_ZERO_WIDTH_SPACE}/", re.sub(r"\r\n?", "\n", markdown))


class MergeRequestNotes(Comments):
    """The notes of one merge request, by a token that may write, which the job's own may not.

    `url` is the merge request's page, empty when unknown. A note that GitLab takes for quick actions alone is
    not written, which is a `RemoteError`.
    """

    row, replaced_by, order = _Note, "PUT", "?activity_filter=only_comments&sort=asc&order_by=created_at"

    def __init__(self, api: RestApi, project: int, iid: int, url: str) -> None:
        self._change, self._url = f"/projects/{project}/merge_requests/{iid}", url
        super().__init__(api, f"{self._change}/notes", f"{self._change}/notes")

    def read(self, row: _Note) -> Comment:
        """Read a note."""
        url = f"{self._url}#note_{row.id}" if self._url else ""
        return Comment(row.id, str(row.author.id), row.body, url)

    def harmless(self, body: str) -> str:
        """Let no line begin with a slash."""
        return without_quick_actions(body)

    def author(self) -> str:
        """The number of the token's account."""
        return str(self.api.get(_User, "/user").id)

    def current_head(self) -> str | None:
        """The newest commit of the merge request."""
        return self.api.get(_MergeRequest, self._change).sha
