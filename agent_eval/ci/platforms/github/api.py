"""Call GitHub's REST API, with typed answers.

Only documented parameters are sent: GitHub ignores others silently.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import quote

from pydantic import BaseModel

from agent_eval.ci.platforms.rest import Params, RestApi
from agent_eval.errors import RemoteError
from agent_eval.http.client import Session
from agent_eval.http.errors import RateLimited

API_VERSION = "2022-11-28"
PAGE = 100
MAX_COMMENT_PAGES = 50
MAX_ARTIFACT_PAGES = 10
MAX_ISSUE_PAGES = 10
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


class RepositoryIssue(BaseModel):
    """An issue. GitHub lists pull requests among them; these have `pull_request`."""

    number: int
    state: str
    html_url: str
    body: str | None = None
    user: Author | None = None
    pull_request: dict[str, object] | None = None


class _Runs(BaseModel):
    total_count: int = 0
    workflow_runs: list[WorkflowRun]


class _Artifacts(BaseModel):
    total_count: int = 0
    artifacts: list[Artifact]


class _Commit(BaseModel):
    sha: str


class _Comparison(BaseModel):
    merge_base_commit: _Commit


class _Pull(BaseModel):
    head: _Commit


class _Content(BaseModel):
    type: str
    encoding: str = ""
    content: str = ""


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

    def merge_base(self, base: str, head: str) -> str:
        """Find the commit where `head` left `base` (branches or commits)."""
        path = f"{self._root}/compare/{quote(base, safe='')}...{quote(head, safe='')}"
        return self._api.get(_Comparison, path, {"per_page": 1}).merge_base_commit.sha

    def file(self, path: str, commit: str) -> bytes | None:
        """Read a file as of a commit; None if it does not exist there.

        Raises:
            RemoteError: It is not a file, or larger than the 1 MiB that GitHub answers with.
        """
        place = f"{self._root}/contents/{quote(path, safe='')}"
        answer = self._api.session.request("GET", place, params={"ref": commit}, accept=(404,))
        if answer.status == 404:
            return None
        value = self._api.decode(answer, place)
        content = self._api.validate(_Content, value if isinstance(value, dict) else {}, place)
        if content.type != "file" or content.encoding != "base64":
            raise RemoteError(
                f"`{path}` on the base branch is not a regular file of at most 1 MiB.",
                remedy="Name a smaller file.",
                path=path,
            )
        try:
            return b64decode(content.content)
        except ValueError as error:
            raise RemoteError(f"GitHub did not answer {place} with base64.", path=path) from error

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

    def issues(self, creator: str, *, state: Literal["open", "closed"]) -> Iterator[RepositoryIssue]:
        """Yield the issues that an account opened, those changed last first; of closed ones a hundred."""
        path = f"{self._root}/issues"
        params: Params = {"state": state, "creator": creator, "sort": "updated", "direction": "desc"}
        pages = MAX_ISSUE_PAGES if state == "open" else 1
        listed = self._api.rows(RepositoryIssue, path, page=PAGE, max_pages=pages, params=params)
        return (row for row in listed if row.pull_request is None)

    def create_issue(self, title: str, body: str) -> RepositoryIssue:
        """Open an issue. The request is not repeated when it may have been carried out."""
        return self._api.send(RepositoryIssue, "POST", f"{self._root}/issues", {"title": title, "body": body})

    def update_issue(self, number: int, **fields: str) -> RepositoryIssue:
        """Change an issue: its `body`, or its `state` with a `state_reason`."""
        return self._api.send(RepositoryIssue, "PATCH", f"{self._root}/issues/{number}", fields)

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
