"""GitHub Actions: the event, earlier runs, the comment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from agent_eval.ci.baseline import Candidate, NoHistory
from agent_eval.ci.comment import Comment, Marker, Published, publish
from agent_eval.ci.config import Settings
from agent_eval.ci.platforms.base import Context
from agent_eval.ci.platforms.github.api import API_VERSION, GitHubApi, IssueComment, graphql_url
from agent_eval.ci.platforms.github.event import GitHubEvent, read_event
from agent_eval.ci.platforms.github.history import GitHubHistory
from agent_eval.ci.platforms.github.step import GitHubStep
from agent_eval.errors import RemoteError, UsageError
from agent_eval.http.client import HttpError, Session

PUBLIC_API = "https://api.github.com"
USUAL_AUTHOR = "github-actions[bot]"
"""Who writes when a workflow's own token cannot say it."""

_NOT_NAMED = Published(
    "refused",
    warning="No comment was written: the event's payload (GITHUB_EVENT_PATH) names no pull request. The "
    "report is in the job's summary.",
)


class GitHub(GitHubStep):
    """One job of GitHub Actions.

    Args:
        settings: What the user asked for.
        environ: The runner's environment.
        stream: The job's log.
        sleep: Waits that many seconds between attempts.

    Raises:
        UsageError, InvalidInput: The runner's environment or the event cannot be read.
        HttpError: The API address is not https.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        stream: TextIO,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(environ, stream)
        self.event = read_event(environ)
        self._settings = settings
        token = settings.github_token or environ.get("GITHUB_TOKEN", "").strip()
        self._api = _api(settings, environ, token, self.event.repository, sleep) if token else None

    @property
    def context(self) -> Context:
        """What the runner said of this job."""
        event = self.event
        return Context(
            head_sha=event.head_sha,
            run_url=event.run_url,
            run_name=f"github-{event.run_id}-{event.attempt}" if event.run_id else None,
            evidence_url=f"{event.run_url}#artifacts" if event.run_url else None,
            base_sha=event.base_sha,
            from_fork=event.from_fork,
        )

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Earlier workflow runs; see `github_history`."""
        if self._api is None:
            raise NoHistory("Without a token (`github-token`) earlier runs cannot be read.")
        history = GitHubHistory(
            api=self._api,
            event=self.event,
            artifact=self._settings.baseline_artifact,
            workflow=self._settings.baseline_workflow,
            branch=self._settings.baseline_branch,
            run_id=self._settings.baseline_run_id,
        )
        return history.candidates(notes)

    def base_file(self, path: str) -> bytes | None:
        """A file as it is on the base of the pull request or merge group."""
        base = self.event.base_sha
        if self._api is None or base is None:
            raise RemoteError(
                f"Without a token `{path}` cannot be read from the base branch.",
                remedy="Set `github-token`.",
                path=path,
            )
        return self._api.file(path, base)

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
        comments = PullRequestComments(self._api, event.pull_request, self._settings.comment_author)
        return publish(comments, marker, body(str(marker)), from_fork=event.from_fork)


class PullRequestComments:
    """The comments of one pull request, as `publication` wants them."""

    def __init__(self, api: GitHubApi, number: int, author: str) -> None:
        self._api, self._number, self._author = api, number, author

    def listed(self) -> Iterable[Comment]:
        """All comments, over all pages."""
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
        """Who we are: as the user says, as GitHub says, else the usual bot."""
        return self._author or self._api.viewer() or USUAL_AUTHOR

    def current_head(self) -> str | None:
        """The commit the pull request points to now."""
        return self._api.pull_head(self._number)


def _api(
    settings: Settings,
    environ: Mapping[str, str],
    token: str,
    repository: str,
    sleep: Callable[[float], None],
) -> GitHubApi:
    base = settings.github_api_url or environ.get("GITHUB_API_URL") or PUBLIC_API
    try:
        session = Session(
            base,
            secret_headers={"Authorization": f"Bearer {token}"},
            headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION},
            sleep=sleep,
        )
    except HttpError as error:
        raise UsageError(error.message, remedy=error.remedy, field="github-api-url") from error
    return GitHubApi(session, graphql_url=graphql_url(base), repository=repository)


def _comment(row: IssueComment) -> Comment:
    return Comment(row.id, row.user.login if row.user else "", row.body or "", row.html_url)


__all__ = ["GitHub", "GitHubEvent", "PullRequestComments"]
