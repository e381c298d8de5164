"""GitHub's REST API, with typed answers, and the comment and issues that are written through it.

Only documented parameters are sent: GitHub ignores others silently.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from agent_eval.ci.comment import Comment, Comments
from agent_eval.ci.platforms.checkout_job import opened
from agent_eval.ci.platforms.github.spec import USUAL_AUTHOR
from agent_eval.ci.platforms.hosted import HostedChange
from agent_eval.ci.platforms.rest import Params, RestApi
from agent_eval.errors import RemoteError
from agent_eval.http.client import Session
from agent_eval.http.errors import RateLimited
from agent_eval.http.retry import Patience

PUBLIC_API = "https://api.github.com"
API_VERSION = "2022-11-28"
PAGE = 100
MAX_COMMENT_PAGES = 50
MAX_ARTIFACT_PAGES = 10
MAX_ISSUE_PAGES = 10
_PAGE_OF_CHANGE = re.compile(
    r"https://[^/]+/(?P<repository>[\w.-]+/[\w.-]+)/pull/(?P<number>[1-9][0-9]{0,9})"
)
_VIEWER = "query { viewer { login } }"


class Author(BaseModel):
    """An account: the author of a comment, the owner of a repository."""

    login: str


class Repository(BaseModel):
    """A repository, as other objects refer to it."""

    id: int
    default_branch: str | None = None
    owner: Author | None = None


class WorkflowRun(BaseModel):
    """A run of a workflow. `head_repository` is None where the fork was deleted."""

    id: int
    run_attempt: int = 1
    workflow_id: int
    event: str
    status: str | None
    head_sha: str
    head_branch: str | None
    created_at: str
    html_url: str
    repository: Repository
    head_repository: Repository | None


class ArtifactRun(BaseModel):
    """The run that an artifact belongs to."""

    id: int | None = None
    repository_id: int | None = None
    head_repository_id: int | None = None


class Artifact(BaseModel):
    """A file that a run uploaded. `digest` is `sha256:<hex>` of its zip; older servers have none."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool
    digest: str | None = None
    workflow_run: ArtifactRun | None = None


class Side(BaseModel):
    """A branch that a pull request joins. `repo` is None where the fork was deleted."""

    ref: str
    sha: str
    repo: Repository | None


class PullRequest(BaseModel):
    """A pull request: `head` is to be merged into `base`."""

    number: int
    head: Side
    base: Side


class IssueComment(BaseModel):
    """A comment. `user` is None where the account was deleted."""

    id: int
    html_url: str
    body: str | None = None
    user: Author | None = None


class _Runs(BaseModel):
    total_count: int = 0
    workflow_runs: list[WorkflowRun]


class _Artifacts(BaseModel):
    total_count: int = 0
    artifacts: list[Artifact]


class _Commit(BaseModel):
    sha: str


class _Pull(BaseModel):
    head: _Commit


