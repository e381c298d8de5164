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
from agent_eval.ci.platforms.github.event import GitHubEvent, read_event
from agent_eval.ci.platforms.github.history import GitHubHistory
from agent_eval.ci.platforms.github.spec import GITHUB
from agent_eval.ci.platforms.github.step import GitHubStep
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.errors import RemoteError, UsageError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience

PUBLIC_API = "https://api.github.com"
USUAL_AUTHOR = "github-actions[bot]"
"""The author of comments that are written with a workflow's own token."""

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
        self.event = read_event(environ)
        self._settings = settings
        self._own = GitHubSettings(**settings.values_of(GITHUB.inputs))
        token = self._own.github_token or environ.get("GITHUB_TOKEN", "").strip()
        base = self._own.github_api_url or environ.get("GITHUB_API_URL") or PUBLIC_API
        self._api: GitHubApi | None = None
        if token:
            session = _session(base, token, sleep, patience)
            self._api = GitHubApi(session, graphql_url=graphql_url(base), repository=self.event.repository)

    @property
    def spec(self) -> PlatformSpec:
        """GitHub's variables, limits and words."""
        return GITHUB

    @property
    def workspace(self) -> Path:
        """The directory in which `actions/checkout` puts the repository."""
        return Path(self._environ.get(GITHUB.workspace_variable, "").strip() or Path.cwd())

    @property
    def run(self) -> CiRun:
        """The workflow run, as the runner's environment and the event describe it."""
        event = self.event
        return CiRun(
            head_sha=event.head_sha,
            run_url=event.run_url,
            run_name=f"github-{event.run_id}-{event.attempt}" if event.run_id else None,
            evidence_url=f"{event.run_url}#artifacts" if event.run_url else None,
            base_sha=self._base_sha,
            from_fork=event.from_fork,
            fork_event=event.name if event.from_fork and event.has_secrets else "",
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
        history = GitHubHistory(
            api=self._api,
            event=self.event,
            artifact=self._settings.baseline_artifact,
            workflow=self._own.baseline_workflow,
            branch=self._settings.baseline_branch,
            run_id=self._settings.baseline_run_id,
        )
        return history.candidates(notes)

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
        """Leave the archive to the workflow's step with `actions/upload-artifact`."""

    def publish(self, body: Callable[[str], str]) -> Published:
        """Create or update this evaluation's comment on the pull request, where there is one."""
        event = self.event
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
            comments, marker, body(str(marker)), words=comment_words(GITHUB, from_fork=event.from_fork)
        )


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


def _session(base: str, token: str, sleep: Callable[[float], None], patience: Patience | None) -> Session:
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
