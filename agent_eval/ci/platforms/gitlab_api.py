"""GitLab's REST API, with typed answers, and the note and issues that are written through it.

GitLab executes a line that begins with `/merge`, `/close` and the like with the rights of the token that
writes it, and its own idea of what is code differs from CommonMark's. So no line of what is written begins
with a slash: in text it is written as an entity, and in a code block, where entities are shown as they are,
an invisible character comes before it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from urllib.parse import quote

from pydantic import BaseModel

from agent_eval.ci.comment import Comment, Comments
from agent_eval.ci.earlier import Withheld
from agent_eval.ci.platforms.checkout_job import opened
from agent_eval.ci.platforms.hosted import HostedChange
from agent_eval.ci.platforms.rest import RestApi
from agent_eval.errors import RemoteError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience

PAGE = 100
MAX_NOTE_PAGES = 50
MAX_JOB_PAGES = 10
MAX_ISSUE_PAGES = 10
_NOT_FOUND = 404
_OBEYED = 202
_FINISHED_JOBS = "scope[]=success&scope[]=failed"
_LONGEST_TITLE = 255
_SLASH = re.compile(r"(?m)^(\s*)/")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ZERO_WIDTH_SPACE = "\u200b"
_PUBLIC_API = "https://gitlab.com/api/v4"
_PAGE_OF_CHANGE = re.compile(
    r"https://[^/]+/(?P<project>[\w.-]+(?:/[\w.-]+)+)/-/merge_requests/(?P<number>[1-9][0-9]{0,9})"
)


class JobPipeline(BaseModel):
    """The pipeline of a job, as the job names it."""

    id: int
    project_id: int
    sha: str
    ref: str
    status: str
    source: str
    web_url: str
    created_at: datetime | None


class ArtifactFile(BaseModel):
    """A file that a job left; `archive` is what `artifacts:paths` lists."""

    file_type: str
    size: int | None = None


class Job(BaseModel):
    """A job and the artifacts that it left."""

    id: int
    name: str
    status: str
    web_url: str
    pipeline: JobPipeline
    artifacts: list[ArtifactFile]
    artifacts_expire_at: datetime | None

    @property
    def archive(self) -> ArtifactFile | None:
        """The archive with the job's files; None where it left none, or it was erased."""
        return next((row for row in self.artifacts if row.file_type == "archive"), None)


class User(BaseModel):
    """An account. Its number never changes."""

    id: int


class Note(BaseModel):
    """A note on a merge request. GitLab writes those that are `system` itself."""

    id: int
    body: str
    author: User
    system: bool


class MergeRequest(BaseModel):
    """A merge request; `sha` is its newest commit."""

    iid: int
    sha: str | None


class _Commit(BaseModel):
    id: str


class _Branch(BaseModel):
    commit: _Commit


class GitLabApi:
    """GitLab's API for the project that a change goes into.

    Example:
        >>> api = GitLabApi(Session("https://gitlab.com/api/v4"), project=278964, by_job_token=False)

        `api.merge_request(7).sha` asks GitLab.

    Args:
        session: To the API's base address, with the token.
        project: Number of the project, or its path.
        by_job_token: Whether the token is the job's own, which may do less.
    """

    def __init__(self, session: Session, *, project: int | str, by_job_token: bool) -> None:
        self._api = RestApi(session, name="GitLab", remedy="Check the API address (`gitlab-api-url`).")
        self._root = f"/projects/{quote(str(project), safe='')}"
        self.by_job_token = by_job_token

    def pipelines(self, **query: str) -> list[JobPipeline]:
        """List the newest hundred pipelines, narrowed by `query`. The job's own token may not."""
        path = f"{self._root}/pipelines"
        listed = self._api.session.request("GET", path, params={"per_page": PAGE, **query})
        return self._api.validate(_Pipelines, {"rows": self._api.decode(listed, path)}, path).rows

    def jobs_of(self, pipeline: int) -> Iterator[Job]:
        """Yield the finished jobs of a pipeline. Any token."""
        path = f"{self._root}/pipelines/{pipeline}/jobs?{_FINISHED_JOBS}"
        return self._api.rows(Job, path, page=PAGE, max_pages=MAX_JOB_PAGES)

    def jobs(self) -> Iterator[Job]:
        """Yield finished jobs of all pipelines, the newest first, a thousand at most. Any token."""
        order = "pagination=keyset&order_by=id&sort=desc"
        path = f"{self._root}/jobs?{_FINISHED_JOBS}&{order}"
        return self._api.rows(Job, path, page=PAGE, max_pages=MAX_JOB_PAGES)

    def artifact(self, job: int, path: str, *, label: str) -> bytes:
        """Download one file of a job's artifacts. Any token. Raises as `RestApi.evidence`.

        Raises:
            HttpError: GitLab does not let the job's own token read it, which it answers with 404.
        """
        try:
            return self._api.evidence(f"{self._root}/jobs/{job}/artifacts/{quote(path)}", label=label)
        except Withheld as withheld:
            error = withheld.__cause__
            if self.by_job_token and isinstance(error, HttpError) and error.status == _NOT_FOUND:
                raise error from withheld
            raise

    def tip(self, branch: str) -> str | None:
        """Find the commit that a branch points to; None where the token sees no such branch. Any token."""
        path = f"{self._root}/repository/branches/{quote(branch, safe='')}"
        answer = self._api.session.request("GET", path, accept=(_NOT_FOUND,))
        if answer.status == _NOT_FOUND:
            return None
        return self._api.validate(_Branch, self._api.decode(answer, path), path).commit.id

    def merge_request(self, iid: int) -> MergeRequest:
        """Read a merge request. Any token."""
        return self._api.get(MergeRequest, f"{self._root}/merge_requests/{iid}")

    def notes(self, iid: int) -> Iterator[Note]:
        """Yield the notes that people and tokens wrote on a merge request, the oldest first. Any token."""
        path = f"{self._notes(iid)}?activity_filter=only_comments&sort=asc&order_by=created_at"
        return self._api.rows(Note, path, page=PAGE, max_pages=MAX_NOTE_PAGES)

    def create_note(self, iid: int, body: str) -> Note:
        """Write a note. The job's own token may not.

        Raises:
            RemoteError: GitLab took a line of it for a quick action.
        """
        return self._written("POST", self._notes(iid), body)

    def update_note(self, iid: int, note: int, body: str) -> Note:
        """Replace a note's body. Raises as `create_note`."""
        return self._written("PUT", f"{self._notes(iid)}/{note}", body)

    def delete_note(self, iid: int, note: int) -> None:
        """Delete a note; that it does not exist any more is fine."""
        self._api.session.request("DELETE", f"{self._notes(iid)}/{note}", accept=(_NOT_FOUND,))

    def user(self) -> User:
        """Read the account of the token. The job's own token has none."""
        return self._api.get(User, "/user")

    def _written(self, method: str, path: str, body: str) -> Note:
        answer = self._api.session.request(method, path, json={"body": body})
        if answer.status == _OBEYED:
            raise RemoteError(
                "GitLab took a line of the note for a quick action, and there is no note now.",
                remedy="Report this as a defect, with the evidence of this run.",
                path=path,
            )
        return self._api.validate(Note, self._api.decode(answer, path), path)

    def _notes(self, iid: int) -> str:
        return f"{self._root}/merge_requests/{iid}/notes"


