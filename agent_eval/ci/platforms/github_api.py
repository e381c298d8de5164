"""GitHub's REST API, with typed answers, the comment that is written through it, and the artifact service.

Only documented parameters are sent: GitHub ignores others silently.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, Field

from agent_eval.ci.comment import Comment, Comments
from agent_eval.ci.earlier import MAX_ARCHIVE_BYTES
from agent_eval.ci.rest import PAGE, Connector, RestApi
from agent_eval.errors import InvalidInput, RemoteError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError, RateLimited
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.json import parse

Row = TypeVar("Row")
PUBLIC_API = "https://api.github.com"
API_VERSION = "2022-11-28"
USUAL_AUTHOR = "github-actions[bot]"
"""The author of what is written with a workflow's own token."""
ARTIFACT_SERVICE = "/twirp/github.actions.results.api.v1.ArtifactService"
ARTIFACT_VERSION = 4
_PAGE_OF_CHANGE = re.compile(
    r"https://[^/]+/(?P<repository>[\w.-]+/[\w.-]+)/pull/(?P<number>[1-9][0-9]{0,9})"
)
_SCOPE = "Actions.Results"
_ALREADY_THERE = 409
_UPLOAD_SECONDS = 600.0
_UPLOAD_LATER = "Upload it by a later step with `actions/upload-artifact`."


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


class _Comment(BaseModel):
    """A comment. `user` is None where the account was deleted."""

    id: int
    html_url: str
    body: str | None = None
    user: Author | None = None


class Listing(BaseModel, Generic[Row]):
    """A page of runs or artifacts; the count is of all pages."""

    total_count: int = 0
    rows: list[Row] = Field(validation_alias=AliasChoices("workflow_runs", "artifacts"))


class Commit(BaseModel):
    """A commit, as other objects refer to it."""

    sha: str


def connected(connect: Connector, address: str, token: str) -> RestApi:
    """Open GitHub's API at an https address."""
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION}
    secret = {"Authorization": f"Bearer {token}"}
    return connect.open(address, secret, name="GitHub", field="github-api-url", headers=headers)


def listed(api: RestApi, rows_as: type[Listing[Row]], path: str, query: Mapping[str, str]) -> list[Row]:
    """List the newest hundred rows, narrowed by the query.

    Raises `RemoteError` for an empty list of what GitHub counts: it would pass for "there is none".
    """
    answer = api.get(rows_as, path, {"per_page": PAGE, **query})
    if answer.total_count and not answer.rows:
        raise RemoteError(
            f"GitHub answered {path} with an empty list, and says that it has {answer.total_count:,} rows.",
            remedy="Run the job again; if it persists, check GitHub's status page.",
            path=path,
        )
    return answer.rows


class PullRequestComments(Comments):
    """The comments of one pull request of a repository `owner/name`.

    `author` is the login of the token as the user says it; empty to ask GitHub.
    """

    row, replaced_by = _Comment, "PATCH"

    def __init__(self, api: RestApi, repository: str, number: int, author: str) -> None:
        root = f"/repos/{repository}"
        super().__init__(api, f"{root}/issues/{number}/comments", f"{root}/issues/comments")
        self._author, self._pull = author, f"{root}/pulls/{number}"

    def read(self, row: _Comment) -> Comment:
        """Read a comment, whose account may be deleted."""
        return Comment(row.id, row.user.login if row.user else "", row.body or "", row.html_url)

    def author(self) -> str:
        """The login of the token: as the user says, as GitHub says, else the usual bot.

        GitHub does not say the login of an app. Raises `RateLimited` where it limits requests: what it would
        say is not known.
        """
        if self._author:
            return self._author
        try:
            return self.api.get(Author, "/user").login
        except RateLimited:
            raise
        except RemoteError:
            return USUAL_AUTHOR

    def current_head(self) -> str | None:
        """The commit that the pull request points to now."""
        return self.api.get(PullRequest, self._pull).head.sha


