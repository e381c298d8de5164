"""Call Jenkins' remote access API, with typed answers."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from pydantic import BaseModel

from agent_eval.ci.platforms.rest import RestApi
from agent_eval.http.client import Session

_BUILDS = (
    "builds[number,result,url,timestamp,artifacts[relativePath],actions[lastBuiltRevision[SHA1]]]{0,100}"
)


class Revision(BaseModel):
    """The commit that a build checked out."""

    SHA1: str


class Action(BaseModel):
    """One of the things that a build has, most of which are empty here."""

    lastBuiltRevision: Revision | None = None  # noqa: N815 - the name in the answer


class Artifact(BaseModel):
    """A file that a build archived."""

    relativePath: str  # noqa: N815


class Build(BaseModel):
    """A build; `result` is None while it runs."""

    number: int
    result: str | None
    url: str
    timestamp: int
    artifacts: list[Artifact] = []
    actions: list[Action | None] = []

    @property
    def commits(self) -> set[str]:
        """The commits it checked out: the project's, and those of shared libraries."""
        revisions = [action.lastBuiltRevision for action in self.actions if action is not None]
        return {revision.SHA1 for revision in revisions if revision is not None}


class _Job(BaseModel):
    builds: list[Build] = []


class JenkinsApi:
    """Jenkins' API for one job.

    Example:
        >>> api = JenkinsApi(Session("https://ci.example"), "https://ci.example/job/shop/job/main")

        `api.builds()` asks Jenkins.

    Args:
        session: To Jenkins, with the account's token.
        job_url: Address of the job.
    """

    def __init__(self, session: Session, job_url: str) -> None:
        self._api = RestApi(session, name="Jenkins", remedy="Check JENKINS_URL.")
        self._root = urlsplit(job_url).path

    def builds(self) -> list[Build]:
        """List the newest hundred builds, the newest first."""
        return self._api.get(_Job, f"{self._root}/api/json", {"tree": _BUILDS}).builds

    def download(self, build: int, path: str, *, label: str) -> bytes:
        """Download an artifact. Raises as `RestApi.evidence`."""
        return self._api.evidence(f"{self._root}/{build}/artifact/{quote(path)}", label=label)
