"""GitLab CI: the baseline is an earlier job's artifact, the comment a note on the merge request."""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from agent_eval.ci.comment import Marker, Published, publish
from agent_eval.ci.earlier import Asked, EarlierRun, Expired, NoHistory, Skipped, refuse_large_archive
from agent_eval.ci.git import Remote
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, comment_words
from agent_eval.ci.platforms.checkout_job import NOT_FOUND, CheckoutJob, no_such_run, number_in
from agent_eval.ci.platforms.gitlab_api import (
    GitLabApi,
    Job,
    JobPipeline,
    MergeRequestNotes,
    open_session,
)
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import COMMIT, PlatformSpec, Remedies, Words
from agent_eval.ci.workspace import DOTENV_NAME, refuse_link_out
from agent_eval.config.options import CI, Option
from agent_eval.errors import AgentEvalError, RemoteError, UsageError
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience
from agent_eval.operations import clock
from agent_eval.storage.atomic import write_file

GITLAB = PlatformSpec(
    name="gitlab",
    platform="agent_eval.ci.platforms.gitlab:GitLab",
    detect=lambda environ: environ.get("GITLAB_CI") == "true",
    comment_limit=250_000,  # A quarter of what GitLab takes, which leaves room for escaped lines.
    summary_limit=1 << 20,
    comments_elsewhere="agent_eval.ci.platforms.gitlab_api:comments_on",
    shows_tests=True,
    words=Words(change="merge request", full_report="job's artifacts"),
    inputs=(
        Option(
            "gitlab-token",
            "secret",
            "Token of GitLab: the scope `read_api` reads the baseline, `api` also writes the note on the "
            "merge request. Default: CI_JOB_TOKEN, which may read earlier jobs on GitLab "
            "Premium, and write neither.",
            goes_to="platform.gitlab_token",
            commands=(CI,),
            in_file=False,
        ),
        Option(
            "gitlab-api-url",
            "url",
            "REST address of GitLab. Default: CI_API_V4_URL, which GitLab sets.",
            goes_to="platform.gitlab_api_url",
            commands=(CI,),
            in_file=False,
        ),
        Option(
            "baseline-job",
            "text",
            "Name of the GitLab job whose artifacts hold the baseline. Default: this job's name.",
            goes_to="platform.baseline_job",
            commands=(CI,),
        ),
    ),
    secret_names=frozenset(
        {
            "CI_JOB_TOKEN",
            "CI_BUILD_TOKEN",
            "CI_REPOSITORY_URL",  # It holds the job's token.
            "CI_REGISTRY_PASSWORD",
            "CI_DEPLOY_PASSWORD",
            "CI_DEPENDENCY_PROXY_PASSWORD",
            "GITLAB_TOKEN",
            "GITLAB_PRIVATE_TOKEN",
        }
    ),
    job_files=r"(.*/)?\.gitlab/.*|.*gitlab-ci[^/]*",
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
_NOT_PERMITTED = frozenset({401, 403, NOT_FOUND})
_UNSAFE = re.compile(r"[^A-Za-z0-9 ._:/@+=,#?&~-]")


@dataclass(frozen=True, kw_only=True)
class GitLabPipeline:
    """The pipeline and the job, as GitLab's variables describe them. What a kind of pipeline lacks is None.

    Attributes:
        project: Number of the project in which the job runs; of a fork, the fork's.
        target_project: Number of the project that the change goes into.
        target_url: Page of that project.
        job_name: As in `.gitlab-ci.yml`, with the number of the shard where the job is parallel.
        pipeline_id: Grows with time.
        source: What started the pipeline, such as `push` or `schedule`.
        job_id: Grows with time; a retried job has a new one.
        job_url: The job's page.
        head_sha: The commit under review; of a merge request its head, not GitLab's trial merge.
        branch: The branch that the job runs on; None for merge requests and tags.
        tag: The tag that the job runs on.
        target_branch: The branch that the merge request goes into.
        default_branch: The project's in which the job runs. A fork's has the name of the target's, as a rule.
        merge_request: Its number in the target project.
        from_fork: Whether the change comes from another project.
    """

    project: int
    target_project: int
    target_url: str = ""
    job_name: str = ""
    pipeline_id: int | None = None
    source: str = ""
    job_id: int | None = None
    job_url: str | None = None
    head_sha: str | None = None
    branch: str | None = None
    tag: str | None = None
    target_branch: str | None = None
    default_branch: str | None = None
    merge_request: int | None = None
    from_fork: bool = False

    @property
    def has_secrets_of_target(self) -> bool:
        """Whether the job runs in the project that the change goes into, with its variables and tokens."""
        return self.project == self.target_project


def read_pipeline(environ: Mapping[str, str]) -> GitLabPipeline:
    """Read the pipeline of this job.

    Example:
        >>> read_pipeline({"CI_PROJECT_ID": "4", "CI_COMMIT_BRANCH": "main"}).branch
        'main'

    Raises:
        UsageError: `CI_PROJECT_ID` is not a number.
    """

    def number(name: str) -> int | None:
        return number_in(environ.get(name))

    def commit(name: str) -> str | None:
        return environ[name] if COMMIT.fullmatch(environ.get(name, "")) else None

    project = number("CI_PROJECT_ID")
    if project is None:
        raise UsageError(
            f"CI_PROJECT_ID is not a number: {environ.get('CI_PROJECT_ID', '')[:200]!r}",
            remedy="Run this inside GitLab CI, or unset GITLAB_CI.",
            field="CI_PROJECT_ID",
        )
    merge_request = number("CI_MERGE_REQUEST_IID")
    of_change = merge_request is not None
    target = number("CI_MERGE_REQUEST_PROJECT_ID") if of_change else project
    url = environ.get("CI_MERGE_REQUEST_PROJECT_URL" if of_change else "CI_PROJECT_URL", "")
    # Merged results and trains evaluate a commit that is in no branch; the variable is empty elsewhere.
    source_head = commit("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") if of_change else None
    return GitLabPipeline(
        project=project,
        target_project=target or project,
        target_url=url,
        job_name=environ.get("CI_JOB_NAME", ""),
        pipeline_id=number("CI_PIPELINE_ID"),
        source=environ.get("CI_PIPELINE_SOURCE", ""),
        job_id=number("CI_JOB_ID"),
        job_url=environ.get("CI_JOB_URL") or None,
        head_sha=source_head or commit("CI_COMMIT_SHA"),
        branch=None if of_change else environ.get("CI_COMMIT_BRANCH") or None,
        tag=environ.get("CI_COMMIT_TAG") or None,
        target_branch=environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") or None if of_change else None,
        default_branch=environ.get("CI_DEFAULT_BRANCH") or None,
        merge_request=merge_request,
        # A source without a number is a fork that was deleted.
        from_fork=of_change and (target is None or number("CI_MERGE_REQUEST_SOURCE_PROJECT_ID") != target),
    )


class GitLab(CheckoutJob):
    """One job of GitLab CI.

    Args:
        settings: The checked settings.
        environ: The environment variables that GitLab sets.
        stream: The job's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often GitLab is asked.

    Raises:
        UsageError: The predefined variables cannot be read, or the API address is not https.
    """

    spec = GITLAB

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
        self._outputs: dict[str, str] = {}
        token, job_token = settings.own["gitlab_token"], environ.get("CI_JOB_TOKEN", "").strip()
        self._login = f"oauth2:{token}" if token else f"gitlab-ci-token:{job_token}" if job_token else ""
        base = settings.own["gitlab_api_url"] or environ.get("CI_API_V4_URL", "").strip()
        self._api: GitLabApi | None = None
        if self._login and base:
            header = {"PRIVATE-TOKEN": token} if token else {"JOB-TOKEN": job_token}
            session = open_session(base, header, sleep, patience)
            self._api = GitLabApi(session, project=self.pipeline.target_project, by_job_token=not token)

    @property
    def run(self) -> CiRun:
        """The job, as GitLab's variables describe it."""
        pipeline = self.pipeline
        url = pipeline.job_url
        return CiRun(
            head_sha=pipeline.head_sha,
            run_url=url,
            run_name=f"gitlab-{pipeline.pipeline_id}-{pipeline.job_id}" if pipeline.job_id else None,
            evidence_url=f"{url}/artifacts/browse" if url else None,
            from_fork=pipeline.from_fork,
            number=pipeline.job_id or 0,
            is_scheduled=pipeline.source in ("schedule", "web"),
            fork_event="merge_request_event" if pipeline.from_fork and pipeline.has_secrets_of_target else "",
        )

    @property
    def refs(self) -> Refs:
        """The branches as GitLab names them."""
        pipeline = self.pipeline
        login = f"Authorization: Basic {b64encode(self._login.encode()).decode()}"
        headers = (login,) if self._login else ()
        return Refs(
            default_branch=pipeline.default_branch,
            branch=pipeline.branch,
            tag=pipeline.tag,
            target=pipeline.target_branch,
            remote=Remote(f"{pipeline.target_url}.git", headers) if pipeline.target_url else self._origin,
        )

    def tip(self, branch: str) -> str | None:
        """Ask GitLab; None where the job's own token may not, as that of a fork's pipeline."""
        if self._api is None:
            return None
        try:
            return self._api.tip(branch)
        except HttpError as error:
            if self._api.by_job_token and error.status in _NOT_PERMITTED:
                return None
            raise

    @property
    def _reads(self) -> GitLabApi:
        if self._api is None:
            raise RemoteError(
                "Without a token and GitLab's address earlier pipelines cannot be read: whether there is a "
                "baseline is not known.",
                remedy="Set `gitlab-token`; or, to evaluate without a baseline, `baseline: none`.",
            )
        return self._api

    @property
    def _job_name(self) -> str:
        name = self._settings.own["baseline_job"] or self.pipeline.job_name
        if not name:
            raise NoHistory("This job has no name (CI_JOB_NAME), so it has no earlier ones.")
        return str(name)

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the pipelines of the commit, then the newest of each branch.

        The job's own token may not list pipelines: there all jobs are gone through.

        Raises:
            NoHistory: The job has no name; or it is a fork's, which may not read this project's pipelines.
        """
        own, name = self.pipeline.pipeline_id, self._job_name
        try:
            listed = self._by_listing(name) if self._reads.by_job_token else self._by_pipeline(name, asked)
            for pipeline, fetch in listed:
                is_later = own is not None and asked.before_own and pipeline.id > own
                if pipeline.id != own and not is_later:
                    yield self._earlier(pipeline, fetch)
        except HttpError as error:
            if self.pipeline.has_secrets_of_target or error.status not in _NOT_PERMITTED:
                raise
            raise NoHistory(
                "This pipeline runs in a fork, whose token may not read the pipelines of the project."
            ) from error

    def _by_pipeline(self, name: str, asked: Asked) -> Iterator[tuple[JobPipeline, Callable[[], bytes]]]:
        order = {"order_by": "id", "sort": "desc"}
        of_commit = [{"sha": asked.commit}] if asked.commit is not None else []
        for query in (*of_commit, *({"ref": branch, "scope": "finished"} for branch in asked.branches)):
            for pipeline in self._reads.pipelines(**query, **order):
                yield pipeline, partial(self._fetch_of, pipeline, name)

    def _by_listing(self, name: str) -> Iterator[tuple[JobPipeline, Callable[[], bytes]]]:
        for job in self._reads.jobs():
            if job.name == name:
                yield job.pipeline, partial(self._fetch, job)

    def run_named(self, number: int) -> EarlierRun:
        """Find a pipeline of this project that has the job."""
        name = self._job_name
        try:
            jobs = [job for job in self._reads.jobs_of(number) if job.name == name]
        except HttpError as error:
            if error.status != NOT_FOUND:
                raise
            raise no_such_run(
                f"There is no pipeline {number} that the token may read.", "pipeline"
            ) from error
        if not jobs:
            raise no_such_run(f"Pipeline {number} has no finished job `{name}`.", "pipeline")
        newest = max(jobs, key=lambda job: job.id)
        if newest.pipeline.project_id != self.pipeline.target_project:
            raise no_such_run(f"Pipeline {number} is another project's.", "pipeline")
        return self._earlier(newest.pipeline, partial(self._fetch, newest))

    def _earlier(self, pipeline: JobPipeline, fetch: Callable[[], bytes]) -> EarlierRun:
        return EarlierRun(
            number=pipeline.id,
            label=f"pipeline {pipeline.id}",
            commits=frozenset({pipeline.sha}),
            branch=pipeline.ref,
            created_at=pipeline.created_at.isoformat() if pipeline.created_at is not None else None,
            url=pipeline.web_url,
            is_own_code=pipeline.project_id == self.pipeline.target_project
            and pipeline.source in _OWN_SOURCES,
            fetch=fetch,
        )

    def _fetch_of(self, pipeline: JobPipeline, name: str) -> bytes:
        # A job that was retried is listed once, unless GitLab is asked for all attempts.
        jobs = [job for job in self._reads.jobs_of(pipeline.id) if job.name == name]
        if not jobs:
            raise Skipped(f"Pipeline {pipeline.id} has no finished job `{name}`.")
        return self._fetch(max(jobs, key=lambda job: job.id))

    def _fetch(self, job: Job) -> bytes:
        label, archive = f"pipeline {job.pipeline.id}", job.archive
        expires = job.artifacts_expire_at
        if expires is not None and expires <= clock.now(self._environ):
            raise Expired(f"The artifacts of {label} have expired.")
        if job.status not in _FINISHED or archive is None:
            raise Skipped(f"Job `{job.name}` of {label} left no artifacts.")
        refuse_large_archive(archive.size or 0, label)
        return self._reads.artifact(job.id, self._evidence_path, label=label)

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Add to the file of variables for later jobs, beside the report."""
        self._outputs |= values
        try:
            # A link out of the checkout may come with the code under review.
            refuse_link_out(self._settings.out, Path.cwd())
            write_file(self._settings.out / DOTENV_NAME, dotenv(self._outputs).encode())
        except AgentEvalError as error:
            self.warn(f"The variables for later jobs could not be written: {error.message}")

    def publish(self, body: Callable[[str], str]) -> Published:
        """Create or update this evaluation's note on the merge request, where there is one."""
        pipeline = self.pipeline
        if pipeline.merge_request is None:
            return Published("none")
        if not pipeline.has_secrets_of_target:
            return _no_note(f"{GITLAB.remedies.write_from_fork}.")
        if self._api is None or self._api.by_job_token:
            return _no_note("The job's own token may not write notes: set `gitlab-token` (scope `api`).")
        marker = Marker(self._settings.comment_id, pipeline.head_sha, pipeline.job_id or 0, 1)
        url = pipeline.target_url and f"{pipeline.target_url}/-/merge_requests/{pipeline.merge_request}"
        notes = MergeRequestNotes(self._api, pipeline.merge_request, url)
        words = comment_words(GITLAB, from_fork=pipeline.from_fork)
        return publish(notes, marker, body(str(marker)), words=words)


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


def _no_note(why: str) -> Published:
    report = f"The report is in the {GITLAB.words.full_report}."
    return Published("refused", warning=f"No note was written. {why} {report}")
