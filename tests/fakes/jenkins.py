"""A Jenkins on localhost below a path, in the shapes of its remote access API."""

import json
from base64 import b64encode
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.server import Served, send

EVIDENCE = "agent-eval-out/evidence.zip"
TOKEN = "11" + "a1b2c3d4" * 4
LOGIN = b64encode(f"ci:{TOKEN}".encode()).decode()
TREE = "builds[number,result,timestamp,artifacts[relativePath],actions[lastBuiltRevision[SHA1]]]{0,100}"
FOLDER = "/ci/job/team/job/shop"
MAIN = f"{FOLDER}/job/main"


class FakeJenkins(Served):
    """Use as a context manager; `url` is the address of its host."""

    def __init__(self) -> None:
        super().__init__(self._request)
        self.builds: dict[str, list[dict[str, Any]]] = {MAIN: []}
        """Builds by the path of their job, the newest first."""
        self.files: dict[str, bytes] = {}
        self.anonymous_may_read = False
        self.violations: list[str] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return self._host()

    def add_build(
        self, job: str, number: int, commit: str, data: bytes | None, result: str | None = "SUCCESS"
    ) -> None:
        """A build of a job that archived the evidence, unless `data` is None."""
        row = {
            "_class": "org.jenkinsci.plugins.workflow.job.WorkflowRun",
            "number": number, "result": result, "timestamp": 1_768_204_800_000,
            "url": f"{self.url}{job}/{number}/",
            "artifacts": [] if data is None else [{"relativePath": EVIDENCE}],
            # Jenkins answers an empty object for an action that has nothing that was asked for.
            "actions": [{}, {"_class": "BuildData", "lastBuiltRevision": {"SHA1": commit}}, {}],
        }  # fmt: skip
        self.builds.setdefault(job, []).insert(0, row)
        self.files[f"{job}/{number}/artifact/{EVIDENCE}"] = data or b""

    def _request(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        parts = urlsplit(handler.path)
        self.paths.append(parts.path)
        login = handler.headers.get("Authorization")
        if login not in (None, f"Basic {LOGIN}"):
            return send(handler, 401, b"<html>Unauthorized</html>", {"Content-Type": "text/html"})
        may_read = login is not None or self.anonymous_may_read
        job = parts.path.removesuffix("/api/json")
        if may_read and job != parts.path and job in self.builds:
            if dict(parse_qsl(parts.query)) != {"tree": TREE}:
                self.violations.append(f"asked for {parts.query}")
            data = json.dumps({"_class": "WorkflowJob", "builds": self.builds[job]}).encode()
            return send(handler, 200, data, {"Content-Type": "application/json"})
        if may_read and parts.path in self.files:
            return send(handler, 200, self.files[parts.path], {})
        return send(handler, 404, b"<html>Not Found</html>", {"Content-Type": "text/html"})
