"""A job of GitLab CI: its baseline is an earlier job's artifact, its comment a note on the merge request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TextIO

from agent_eval.ci.candidates import Candidate, NoHistory
from agent_eval.ci.comment import Marker, Published, publish
from agent_eval.ci.platforms.base import CiRun, comment_words
from agent_eval.ci.platforms.checkout_job import CheckoutJob
from agent_eval.ci.platforms.gitlab.api import GitLabApi
from agent_eval.ci.platforms.gitlab.dotenv import dotenv
from agent_eval.ci.platforms.gitlab.history import GitLabHistory
from agent_eval.ci.platforms.gitlab.issues import ProjectIssues
from agent_eval.ci.platforms.gitlab.notes import MergeRequestNotes
from agent_eval.ci.platforms.gitlab.pipeline import read_pipeline
from agent_eval.ci.platforms.gitlab.spec import GITLAB
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.ci.suites import DOTENV_NAME
from agent_eval.ci.workspace import refuse_link_out
from agent_eval.errors import AgentEvalError, RemoteError, UsageError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience
from agent_eval.operations import clock
from agent_eval.storage.atomic import write_file


@dataclass(frozen=True, kw_only=True)
class GitLabSettings:
    """Values of the rows that only GitLab has. Fields are named as the inputs.

    Example:
        `GitLabSettings(**settings.values_of(GITLAB.inputs)).baseline_job` is one of the inputs.
    """

    gitlab_token: str = field(repr=False)
    gitlab_api_url: str
    baseline_job: str


class GitLab(CheckoutJob):
    """One job of GitLab CI.

    Example:
        `GitLab(settings, os.environ, sys.stdout).run.run_url` is the page of the job.

    Args:
        settings: The checked settings.
        environ: The environment variables that GitLab sets.
        stream: The job's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often GitLab is asked.

    Raises:
        UsageError: The predefined variables cannot be read, or the API address is not https.
    """

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
        self._own = GitLabSettings(**settings.values_of(GITLAB.inputs))
        token = self._own.gitlab_token
        job_token = environ.get("CI_JOB_TOKEN", "").strip()
        base = self._own.gitlab_api_url or environ.get("CI_API_V4_URL", "").strip()
        self._api: GitLabApi | None = None
        if (token or job_token) and base:
            header = {"PRIVATE-TOKEN": token} if token else {"JOB-TOKEN": job_token}
            session = open_session(base, header, sleep, patience)
            self._api = GitLabApi(session, project=self.pipeline.target_project, by_job_token=not token)

    @property
    def spec(self) -> PlatformSpec:
        """GitLab's variables, limits and words."""
        return GITLAB

    @cached_property
    def run(self) -> CiRun:
        """The job, as GitLab's variables describe it."""
        pipeline = self.pipeline
        url = pipeline.job_url
        return CiRun(
            head_sha=pipeline.head_sha,
            run_url=url,
            run_name=f"gitlab-{pipeline.pipeline_id}-{pipeline.job_id}" if pipeline.job_id else None,
            evidence_url=f"{url}/artifacts/browse" if url else None,
            base_sha=self._base_of_rules,
            from_fork=pipeline.from_fork,
            on_base_branch=not (self._is_change or pipeline.from_fork),
            number=pipeline.job_id or 0,
            is_scheduled=pipeline.source in ("schedule", "web"),
            fork_event="merge_request_event" if pipeline.from_fork and pipeline.has_secrets_of_target else "",
        )

    @property
    def _base_branch(self) -> str:
        pipeline = self.pipeline
        stated = self._settings.baseline_branch or pipeline.target_branch or pipeline.default_branch
        return stated or self._checkout.default_branch or "main"

    @property
    def _is_change(self) -> bool:
        return self.pipeline.merge_request is not None or self.pipeline.branch != self._base_branch

    @cached_property
    def _base_sha(self) -> str | None:
        """As GitLab states it for a merge request; else as the checkout, or GitLab, knows it."""
        if not self._is_change or self.pipeline.base_sha:
            return self.pipeline.base_sha
        return self._checkout.merge_base(self._base_branch) or self._merge_base_by_api()

    def _merge_base_by_api(self) -> str | None:
        head = self.pipeline.head_sha
        if self._api is None or self._api.by_job_token or head is None:
            return None
        try:
            return self._api.merge_base(self._base_branch, head)
        except RemoteError:
            return None  # The search for the baseline fails likewise, and says why.

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Yield earlier pipelines, as `GitLabHistory` finds them.

        Raises:
            NoHistory: The job has no name, so it has no earlier ones.
            RemoteError: There is neither a token nor an address: whether there is a baseline is not known.
        """
        if self._api is None:
            raise RemoteError(
                "Without a token and GitLab's address earlier pipelines cannot be read: whether there is a "
                "baseline is not known.",
                remedy="Set `gitlab-token`; or, to evaluate without a baseline, `baseline: none`.",
            )
        name = self._own.baseline_job or self.pipeline.job_name
        if not name:
            raise NoHistory("This job has no name (CI_JOB_NAME), so it has no earlier ones.")
        history = GitLabHistory(
            api=self._api,
            pipeline=self.pipeline,
            evidence=self._evidence_path,
            now=clock.now(self._environ),
            base_sha=self._base_sha,
            job_name=name,
            branch=self._base_branch,
            named=self._settings.baseline_run_id,
        )
        return history.candidates(notes)

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
        notes = MergeRequestNotes(self._api, pipeline.merge_request, pipeline.merge_request_url or "")
        words = comment_words(GITLAB, from_fork=pipeline.from_fork)
        return publish(notes, marker, body(str(marker)), words=words)

    def issues(self) -> ProjectIssues:
        """Open the project's issues.

        Raises:
            RemoteError: There is no token but the job's own.
        """
        if self._api is None or self._api.by_job_token:
            raise RemoteError(
                "The job's own token may not write issues.", remedy="Set `gitlab-token` (scope `api`)."
            )
        return ProjectIssues(self._api)


def _no_note(why: str) -> Published:
    report = f"The report is in the {GITLAB.words.full_report}."
    return Published("refused", warning=f"No note was written. {why} {report}")


def open_session(
    base: str, token: Mapping[str, str], sleep: Callable[[float], None], patience: Patience | None
) -> Session:
    """Open a session to GitLab's API, with the header that holds the token.

    Raises:
        UsageError: The address is not https.
    """
    try:
        return Session(base, secret_headers=token, patience=patience, sleep=sleep)
    except HttpError as error:
        raise UsageError(error.message, remedy=error.remedy, field="gitlab-api-url") from error