class GitHubApi:
    """GitHub's API for one repository.

    Example:
        >>> session = Session("https://api.github.com")
        >>> api = GitHubApi(session, graphql_url="https://api.github.com/graphql", repository="acme/shop")

        `api.repository().default_branch` asks GitHub.

    Args:
        session: To the API's base address, with the token.
        graphql_url: Address of the GraphQL API.
        repository: `owner/name`.
    """

    def __init__(self, session: Session, *, graphql_url: str, repository: str) -> None:
        self._api = RestApi(session, name="GitHub", remedy="Check the API address (`github-api-url`).")
        self._graphql_url = graphql_url
        self._root = f"/repos/{repository}"

    def repository(self) -> Repository:
        """Read the repository itself."""
        return self._api.get(Repository, self._root)

    def run(self, run_id: int) -> WorkflowRun:
        """Read one workflow run."""
        return self._api.get(WorkflowRun, f"{self._root}/actions/runs/{run_id}")

    def runs(self, workflow: str | int, **query: str) -> list[WorkflowRun]:
        """List the newest hundred finished runs of a workflow, narrowed by `query`."""
        path = f"{self._root}/actions/workflows/{quote(str(workflow), safe='')}/runs"
        answer = self._api.get(_Runs, path, {"status": "completed", "per_page": PAGE, **query})
        _refuse_missing_rows(answer.workflow_runs, answer.total_count, path)
        return answer.workflow_runs

    def artifacts(self, run_id: int, name: str) -> list[Artifact]:
        """List a run's artifacts of that name; there are several when attempts each uploaded one.

        Older servers ignore the name and list all of the run's artifacts, over several pages.
        """
        path = f"{self._root}/actions/runs/{run_id}/artifacts"
        params: Params = {"name": name, "per_page": PAGE}
        artifacts: list[Artifact] = []
        for answer in self._api.session.pages(path, params=params, max_pages=MAX_ARTIFACT_PAGES):
            page = self._api.validate(_Artifacts, self._api.decode(answer, path), path)
            _refuse_missing_rows(page.artifacts, page.total_count, path)
            artifacts += [row for row in page.artifacts if row.name == name]
        return artifacts

    def download(self, artifact_id: int, *, label: str) -> bytes:
        """Download the artifact's zip. Raises as `RestApi.evidence`."""
        return self._api.evidence(f"{self._root}/actions/artifacts/{artifact_id}/zip", label=label)

    def tip(self, branch: str) -> str | None:
        """Find the commit that a branch points to; None where there is no such branch."""
        path = f"{self._root}/commits/{quote(f'heads/{branch}', safe='')}"
        answer = self._api.session.request("GET", path, params={"per_page": 1}, accept=(404, 422))
        if answer.status != 200:
            return None
        return self._api.validate(_Commit, self._api.decode(answer, path), path).sha

    def open_pulls(self, owner: str, branch: str) -> list[PullRequest]:
        """List the open pull requests from a branch of an owner's repository: at most a hundred."""
        path = f"{self._root}/pulls"
        params: Params = {"state": "open", "head": f"{owner}:{branch}"}
        return list(self._api.rows(PullRequest, path, page=PAGE, max_pages=1, params=params))

    def pull_head(self, number: int) -> str:
        """Find the commit that a pull request points to now."""
        return self._api.get(_Pull, f"{self._root}/pulls/{number}").head.sha

    def comments(self, number: int) -> Iterator[IssueComment]:
        """Yield every comment of a pull request, over all pages, the oldest first."""
        path = f"{self._root}/issues/{number}/comments"
        return self._api.rows(IssueComment, path, page=PAGE, max_pages=MAX_COMMENT_PAGES)

    def create_comment(self, number: int, body: str) -> IssueComment:
        """Write a comment. The request is not repeated when it may have been carried out."""
        path = f"{self._root}/issues/{number}/comments"
        return self._api.send(IssueComment, "POST", path, {"body": body})

    def update_comment(self, comment_id: int, body: str) -> IssueComment:
        """Replace a comment's body."""
        path = f"{self._root}/issues/comments/{comment_id}"
        return self._api.send(IssueComment, "PATCH", path, {"body": body})

    def delete_comment(self, comment_id: int) -> None:
        """Delete a comment; that it does not exist any more is fine."""
        self._api.session.request("DELETE", f"{self._root}/issues/comments/{comment_id}", accept=(404,))

    def viewer(self) -> str | None:
        """Ask for the login of the token; None where GitHub does not say it.

        Raises:
            RateLimited: GitHub limits requests: what it would say is not known.
        """
        try:
            answer = self._api.session.request(
                "POST", self._graphql_url, json={"query": _VIEWER}, repeatable=True
            )
            value = self._api.decode(answer, "/graphql")
        except RateLimited:
            raise
        except RemoteError:
            return None
        if _is_limited(value):
            raise RateLimited(
                "GitHub limits requests to its GraphQL API and does not say until when.",
                remedy="Run the job again later, or name the login in `comment-author`.",
                method="POST",
                url=self._graphql_url,
            )
        for key in ("data", "viewer", "login"):
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, str) and value else None


def _is_limited(answer: Any) -> bool:
    """Tell whether an answer of GraphQL, with the status of a success, says that requests are limited."""
    errors = answer.get("errors") if isinstance(answer, dict) else None
    rows = errors if isinstance(errors, list) else []
    return any(isinstance(row, dict) and row.get("type") == "RATE_LIMITED" for row in rows)


def _refuse_missing_rows(rows: Sequence[BaseModel], total: int, path: str) -> None:
    """Refuse an empty list of something that GitHub counts: it would pass for "there is none".

    Raises:
        RemoteError: The list is empty and its count is not.
    """
    if total and not rows:
        raise RemoteError(
            f"GitHub answered {path} with an empty list, and says that it has {total:,} rows.",
            remedy="Run the job again; if it persists, check GitHub's status page.",
            path=path,
        )


def graphql_url(api_url: str) -> str:
    """Derive the address of GraphQL from that of the REST API: Enterprise Server has it at `/api/graphql`."""
    base = api_url.rstrip("/")
    return f"{base.removesuffix('/v3')}/graphql"


class PullRequestComments:
    """The comments of one pull request."""

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


def _comment(row: IssueComment) -> Comment:
    return Comment(row.id, row.user.login if row.user else "", row.body or "", row.html_url)


def comments_on(change: HostedChange) -> Comments | None:
    """Open the comments of a pull request; None where it is none of GitHub's, or there is no token.

    Raises:
        UsageError: The API address is not https.
    """
    page = _PAGE_OF_CHANGE.fullmatch(change.url)
    token = str(change.settings.own["github_token"])
    api_url = str(change.settings.own["github_api_url"])
    base = change.api_address(api_url, public="github.com", of_public=PUBLIC_API)
    if page is None or not token or not base:
        return None
    session = open_session(base, token, change.sleep or time.sleep, change.patience)
    api = GitHubApi(session, graphql_url=graphql_url(base), repository=page["repository"])
    return PullRequestComments(api, int(page["number"]), str(change.settings.own["comment_author"]))


def open_session(base: str, token: str, sleep: Callable[[float], None], patience: Patience | None) -> Session:
    """Open a session to GitHub's API.

    Raises:
        UsageError: The address is not https.
    """
    return opened(
        lambda: Session(
            base,
            secret_headers={"Authorization": f"Bearer {token}"},
            headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION},
            patience=patience,
            sleep=sleep,
        ),
        field="github-api-url",
    )