def pull_request_comments(page: str, own: Mapping[str, Any], connect: Connector) -> Comments | None:
    """Open the comments of a pull request, for a job on another platform, by that job's own settings.

    None for another page, and without a token. That goes to no host that only the page's address names: to
    GitHub itself, or to the API that the settings name, on the page's host or on `api.` before it.
    """
    match, token, base = _PAGE_OF_CHANGE.fullmatch(page), own["github_token"], own["github_api_url"]
    host = urlsplit(page).netloc.lower()
    if not base and host == "github.com":
        base = PUBLIC_API
    elif urlsplit(base).netloc.lower() not in (host, f"api.{host}"):
        return None
    if match is None or not token:
        return None
    api = connected(connect, base, token)
    return PullRequestComments(api, match["repository"], int(match["number"]), own["comment_author"])


class _Created(BaseModel):
    ok: bool
    signed_upload_url: str


class _Finalized(BaseModel):
    ok: bool


def upload_artifact(name: str, archive: Path, environ: Mapping[str, str], connect: Connector) -> None:
    """Upload a zip archive as an artifact of this run, as `actions/upload-artifact` does.

    The runner gives address and token of the service to actions, in containers too, and to no other step. The
    service creates an artifact and returns a signed address of the storage; the file goes there without the
    token, and the service gets its size and digest. GitHub Enterprise Server has no such service. An archive
    that is larger than what later runs read is refused.
    """
    token, address = environ.get("ACTIONS_RUNTIME_TOKEN", ""), environ.get("ACTIONS_RESULTS_URL", "")
    if not token or not address:
        raise RemoteError(
            "The runner gave this step no access to the artifact service (ACTIONS_RUNTIME_TOKEN and "
            "ACTIONS_RESULTS_URL). It does for actions, not for `run` steps, and not on Enterprise Server.",
            remedy=_UPLOAD_LATER,
        )
    data = read_bytes(archive, max_bytes=MAX_ARCHIVE_BYTES)
    session = Session(
        _origin_of(address),
        secret_headers={"Authorization": f"Bearer {token}"},
        patience=connect.patience,
        sleep=connect.sleep,
    )
    api = RestApi(session, name="the artifact service", remedy=_UPLOAD_LATER)
    named = {**_backend_ids(token), "name": name}
    version = {"version": ARTIFACT_VERSION}
    try:
        created = api.send(_Created, "POST", f"{ARTIFACT_SERVICE}/CreateArtifact", {**named, **version})
    except HttpError as error:
        if error.status != _ALREADY_THERE:
            raise
        raise RemoteError(
            f"This run has an artifact `{name}` already.",
            remedy="Give each of several evaluations its own `comment-id`, and upload it once.",
        ) from error
    if not created.ok:
        raise RemoteError("The artifact service created no artifact.", remedy=_UPLOAD_LATER)
    # No credential goes to the signed address, and no message shows it.
    storage = Session(
        _origin_of(created.signed_upload_url),
        headers={"x-ms-blob-type": "BlockBlob"},
        patience=connect.patience,
        sleep=connect.sleep,
    )
    storage.request(
        "PUT", created.signed_upload_url, body=data, content_type="application/zip", seconds=_UPLOAD_SECONDS
    )
    ends = {**named, "size": str(len(data)), "hash": f"sha256:{sha256_bytes(data)}"}
    if not api.send(_Finalized, "POST", f"{ARTIFACT_SERVICE}/FinalizeArtifact", ends).ok:
        raise RemoteError("The artifact service did not accept the upload.", remedy=_UPLOAD_LATER)


def _origin_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def _backend_ids(token: str) -> dict[str, str]:
    """Read from the token which run and job it is for, in the service's own numbering."""
    try:
        claims = token.split(".")[1]
        value = parse(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), source="ACTIONS_RUNTIME_TOKEN")
        scopes = [scope.split(":") for scope in str(value["scp"]).split()]
    except (IndexError, KeyError, TypeError, ValueError, InvalidInput):
        scopes = []
    for scope in scopes:
        if len(scope) == 3 and scope[0] == _SCOPE:
            return {"workflow_run_backend_id": scope[1], "workflow_job_run_backend_id": scope[2]}
    raise RemoteError("ACTIONS_RUNTIME_TOKEN does not say which run it is for.", remedy=_UPLOAD_LATER)
