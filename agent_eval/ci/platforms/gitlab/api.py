"""Call GitLab's REST API, with typed answers. Which credential a call takes is said in each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal
from urllib.parse import quote

from pydantic import BaseModel

from agent_eval.ci.candidates import Withheld
from agent_eval.ci.platforms.rest import RestApi
from agent_eval.errors import RemoteError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError

PAGE = 100
MAX_NOTE_PAGES = 50
MAX_JOB_PAGES = 10
MAX_ISSUE_PAGES = 10
_NOT_FOUND = 404
_OBEYED = 202
_FINISHED_JOBS = "scope[]=success&scope[]=failed"


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


class ProjectIssue(BaseModel):
    """An issue of the project."""

    iid: int
    state: str
    description: str | None = None
    author: User
    web_url: str


class MergeRequest(BaseModel):
    """A merge request; `sha` is its newest commit."""

    iid: int
    sha: str | None


class _Commit(BaseModel):
    id: str


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

    def merge_base(self, base: str, head: str) -> str:
        """Find the commit where `head` left `base` (branches or commits). The job's own token may not."""
        refs = "&".join(f"refs[]={quote(ref, safe='')}" for ref in (base, head))
        return self._api.get(_Commit, f"{self._root}/repository/merge_base?{refs}").id

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

    def issues(self, author: int, *, state: Literal["opened", "closed"]) -> Iterator[ProjectIssue]:
        """Yield the issues that an account opened, those changed last first; of closed ones a hundred.

        The job's own token may not.
        """
        query = f"state={state}&author_id={author}&scope=all&order_by=updated_at&sort=desc"
        pages = MAX_ISSUE_PAGES if state == "opened" else 1
        return self._api.rows(ProjectIssue, f"{self._root}/issues?{query}", page=PAGE, max_pages=pages)

    def create_issue(self, title: str, description: str) -> ProjectIssue:
        """Open an issue. The job's own token may not."""
        body = {"title": title, "description": description}
        return self._api.send(ProjectIssue, "POST", f"{self._root}/issues", body)

    def update_issue(self, iid: int, **fields: str) -> ProjectIssue:
        """Change an issue: its `description`, its state by a `state_event`. The job's own token may not."""
        return self._api.send(ProjectIssue, "PUT", f"{self._root}/issues/{iid}", fields)

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
