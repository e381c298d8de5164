"""GitHub's artifact service on localhost, and the storage behind it, as `actions/upload-artifact` uses them.

Written from actions/toolkit (MIT), `packages/artifact/src/internal/upload`: JSON over twirp with the names of
the protocol buffers, then one blob to a signed address. Every difference is in `violations`. A finished
artifact is one of the run in `FakeGitHub`, where later jobs find it.
"""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.github import FakeGitHub
from tests.fakes.server import Fault, Served, next_fault, send

SERVICE = "/twirp/github.actions.results.api.v1.ArtifactService"
RUN_BACKEND, JOB_BACKEND = "ce7f54c7-61c7-4aae-887f-30da475f5f1a", "ca395085-040a-526b-2ce8-bdc85f692774"
IDS = {"workflow_run_backend_id": RUN_BACKEND, "workflow_job_run_backend_id": JOB_BACKEND}


def runtime_token(scopes: str = f"Actions.ExampleScope Actions.Results:{RUN_BACKEND}:{JOB_BACKEND}") -> str:
    """A token as the runner gives it: a JWT whose signature nobody here checks."""
    parts = [{"alg": "RS256"}, {"scp": scopes, "sub": "S3cretRuntime"}]
    written = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*written, "S3cretSignature"])


class FakeArtifactService(Served):
    """Use as a context manager.

    Args:
        github: Where finished artifacts are found.
        run_id: The run that the token belongs to.
    """

    def __init__(self, github: FakeGitHub, run_id: int) -> None:
        super().__init__(self._twirp, self._blob)
        self.github, self.run_id = github, run_id
        self.token = runtime_token()
        self.violations: list[str] = []
        self.faults: list[Fault] = []
        self.created: dict[str, bytes | None] = {}

    @property
    def environ(self) -> dict[str, str]:
        """What the runner tells an action."""
        return {"ACTIONS_RUNTIME_TOKEN": self.token, "ACTIONS_RESULTS_URL": f"{self._host(0)}/"}

    def _expect(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.violations.append(what)

    def _twirp(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if fault := next_fault(self.faults, handler.command, handler.path):
            return send(handler, fault.status, json.dumps({"msg": fault.message}).encode(), fault.headers)
        self._expect(handler.headers["Authorization"] == f"Bearer {self.token}", "not authorized")
        self._expect(handler.headers["Content-Type"] == "application/json", "no JSON")
        value = json.loads(body)
        self._expect({name: value.pop(name, None) for name in IDS} == IDS, "other backend ids")
        methods = {f"{SERVICE}/CreateArtifact": self._create, f"{SERVICE}/FinalizeArtifact": self._finalize}
        if handler.command != "POST" or handler.path not in methods:
            self.violations.append(f"{handler.command} {handler.path}")
            return send(handler, 404, b'{"code":"bad_route","msg":"no handler"}', {})
        status, answer = methods[handler.path](value)
        return send(handler, status, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _create(self, value: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = value.get("name", "")
        self._expect(value == {"name": name, "version": 4}, f"CreateArtifact with {value}")
        if name in self.created:
            return 409, {"code": "already_exists", "msg": "an artifact with this name already exists"}
        self.created[name] = None
        return 200, {"ok": True, "signed_upload_url": f"{self._host(1)}/{name}?sig=S3cretSignedQuery"}

    def _finalize(self, value: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        data = self.created.get(value.get("name", ""))
        if data is None:
            return 404, {"code": "not_found", "msg": "artifact not found"}
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        expected = {"name": value["name"], "size": str(len(data)), "hash": digest}
        self._expect(value == expected, f"FinalizeArtifact with {value}")
        number = self.github.add_artifact(self.run_id, data, name=value["name"])
        return 200, {"ok": True, "artifact_id": str(number)}

    def _blob(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if fault := next_fault(self.faults, handler.command, handler.path):
            return send(handler, fault.status, fault.message.encode(), fault.headers)
        path, _, query = handler.path.partition("?")
        self._expect(handler.command == "PUT" and query == "sig=S3cretSignedQuery", handler.path)
        self._expect(handler.headers["x-ms-blob-type"] == "BlockBlob", "no block blob")
        self._expect(handler.headers["Content-Type"] == "application/zip", "no zip")
        self._expect(handler.headers["Authorization"] is None, "the storage was sent credentials")
        self.created[path.removeprefix("/")] = body
        return send(handler, 201, b"", {})
