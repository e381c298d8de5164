"""A Buildkite on localhost: a real HTTP server that keeps builds and artifacts.

Every request and every answer is checked against the API's description; what differs is in `violations`.
Artifacts are redirected to a second server on another port, which refuses a request that carries a token.
"""

import hashlib
import re
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.contract import Contract
from tests.fakes.server import FakePlatform, Reply, error, link_to_next, page_of

TOKEN = "bkua_" + "S3cretToken" * 3
AGENT_TOKEN = "bkaj_" + "S3cretToken" * 3
WEB = "https://buildkite.com/acme/shop"
_ROOT = "/organizations/acme/pipelines/shop/builds"


class FakeBuildkite(FakePlatform):
    """Use as a context manager; `url` is the API's address."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(contract, "/v2", self.storage)
        self.builds: dict[int, dict[str, Any]] = {}
        self.artifacts: dict[str, tuple[int, dict[str, Any], bytes]] = {}

    # What tests prepare

    def add_build(self, number: int, **fields: Any) -> int:
        """A passed build of main, unless `fields` say otherwise."""
        self.builds[number] = {
            "id": f"0190-{number}", "number": number, "state": "passed", "commit": f"{number:040x}",
            "branch": "main", "source": "webhook", "created_at": "2026-01-12T08:00:00.000Z",
            "web_url": f"{WEB}/builds/{number}", "pull_request": None, **fields,
        }  # fmt: skip
        return number

    def add_artifact(self, build: int, path: str, data: bytes, **fields: Any) -> str:
        """A finished artifact of a build; its digest is right unless given."""
        artifact = f"a-{len(self.artifacts)}"
        row = {
            "id": artifact, "job_id": f"j-{build}", "state": "finished", "path": path, "file_size": len(data),
            "sha1sum": hashlib.sha1(data).hexdigest(), "download_url": "https://evil.example/steal", **fields,
        }  # fmt: skip
        self.artifacts[artifact] = (build, row, data)
        return artifact

    # The servers

    def credential(self, handler: BaseHTTPRequestHandler) -> str:
        return "token" if handler.headers.get("Authorization") == f"Bearer {TOKEN}" else ""

    def answer(self, method: str, path: str, query: dict[str, str], value: Any, credential: str) -> Reply:
        if not credential:
            return error(401, "Authentication required.")
        place = path.removeprefix(_ROOT)
        if place == "":
            return self._listed(self._matching(query), query, path)
        found = re.fullmatch(r"/(\d+)(/artifacts)?", place)
        if found and int(found[1]) in self.builds:
            if not found[2]:
                return Reply(200, self.builds[int(found[1])])
            rows = [row for build, row, _ in self.artifacts.values() if build == int(found[1])]
            return self._listed(rows, query, path)
        found = re.fullmatch(r"/(\d+)/jobs/[^/]+/artifacts/([^/]+)/download", place)
        if found and found[2] in self.artifacts:
            return Reply(302, b"", {"Location": f"{self._host(1)}/{found[2]}?sig=SignedQuery"})
        return error(404, "No such thing")

    def _matching(self, query: dict[str, str]) -> list[dict[str, Any]]:
        finished = {"passed", "failed", "blocked", "canceled"}
        return [
            row
            for row in sorted(self.builds.values(), key=lambda row: -int(row["number"]))
            if query.get("commit") in (None, row["commit"])
            and query.get("branch") in (None, row["branch"])
            and (query.get("state") != "finished" or row["state"] in finished)
        ]

    def _listed(self, rows: list[Any], query: dict[str, str], path: str) -> Reply:
        return Reply(200, page_of(rows, query), link_to_next(rows, query, f"{self.url}{path}", size=30))

    def stored(self, path: str) -> bytes:
        return self.artifacts[path][2]
