"""Call CircleCI's REST API, with typed answers.

Artifacts are on another host, which wants the token as well: it goes to hosts of CircleCI alone, and across
no redirect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Generic, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel

from agent_eval.ci.candidates import Withheld
from agent_eval.ci.platforms.rest import RestApi
from agent_eval.http.client import Session

Row = TypeVar("Row")

MAX_PAGES = 10
_HOSTS = (".circle-artifacts.com", ".circleci.com")


class Source(BaseModel):
    """The code of a pipeline. Both addresses are equal unless it is a fork's."""

    revision: str
    branch: str | None = None
    origin_repository_url: str
    target_repository_url: str


class Pipeline(BaseModel):
    """A pipeline. `vcs` is None where something else than a push or a pull request started it."""

    id: str
    number: int
    state: str
    created_at: datetime
    vcs: Source | None = None


class Workflow(BaseModel):
    """A workflow of a pipeline. A rerun is another one."""

    id: str
    status: str
    created_at: datetime


class Job(BaseModel):
    """A job of a workflow. Approvals have no number."""

    name: str
    status: str
    job_number: int | None = None


class Artifact(BaseModel):
    """A file that a job stored."""

    path: str
    node_index: int
    url: str


class _Page(BaseModel, Generic[Row]):
    items: list[Row]
    next_page_token: str | None


class CircleCIApi:
    """CircleCI's API for one project.

    Example:
        >>> def session(address: str) -> Session:
        ...     return Session(address, secret_headers={"Circle-Token": "secret"})
        >>> api = CircleCIApi(session, "https://circleci.com/api/v2", project="gh/acme/shop")

        `api.pipeline(12).state` asks CircleCI.

    Args:
        session: Opens a session with the token to an address.
        base: The API's address.
        project: Its slug.
    """

    def __init__(self, session: Callable[[str], Session], base: str, *, project: str) -> None:
        self._open = session
        self._api = self._rest(base)
        self._host = urlsplit(base).hostname or ""
        self._root = f"/project/{quote(project, safe='')}"

    def pipelines(self, branch: str) -> Iterator[Pipeline]:
        """Yield the pipelines of a branch, the newest first."""
        return self._rows(_Page[Pipeline], f"{self._root}/pipeline", {"branch": branch})

    def pipeline(self, number: int) -> Pipeline:
        """Read one pipeline."""
        return self._api.get(Pipeline, f"{self._root}/pipeline/{number}")

    def workflows(self, pipeline: str) -> Iterator[Workflow]:
        """Yield the workflows of a pipeline."""
        return self._rows(_Page[Workflow], f"/pipeline/{quote(pipeline)}/workflow", {})

    def jobs(self, workflow: str) -> list[Job]:
        """List the jobs of a workflow: the first page, which has all but those of the very largest."""
        return self._api.get(_Page[Job], f"/workflow/{quote(workflow)}/job").items

    def artifacts(self, job: int) -> list[Artifact]:
        """List the artifacts of a job: the first page; the description knows no further ones."""
        return self._api.get(_Page[Artifact], f"{self._root}/{job}/artifacts").items

    def download(self, artifact: Artifact, *, label: str) -> bytes:
        """Download an artifact. Raises as `RestApi.evidence`.

        Raises:
            Withheld: Its address is not one of CircleCI's.
        """
        address = urlsplit(artifact.url)
        host = address.hostname or ""
        if host != self._host and not host.endswith(_HOSTS):
            raise Withheld(f"The evidence of {label} is on an unknown host, {host[:100]}; it was not read.")
        rest = self._rest(f"{address.scheme}://{address.netloc}")
        return rest.evidence(address._replace(scheme="", netloc="").geturl(), label=label)

    def _rows(self, page: type[_Page[Row]], path: str, params: dict[str, str]) -> Iterator[Row]:
        for _ in range(MAX_PAGES):
            answer = self._api.get(page, path, params)
            yield from answer.items
            if not answer.next_page_token:
                return
            params = {**params, "page-token": answer.next_page_token}

    def _rest(self, base: str) -> RestApi:
        return RestApi(
            self._open(base), name="CircleCI", remedy="Check the API address (`circleci-api-url`)."
        )
