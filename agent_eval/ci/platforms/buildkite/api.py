"""Call Buildkite's REST API, with typed answers."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from agent_eval.ci.platforms.rest import RestApi
from agent_eval.http.client import Session

Row = TypeVar("Row", bound=BaseModel)

PAGE = 100
MAX_ARTIFACT_PAGES = 10


class PullRequest(BaseModel):
    """The pull request of a build. Without an id there is none."""

    id: str | int | None = None


class Build(BaseModel):
    """A build. `pull_request` is null or empty where there is none."""

    number: int
    state: str
    commit: str
    branch: str
    web_url: str
    created_at: datetime
    pull_request: PullRequest | None = None

    @property
    def of_pull_request(self) -> bool:
        """Whether the build's code is that of a pull request."""
        return self.pull_request is not None and self.pull_request.id is not None


class Artifact(BaseModel):
    """A file that a job of a build uploaded."""

    id: str
    job_id: str
    state: str
    path: str
    file_size: int
    sha1sum: str
    download_url: str


class BuildkiteApi:
    """Buildkite's API for one pipeline.

    Example:
        >>> session = Session("https://api.buildkite.com/v2")
        >>> api = BuildkiteApi(session, organization="acme", pipeline="shop")

        `api.build(12).branch` asks Buildkite.

    Args:
        session: To the API's base address, with the token.
        organization: Slug.
        pipeline: Slug.
    """

    def __init__(self, session: Session, *, organization: str, pipeline: str) -> None:
        self._api = RestApi(session, name="Buildkite", remedy="Check the API address (`buildkite-api-url`).")
        self._root = f"/organizations/{quote(organization)}/pipelines/{quote(pipeline)}/builds"

    def builds(self, **query: str) -> list[Build]:
        """List the newest hundred finished builds, narrowed by `query`."""
        params = {"state": "finished", "exclude_pipeline": "true", **query}
        return list(self._rows(Build, self._root, params, pages=1))

    def build(self, number: int) -> Build:
        """Read one build."""
        return self._api.get(Build, f"{self._root}/{number}")

    def artifacts(self, build: int, path: str) -> list[Artifact]:
        """List a build's artifacts of that path; there are several where several jobs uploaded one."""
        listed = self._rows(
            Artifact, f"{self._root}/{build}/artifacts", {"path": path}, pages=MAX_ARTIFACT_PAGES
        )
        return [artifact for artifact in listed if artifact.path == path]

    def download(self, build: int, artifact: Artifact, *, label: str) -> bytes:
        """Download an artifact. Raises as `RestApi.evidence`."""
        # The address is built here: the answer's could lead the token elsewhere.
        path = f"{self._root}/{build}/jobs/{quote(artifact.job_id)}/artifacts/{quote(artifact.id)}/download"
        return self._api.evidence(path, label=label)

    def _rows(self, model: type[Row], path: str, params: dict[str, str], *, pages: int) -> list[Row]:
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in params.items())
        return list(self._api.rows(model, f"{path}?{query}", page=PAGE, max_pages=pages))
