"""A CircleCI on localhost: a real HTTP server that keeps pipelines, workflows, jobs and artifacts.

Every request and every answer is checked against the API's description; what differs is in `violations`.
Artifacts are on a second server on another port of the same host, which redirects to a third, and that one
refuses a request that carries a token.
"""

import re
import uuid
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import quote

from tests.fakes.contract import Contract
from tests.fakes.server import FakePlatform, Fault, Reply, error, send

TOKEN = "CCIPAT_" + "S3cretToken" * 3
SLUG = "gh/acme/shop"
REPOSITORY, FORK = "https://git.example/acme/shop", "https://git.example/mallory/shop"
PAGE = 20
_ROOT = f"/project/{quote(SLUG, safe='')}"


def identity(seed: str) -> str:
    """A UUID made of a word."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, seed))


class FakeCircleCI(FakePlatform):
    """Use as a context manager; `url` is the API's address."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(contract, "/api/v2", self._artifact, self.storage)
        self.pipelines: dict[int, dict[str, Any]] = {}
        self.jobs: dict[str, list[dict[str, Any]]] = {}
        """Jobs by the id of their workflow."""
        self.workflows: dict[str, list[dict[str, Any]]] = {}
        """Workflows by the id of their pipeline."""
        self.artifacts: dict[int, list[dict[str, Any]]] = {}
        """Artifacts by the number of their job."""
        self.files: dict[str, bytes] = {}

    def host(self, number: int) -> str:
        """The address of the API (0), the artifacts (1), the storage (2)."""
        return self._host(number)

    # What tests prepare

    def add_pipeline(self, number: int, *, source: dict[str, Any] | None = None, **fields: Any) -> int:
        """A pipeline of a push to main with one workflow, unless told otherwise."""
        pipeline = identity(f"pipeline {number}")
        places = dict.fromkeys(("origin_repository_url", "target_repository_url"), REPOSITORY)
        vcs = {"provider_name": "GitHub", "revision": f"{number:040x}", "branch": "main", **places}
        self.pipelines[number] = {
            "id": pipeline, "number": number, "state": "created", "project_slug": SLUG,
            "created_at": "2026-01-12T08:00:00Z", "errors": [],
            "trigger": {"type": "webhook", "received_at": "2026-01-12T08:00:00Z",
                        "actor": {"login": "ada", "avatar_url": "https://git.example/ada.png"}},
            "vcs": {**vcs, **(source or {})}, **fields,
        }  # fmt: skip
        self.add_workflow(number, "2026-01-12T08:00:01Z")
        return number

    def add_workflow(self, number: int, created_at: str) -> str:
        """A workflow of a pipeline; a rerun is a further one."""
        pipeline = self.pipelines[number]["id"]
        rows = self.workflows.setdefault(pipeline, [])
        workflow = identity(f"workflow {number} {len(rows)}")
        row = {
            "id": workflow, "name": "agent-eval", "status": "success", "created_at": created_at,
            "stopped_at": created_at, "pipeline_id": pipeline, "pipeline_number": number,
            "project_slug": SLUG, "started_by": identity("ada"),
        }  # fmt: skip
        rows.append(row)
        return workflow

    def add_job(self, number: int, files: dict[str, bytes], **fields: Any) -> int:
        """The job of a pipeline's newest workflow, with its artifacts."""
        workflow = self.workflows[self.pipelines[number]["id"]][-1]["id"]
        job = 100 + len(self.artifacts)
        row = {
            "id": identity(f"job {job}"), "name": "agent-eval", "status": "success", "job_number": job,
            "started_at": "2026-01-12T08:00:02Z", "stopped_at": "2026-01-12T08:01:02Z", "dependencies": [],
            "project_slug": SLUG, "type": "build", **fields,
        }  # fmt: skip
        self.jobs.setdefault(workflow, []).append(row)
        self.artifacts[job] = [
            {"path": path, "node_index": 0, "url": f"{self.host(1)}/{job}/0/{quote(path)}"} for path in files
        ]
        self.files |= {f"{job}/0/{path}": data for path, data in files.items()}
        return job

    def fail(self, path: str, status: int, times: int = 9, **fields: Any) -> None:  # type: ignore[override]
        """Answer requests whose path matches the regular expression with `status`."""
        self.faults.append(Fault("GET", path, status, times, **fields))

    def count(self, path: str) -> int:  # type: ignore[override]
        """How many requests matched."""
        return sum(bool(re.search(path, seen.path)) for seen in self.requests)

    # The servers

    def credential(self, handler: BaseHTTPRequestHandler) -> str:
        return "token" if handler.headers.get("Circle-Token") == TOKEN else ""

    def is_described(self, path: str, reply: Reply) -> bool:
        return reply.status == 200

    def answer(self, method: str, path: str, query: dict[str, str], value: Any, credential: str) -> Reply:
        if not credential:
            return error(401, "You must log in first.")
        if path == f"{_ROOT}/pipeline":
            newest = sorted(self.pipelines.values(), key=lambda row: -int(row["number"]))
            rows = [row for row in newest if query.get("branch") in (None, (row["vcs"] or {}).get("branch"))]
            begin = int(query.get("page-token", "0"))
            further = str(begin + PAGE) if begin + PAGE < len(rows) else None
            return Reply(200, {"items": rows[begin : begin + PAGE], "next_page_token": further})
        found = re.fullmatch(rf"{re.escape(_ROOT)}/pipeline/(\d+)", path)
        if found and int(found[1]) in self.pipelines:
            return Reply(200, self.pipelines[int(found[1])])
        found = re.fullmatch(r"/pipeline/([^/]+)/workflow", path)
        if found:
            return _items(self.workflows.get(found[1], []))
        found = re.fullmatch(r"/workflow/([^/]+)/job", path)
        if found:
            return _items(self.jobs.get(found[1], []))
        found = re.fullmatch(rf"{re.escape(_ROOT)}/(\d+)/artifacts", path)
        if found:
            return _items(self.artifacts.get(int(found[1]), []))
        return error(404, "Not found.")

    def _artifact(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.headers.get("Circle-Token") != TOKEN:
            return send(handler, 403, b"", {})
        return send(handler, 302, b"", {"Location": f"{self.host(2)}{handler.path}?sig=SignedQuery"})

    def stored(self, path: str) -> bytes:
        return self.files[path]


def _items(rows: list[Any]) -> Reply:
    return Reply(200, {"items": rows, "next_page_token": None})
