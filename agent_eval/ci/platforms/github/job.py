"""GitHub Actions: the event, earlier runs, the comment."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TextIO

from agent_eval.ci.comment import Marker, Published, publish
from agent_eval.ci.earlier import (
    Asked,
    EarlierRun,
    Expired,
    NoHistory,
    Skipped,
    Withheld,
    checked_archive,
    refuse_large_archive,
)
from agent_eval.ci.git import Remote
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, comment_words
from agent_eval.ci.platforms.checkout_job import NOT_FOUND, no_such_run
from agent_eval.ci.platforms.github.api import (
    PUBLIC_API,
    Artifact,
    GitHubApi,
    PullRequestComments,
    WorkflowRun,
    graphql_url,
    open_session,
)
from agent_eval.ci.platforms.github.artifacts import upload_artifact
from agent_eval.ci.platforms.github.event import GitHubEvent, read_event
from agent_eval.ci.platforms.github.reported import ReportedRun, find_reported
from agent_eval.ci.platforms.github.spec import GITHUB
from agent_eval.ci.platforms.github.step import GitHubStep
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.errors import AgentEvalError, RemoteError, UsageError
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience
from agent_eval.text.escape import prose

OWN_EVENTS = ("push", "schedule", "workflow_dispatch")
"""Events whose runs have the repository's own code and workflow."""

_NOT_NAMED = Published(
    "refused",
    warning="No comment was written: the event's payload (GITHUB_EVENT_PATH) names no pull request. The "
    "report is in the job summary.",
)