class _Pipelines(BaseModel):
    rows: list[JobPipeline]


def without_quick_actions(markdown: str) -> str:
    r"""Rewrite every line that begins with a slash.

    Example:
        >>> without_quick_actions("All well.\n/merge")
        'All well.\n&#47;merge'
    """
    lines: list[str] = []
    fence = ""
    for line in re.split(r"\r\n?|\n", markdown):
        in_code = bool(fence)
        fence = _fence_after(line, fence)
        replacement = rf"\1{_ZERO_WIDTH_SPACE}/" if in_code else r"\1&#47;"
        lines.append(_SLASH.sub(replacement, line))
    return "\n".join(lines)


def _fence_after(line: str, fence: str) -> str:
    """Return the fence that is open after a line; empty for none."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    ticks = match.group(1)
    if not fence:
        return ticks
    closes = ticks[0] == fence[0] and len(ticks) >= len(fence) and not line[match.end() :].strip()
    return "" if closes else fence


class MergeRequestNotes:
    """The notes of one merge request.

    Args:
        api: Of the project.
        iid: The merge request.
        url: Its page; empty when unknown.
    """

    def __init__(self, api: GitLabApi, iid: int, url: str) -> None:
        self._api, self._iid, self._url = api, iid, url

    def listed(self) -> Iterable[Comment]:
        """Yield all notes, over all pages, but those that GitLab wrote itself."""
        return (self._comment(row) for row in self._api.notes(self._iid) if not row.system)

    def create(self, body: str) -> Comment:
        """Write a new one."""
        return self._comment(self._api.create_note(self._iid, without_quick_actions(body)))

    def update(self, comment_id: int, body: str) -> Comment:
        """Replace the body of one."""
        return self._comment(self._api.update_note(self._iid, comment_id, without_quick_actions(body)))

    def delete(self, comment_id: int) -> None:
        """Remove one."""
        self._api.delete_note(self._iid, comment_id)

    def author(self) -> str:
        """The number of the token's account, which never changes; names may."""
        return str(self._api.user().id)

    def current_head(self) -> str | None:
        """The newest commit of the merge request."""
        return self._api.merge_request(self._iid).sha

    def _comment(self, row: Note) -> Comment:
        url = f"{self._url}#note_{row.id}" if self._url else ""
        return Comment(row.id, str(row.author.id), row.body, url)


def comments_on(change: HostedChange) -> Comments | None:
    """Open the notes of a merge request; None where it is none of GitLab's, or there is no token.

    Raises:
        UsageError: The API address is not https.
    """
    page = _PAGE_OF_CHANGE.fullmatch(change.url)
    token = str(change.settings.own["gitlab_token"])
    api_url = str(change.settings.own["gitlab_api_url"])
    base = change.api_address(api_url, public="gitlab.com", of_public=_PUBLIC_API)
    if page is None or not token or not base:
        return None
    session = open_session(base, {"PRIVATE-TOKEN": token}, change.sleep or time.sleep, change.patience)
    api = GitLabApi(session, project=page["project"], by_job_token=False)
    return MergeRequestNotes(api, int(page["number"]), change.url)


def open_session(
    base: str, token: Mapping[str, str], sleep: Callable[[float], None], patience: Patience | None
) -> Session:
    """Open a session to GitLab's API, with the header that holds the token.

    Raises:
        UsageError: The address is not https.
    """
    return opened(
        lambda: Session(base, secret_headers=token, patience=patience, sleep=sleep), field="gitlab-api-url"
    )
