"""GitHub Actions: the event, earlier runs, the comment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TextIO

from agent_eval.ci.candidates import Candidate
from agent_eval.ci.comment import Comment, Marker, Published, publish
from agent_eval.ci.platforms.base import CiRun, comment_words
from agent_eval.ci.platforms.github.api import API_VERSION, GitHubApi, IssueComment, graphql_url
from agent_eval.ci.platforms.github.artifacts import upload_artifact
from agent_eval.ci.platforms.github.event import GitHubEvent, read_event
from agent_eval.ci.platforms.github.history import TRUSTED_EVENTS, GitHubHistory
from agent_eval.ci.platforms.github.issues import RepositoryIssues
from agent_eval.ci.platforms.github.reported import ReportedRun, find_reported
from agent_eval.ci.platforms.github.spec import GITHUB, USUAL_AUTHOR
from agent_eval.ci.platforms.github.step import GitHubStep
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.errors import AgentEvalError, RemoteError, UsageError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience
from agent_eval.text.escape import prose

PUBLIC_API = "https://api.github.com"
_NOT_NAMED = Published(
    "refused",
    warning="No comment was written: the event's payload (GITHUB_EVENT_PATH) names no pull request. The "
    "report is in the job summary.",
)


@dataclass(frozen=True, kw_only=True)
class GitHubSettings:
    """Values of the rows that only GitHub has. Fields are named as the inputs.

    Example:
        `GitHubSettings(**settings.values_of(GITHUB.inputs)).comment_author` is one of the inputs.
    """

    github_token: str = field(repr=False)
    github_api_url: str
    baseline_workflow: str
    comment_author: str
    upload_evidence: bool


class GitHub(GitHubStep):
    """One job of GitHub Actions.

    Example:
        `GitHub(settings, os.environ, sys.stdout).run.run_url` is the page of the workflow run.

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
        self._settings = settings
        self._sleep, self._patience = sleep, patience
        self._own = GitHubSettings(**settings.values_of(GITHUB.inputs))
        token = self._own.github_token or environ.get("GITHUB_TOKEN", "").strip()
        base = self._own.github_api_url or environ.get("GITHUB_API_URL") or PUBLIC_API
        self._api: GitHubApi | None = None
        if token:
            session = open_session(base, token, sleep, patience)
            self._api = GitHubApi(session, graphql_url=graphql_url(base), repository=self._trigger.repository)

    @property
    def spec(self) -> PlatformSpec:
        """GitHub's variables, limits and words."""
        return GITHUB

    @property
    def event(self) -> GitHubEvent:
        """What triggered the job; of a job that reports on another run, with the change of that run."""
        return self._trigger if self._reported is None else self._reported.event

    @cached_property
    def _reported(self) -> ReportedRun | None:
        run_id = self._settings.report_run_id
        if run_id is None:
            return None
        if self._api is None or not self._own.baseline_workflow:
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
            base_sha=self._base_sha,
            from_fork=event.from_fork,
            fork_event=event.name if runs_code else "",
            reported=self._history.reported(reported.run) if reported is not None else None,
            on_base_branch=self._is_of_base_branch,
            number=event.run_id or 0,
            attempt=event.attempt,
            is_scheduled=event.name in ("schedule", "workflow_dispatch"),
        )

    @property
    def _is_of_base_branch(self) -> bool:
        """Whether a run like this one would be offered as a baseline for changes to its branch."""
        event = self.event
        base = self._settings.baseline_branch or event.default_branch
        return (
            not event.from_fork and event.name in TRUSTED_EVENTS and base is not None and event.branch == base
        )

    @cached_property
    def _base_sha(self) -> str | None:
        """The base of the change; for a push to another branch, where that left the default one."""
        event = self.event
        is_change = event.branch is not None and event.branch != event.default_branch
        if (
            event.base_sha
            or not is_change
            or self._api is None
            or not (event.default_branch and event.head_sha)
        ):
            return event.base_sha
        try:
            return self._api.merge_base(event.default_branch, event.head_sha)
        except RemoteError:
            return None  # The search for the baseline fails likewise, and says why.

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Yield earlier workflow runs, as `GitHubHistory` finds them.

        Raises:
            RemoteError: There is no token: whether there is a baseline is not known.
        """
        if self._api is None:
            raise RemoteError(
                "Without a token earlier runs cannot be read: whether there is a baseline is not known.",
                remedy="Set `github-token`; or, to evaluate without a baseline, `baseline: none`.",
            )
        return self._history.candidates(notes)

    @property
    def _history(self) -> GitHubHistory:
        assert self._api is not None  # both callers have checked it
        return GitHubHistory(
            api=self._api,
            event=self.event,
            artifact=self._settings.baseline_artifact,
            workflow=self._own.baseline_workflow,
            branch=self._settings.baseline_branch,
            run_id=self._settings.baseline_run_id,
        )

    def base_file(self, path: str) -> bytes | None:
        """Read a file as of the base of the pull request or merge group."""
        base = self._base_sha
        if self._api is None or base is None:
            raise RemoteError(
                f"Without a token `{path}` cannot be read from the base branch.",
                remedy="Set `github-token`.",
                path=path,
            )
        return self._api.file(path, base)

    def keep_evidence(self, archive: Path) -> None:
        """Upload the archive where the settings ask for it; else a step of the workflow does."""
        if not self._own.upload_evidence:
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
        comments = PullRequestComments(self._api, event.pull_request, self._own.comment_author)
        return publish(
            comments,
            marker,
            body(str(marker)),
            words=comment_words(GITHUB, from_fork=event.from_fork and self._reported is None),
        )

    def issues(self) -> RepositoryIssues:
        """Open the repository's issues.

        Raises:
            RemoteError: There is no token.
        """
        if self._api is None:
            raise RemoteError("Without a token issues cannot be written.", remedy="Set `github-token`.")
        return RepositoryIssues(self._api, self._own.comment_author)


class PullRequestComments:
    """The comments of one pull request.

    Example:
        `PullRequestComments(api, 7, author="").listed()` yields the comments of pull request 7.
    """

    def __init__(self, api: GitHubApi, number: int, author: str) -> None:
        self._api, self._number, self._author = api, number, author

    def listed(self) -> Iterable[Comment]:
        """Yield all comments, over all pages."""
        return (_comment(row) for row in self._api.comments(self._number))

    def create(self, body: str) -> Comment:
        """Write a new one."""
        return _comment(self._api.create_comment(self._number, body))

    def update(self, comment_id: int, body: str) -> Comment:
        """Replace the body of one."""
        return _comment(self._api.update_comment(comment_id, body))

    def delete(self, comment_id: int) -> None:
        """Remove one."""
        self._api.delete_comment(comment_id)

    def author(self) -> str:
        """The login of the token: as the user says, as GitHub says, else the usual bot."""
        return self._author or self._api.viewer() or USUAL_AUTHOR

    def current_head(self) -> str | None:
        """The commit that the pull request points to now."""
        return self._api.pull_head(self._number)


def open_session(base: str, token: str, sleep: Callable[[float], None], patience: Patience | None) -> Session:
    """Open a session to GitHub's API.

    Raises:
        UsageError: The address is not https.
    """
    try:
        return Session(
            base,
            secret_headers={"Authorization": f"Bearer {token}"},
            headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION},
            patience=patience,
            sleep=sleep,
        )
    except HttpError as error:
        raise UsageError(error.message, remedy=error.remedy, field="github-api-url") from error


def _comment(row: IssueComment) -> Comment:
    return Comment(row.id, row.user.login if row.user else "", row.body or "", row.html_url)


__all__ = ["GitHub", "GitHubEvent", "PullRequestComments"]