class GitHub(GitHubStep):
    """One job of GitHub Actions.

    Args:
        settings: The checked settings.
        environ: The environment variables that the runner sets.
        stream: The job's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often GitHub is asked.

    Raises:
        UsageError, InvalidInput: The runner's environment or the event cannot be read.
        HttpError: The API address is not https.
    """

    spec = GITHUB

    def __init__(
        self,
        settings: PlatformSettings,
        environ: Mapping[str, str],
        stream: TextIO,
        *,
        sleep: Callable[[float], None] = time.sleep,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(environ, stream)
        self._trigger = read_event(environ)
        self._settings, self._own = settings, settings.own
        self._sleep, self._patience = sleep, patience
        self._token: str = self._own["github_token"] or environ.get("GITHUB_TOKEN", "").strip()
        base = self._own["github_api_url"] or environ.get("GITHUB_API_URL") or PUBLIC_API
        self._api: GitHubApi | None = None
        if self._token:
            session = open_session(base, self._token, sleep, patience)
            self._api = GitHubApi(session, graphql_url=graphql_url(base), repository=self._trigger.repository)

    @property
    def event(self) -> GitHubEvent:
        """What triggered the job; of a job that reports on another run, with the change of that run."""
        return self._trigger if self._reported is None else self._reported.event

    @cached_property
    def _reported(self) -> ReportedRun | None:
        run_id = self._settings.report_run_id
        if run_id is None:
            return None
        if self._api is None or not self._own["baseline_workflow"]:
            lacking = "github-token" if self._api is None else "baseline-workflow"
            raise UsageError(
                f"`report-run-id` needs `{lacking}`.",
                remedy=f"Set `{lacking}`: a run does not say itself what it is to be compared with.",
                field=lacking,
            )
        return find_reported(self._api, self._trigger, run_id)

    @property
    def workspace(self) -> Path:
        """The directory in which `actions/checkout` puts the repository."""
        return Path(self._environ.get(GITHUB.workspace_variable, "").strip() or Path.cwd())

    @property
    def run(self) -> CiRun:
        """The workflow run, as the runner's environment and the event describe it."""
        event, reported = self.event, self._reported
        page = event.run_url if reported is None else reported.run.html_url
        runs_code = reported is None and event.from_fork and event.has_secrets
        return CiRun(
            head_sha=event.head_sha,
            run_url=event.run_url,
            run_name=f"github-{event.run_id}-{event.attempt}" if event.run_id else None,
            evidence_url=f"{page}#artifacts" if page else None,
            from_fork=event.from_fork,
            fork_event=event.name if runs_code else "",
            # It may be another repository's code.
            reported=self._earlier(reported.run, self._of_change) if reported is not None else None,
            number=event.run_id or 0,
            attempt=event.attempt,
            is_scheduled=event.name in ("schedule", "workflow_dispatch"),
        )

    @property
    def refs(self) -> Refs:
        """The branches as the event names them."""
        event = self.event
        default = event.default_branch
        if default is None and self._api is not None:
            default = self._api.repository().default_branch
        server = self._environ.get("GITHUB_SERVER_URL") or "https://github.com"
        login = b64encode(f"x-access-token:{self._token}".encode()).decode()
        return Refs(
            default_branch=default,
            branch=event.branch,
            tag=event.tag,
            target=event.base_branch,
            queue_base=event.queue_base,
            remote=Remote(
                f"{server}/{event.repository}.git",
                (f"Authorization: Basic {login}",) if self._token else (),
            ),
        )

    def tip(self, branch: str) -> str | None:
        """Ask GitHub; None without a token."""
        return self._api.tip(branch) if self._api is not None else None

    @property
    def _reads(self) -> GitHubApi:
        if self._api is None:
            raise RemoteError(
                "Without a token earlier runs cannot be read: whether there is a baseline is not known.",
                remedy="Set `github-token`; or, to evaluate without a baseline, `baseline: none`.",
            )
        return self._api

    @cached_property
    def _repository_id(self) -> int:
        return self._trigger.repository_id or self._reads.repository().id

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the runs of the commit, then the newest of each branch and event."""
        workflow: str | int = self._own["baseline_workflow"]
        own = self.event.run_id
        if not workflow:
            if own is None:
                raise NoHistory("This job is no workflow run (GITHUB_RUN_ID), so it has no earlier ones.")
            workflow = self._reads.run(own).workflow_id
        of_commit = [{"head_sha": asked.commit}] if asked.commit is not None else []
        of_branches = [
            {"branch": branch, "event": event, "exclude_pull_requests": "true"}
            for branch in asked.branches
            for event in OWN_EVENTS
        ]
        for query in (*of_commit, *of_branches):
            for run in self._reads.runs(workflow, **query):
                is_later = own is not None and asked.before_own and run.id > own
                if run.status == "completed" and run.id != own and not is_later:
                    yield self._earlier(run, self._usable)

    def run_named(self, number: int) -> EarlierRun:
        """Find a run of this repository."""
        repository = self.event.repository
        try:
            run = self._reads.run(number)
        except HttpError as error:
            if error.status != NOT_FOUND:
                raise
            raise no_such_run(f"There is no workflow run {number} in {repository}.") from error
        if not self._is_of_repository(run):
            raise no_such_run(f"The code of workflow run {number} is not from {repository}.")
        return self._earlier(run, self._usable)

    def _is_of_repository(self, run: WorkflowRun) -> bool:
        """Compare by number: anyone can open a pull request from a fork whose branch is called `main`."""
        own, head = self._repository_id, run.head_repository
        return head is not None and run.repository.id == own and head.id == own

    def _earlier(self, run: WorkflowRun, find: Callable[[WorkflowRun], Artifact]) -> EarlierRun:
        return EarlierRun(
            number=run.id,
            label=f"run {run.id}",
            commits=frozenset({run.head_sha}),
            branch=run.head_branch or "",
            created_at=run.created_at,
            url=run.html_url,
            is_own_code=run.event in OWN_EVENTS and self._is_of_repository(run),
            fetch=partial(self._fetch, run, find),
        )

    def _fetch(self, run: WorkflowRun, find: Callable[[WorkflowRun], Artifact]) -> bytes:
        artifact, label = find(run), f"run {run.id}"
        data = self._reads.download(artifact.id, label=label)
        recorded = artifact.digest.removeprefix("sha256:") if artifact.digest is not None else None
        return checked_archive(data, recorded, label)

    def _usable(self, run: WorkflowRun) -> Artifact:
        artifact = self._of_change(run)
        owner = artifact.workflow_run
        if owner is not None and owner.repository_id != owner.head_repository_id:
            raise Withheld(f"The artifact of run {run.id} was made by another repository's code.", loud=True)
        return artifact

    def _of_change(self, run: WorkflowRun) -> Artifact:
        """Find the newest artifact of a run: every attempt may have left one."""
        name = self._settings.baseline_artifact
        try:
            named = self._reads.artifacts(run.id, name)
        except HttpError as error:
            if error.status != NOT_FOUND:
                raise
            raise Withheld(f"Run {run.id} is listed, and GitHub does not find its artifacts.") from error
        if not named:
            raise Skipped(f"Run {run.id} left no artifact `{name}`.")
        artifact = max(named, key=lambda row: row.id)
        if artifact.expired:
            raise Expired(f"The artifact of run {run.id} has expired.")
        refuse_large_archive(artifact.size_in_bytes, f"run {run.id}")
        return artifact

    def keep_evidence(self, archive: Path) -> None:
        """Upload the archive where the settings ask for it; else a step of the workflow does."""
        if not self._own["upload_evidence"]:
            return
        name = self._settings.baseline_artifact
        try:
            upload_artifact(name, archive, self._environ, sleep=self._sleep, patience=self._patience)
        except AgentEvalError as error:
            why = f"The evidence was not uploaded: {error.message} {error.remedy}".strip()
            self.warn(why)
            self.write_summary(f"> ⚠️ {prose(why, limit=1_000)}\n")
        else:
            self.say(f"Uploaded the evidence as the artifact {name}.")

    def publish(self, body: Callable[[str], str]) -> Published:
        """Create or update this evaluation's comment on the pull request, where there is one."""
        event = self.event
        if self._reported is not None and self._reported.why_no_comment:
            return Published("refused", warning=self._reported.why_no_comment)
        if event.pull_request is None:
            return _NOT_NAMED if event.of_pull_request else Published("none")
        if self._api is None:
            return Published(
                "refused",
                warning="No comment was written: there is no token. Set `github-token`, or `comment: never`.",
            )
        marker = Marker(self._settings.comment_id, event.head_sha, event.run_id or 0, event.attempt)
        comments = PullRequestComments(self._api, event.pull_request, self._own["comment_author"])
        return publish(
            comments,
            marker,
            body(str(marker)),
            words=comment_words(GITHUB, from_fork=event.from_fork and self._reported is None),
        )
