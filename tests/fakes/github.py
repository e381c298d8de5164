"""A GitHub on localhost: a real HTTP server that keeps runs, artifacts, pull requests and comments.

It answers with GitHub's own example objects (`github_shapes.json`, from GitHub's OpenAPI description, MIT),
with the fields that matter filled in. Given a `Contract`, it checks every request and every answer against
that description; what differs is in `violations`. Artifacts are served by a second server on another
port, which, like GitHub's storage, refuses a request that carries the token.
"""

import copy
import hashlib
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.commits import sha, tip_of
from tests.fakes.contract import Contract, Query
from tests.fakes.server import FakePlatform, Fault, Reply, Seen, link_to_next, next_fault, page_of, send

TOKEN = "ghs_" + "S3cretToken" * 3
BOT = "github-actions[bot]"
REPOSITORY = "acme/shop"
REPOSITORY_ID = 4242
FORK_ID = 6666
FORK_OWNER = "mallory"
WORKFLOW_ID = 77
ALL_PERMISSIONS = frozenset({"contents: read", "actions: read", "pull-requests: write"})
_SHAPES: dict[str, Any] = json.loads(Path(__file__).with_name("github_shapes.json").read_text())


class FakeGitHub(FakePlatform):
    """Use as a context manager; `url` is the API's address.

    Args:
        contract: GitHub's description, to check against; None checks nothing.
        prefix: Where the API lives below the host; `/api/v3` on GitHub Enterprise Server.
    """

    def __init__(self, contract: Contract | None = None, *, prefix: str = "") -> None:
        super().__init__(contract, prefix, self._storage_request)
        self.downloads: list[Seen] = []
        self.storage_faults: list[Fault] = []
        self.permissions = set(ALL_PERMISSIONS)
        self.viewer: str | None = BOT
        self.runs: dict[int, dict[str, Any]] = {}
        self.artifacts: dict[int, tuple[int, dict[str, Any], bytes]] = {}
        self.comments: dict[int, tuple[int, dict[str, Any]]] = {}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        """Files on the base branch, by path."""
        self.branches: dict[str, str] = {}
        """Where branches point; main, unless it is named here, has `files` at its tip."""
        self.on_create: Callable[[], None] | None = None
        self.raw: bytes | None = None
        """What is answered to everything, with 200, as a proxy's login page is."""
        self.empty_lists = False
        """Whether lists of runs and artifacts come without their rows."""
        self.ignores_heads = False
        """Whether pull requests are listed whatever head is asked for, as GitHub does with an unknown one."""
        self._closing = threading.Event()

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        super().__exit__()

    @property
    def storage_url(self) -> str:
        return self._host(1)

    # What tests prepare

    def add_run(self, run_id: int, *, fork: bool = False, **fields: Any) -> int:
        """A finished push run on main, unless `fields` say otherwise."""
        run = copy.deepcopy(_SHAPES["workflow_run"])
        run |= {
            "id": run_id, "workflow_id": WORKFLOW_ID, "event": "push", "status": "completed",
            "conclusion": "success", "head_branch": "main", "head_sha": sha(f"commit {run_id}"),
            "run_number": run_id, "created_at": "2026-01-12T08:00:00Z",
            "html_url": f"https://github.com/{REPOSITORY}/actions/runs/{run_id}", **fields,
        }  # fmt: skip
        run["repository"]["id"] = REPOSITORY_ID
        run["head_repository"]["id"] = FORK_ID if fork else REPOSITORY_ID
        run["head_repository"]["owner"]["login"] = FORK_OWNER if fork else REPOSITORY.split("/")[0]
        self.runs[run_id] = run
        return run_id

    def add_artifact(
        self,
        run_id: int,
        data: bytes,
        *,
        name: str = "agent-eval-evidence",
        expired: bool = False,
        digest: str | None = None,
        size: int | None = None,
    ) -> int:
        """An artifact of a run; its digest is right unless given."""
        artifact_id = 9000 + len(self.artifacts)
        run = self.runs[run_id]
        row = copy.deepcopy(_SHAPES["artifact"]) | {
            "id": artifact_id, "name": name, "size_in_bytes": len(data) if size is None else size,
            "expired": expired, "digest": digest or f"sha256:{hashlib.sha256(data).hexdigest()}",
            "workflow_run": {
                "id": run_id, "repository_id": REPOSITORY_ID,
                "head_repository_id": run["head_repository"]["id"], "head_branch": run["head_branch"],
                "head_sha": run["head_sha"],
            },
        }  # fmt: skip
        self.artifacts[artifact_id] = (run_id, row, data)
        return artifact_id

    def add_comment(self, number: int, body: str, *, author: str = BOT) -> int:
        """A comment on a pull request."""
        comment_id = 100 + len(self.comments)
        row = copy.deepcopy(_SHAPES["issue_comment"])
        row |= {
            "id": comment_id,
            "body": body,
            "html_url": f"https://github.com/{REPOSITORY}/pull/{number}#issuecomment-{comment_id}",
        }
        row["user"]["login"] = author
        self.comments[comment_id] = (number, row)
        return comment_id

    def add_pull(
        self, number: int, head_sha: str, *, fork: bool = False, branch: str = "topic", **fields: Any
    ) -> int:
        """An open pull request into main, unless `fields` say otherwise."""
        row = copy.deepcopy(_SHAPES["pull_request"]) | {"number": number, "state": "open", **fields}
        row["head"] |= {"sha": head_sha, "ref": branch}
        row["base"] |= {"sha": sha("tip"), "ref": "main"}
        row["head"]["repo"] |= {"id": FORK_ID if fork else REPOSITORY_ID}
        row["base"]["repo"] |= {"id": REPOSITORY_ID}
        row["head"]["repo"]["owner"]["login"] = FORK_OWNER if fork else REPOSITORY.split("/")[0]
        self.pulls[number] = row
        return number

    def fail_storage(self, status: int = 200, times: int = 1, *, artifact: int = 0, **fields: Any) -> None:
        """As `fail`, for downloads of an artifact, or of any, from the storage."""
        path = f"/blob/{artifact or ''}"
        self.storage_faults.append(Fault("GET", path, status, times, **fields))

    # What tests look at

    def bodies(self, number: int) -> list[str]:
        """The comments on a pull request, the oldest first."""
        return [row["body"] for owner, row in self.comments.values() if owner == number]

    # The servers

    error = staticmethod(lambda status, message, headers=None: _error(status, message, headers))

    def credential(self, handler: BaseHTTPRequestHandler) -> str:
        return "token" if handler.headers.get("Authorization") == f"Bearer {TOKEN}" else ""

    def problems(self, method: str, path: str, query: Query, body: bytes, credential: str) -> list[str]:
        return [] if path == "/user" else super().problems(method, path, query, body, credential)

    def is_described(self, path: str, reply: Reply) -> bool:
        return path != "/user" and self.raw is None

    def send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        data = reply.value
        if reply.fault is not None and reply.fault.silent:
            self._closing.wait(30)
            handler.close_connection = True
        elif reply.fault is not None and reply.fault.cut:
            send(handler, 200, data[: len(data) // 2], reply.headers, announced=len(data))
            handler.close_connection = True
        else:
            send(handler, reply.status, data, reply.headers)

    def answer(self, method: str, path: str, query: dict[str, str], value: Any, credential: str) -> Reply:
        if self.raw is not None:
            return Reply(200, self.raw)
        if not credential:
            return _error(401, "Bad credentials")
        if path == "/user":
            return _not_accessible() if self.viewer is None else Reply(200, {"login": self.viewer})
        if not path.startswith(f"/repos/{REPOSITORY}"):
            return _error(404, "Not Found")
        place = path.removeprefix(f"/repos/{REPOSITORY}")
        for wanted, pattern, answer in self._routes():
            found = re.fullmatch(pattern, place)
            if wanted == method and found:
                reply: Reply = answer(query, value, *found.groups())
                return reply
        return _error(404, "Not Found")

    def _routes(self) -> list[tuple[str, str, Callable[..., Reply]]]:
        return [
            ("GET", r"", self._repository),
            ("GET", r"/actions/runs/(\d+)", self._run),
            ("GET", r"/actions/workflows/([^/]+)/runs", self._workflow_runs),
            ("GET", r"/actions/runs/(\d+)/artifacts", self._run_artifacts),
            ("GET", r"/actions/artifacts/(\d+)/zip", self._artifact_zip),
            ("GET", r"/commits/(.+)", self._commit),
            ("GET", r"/pulls", self._list_pulls),
            ("GET", r"/pulls/(\d+)", self._pull),
            ("GET", r"/issues/(\d+)/comments", self._list_comments),
            ("POST", r"/issues/(\d+)/comments", self._create_comment),
            ("PATCH", r"/issues/comments/(\d+)", self._update_comment),
            ("DELETE", r"/issues/comments/(\d+)", self._delete_comment),
        ]

    def _repository(self, query: dict[str, str], value: Any) -> Reply:
        # GitHub's own example lacks the language that GitHub's own schema requires.
        own = {"id": REPOSITORY_ID, "default_branch": "main", "language": "Python"}
        return Reply(200, _SHAPES["repository"] | own)

    def _run(self, query: dict[str, str], value: Any, run_id: str) -> Reply:
        if "actions: read" not in self.permissions:
            return _not_accessible()
        run = self.runs.get(int(run_id))
        return Reply(200, run) if run else _error(404, "Not Found")

    def _workflow_runs(self, query: dict[str, str], value: Any, workflow: str) -> Reply:
        if "actions: read" not in self.permissions:
            return _not_accessible()
        if workflow not in (str(WORKFLOW_ID), "nightly.yml"):
            return _error(404, "Not Found")
        wanted = {name: query.get(name) for name in ("head_sha", "event", "status")}
        wanted["head_branch"] = query.get("branch")
        found = [
            run
            for run in sorted(self.runs.values(), key=lambda run: -int(run["id"]))
            if all(value is None or run[name] == value for name, value in wanted.items())
        ]
        page = [] if self.empty_lists else page_of(found, query)
        return Reply(200, {"total_count": len(found), "workflow_runs": page})

    def _run_artifacts(self, query: dict[str, str], value: Any, run_id: str) -> Reply:
        found = [
            row
            for owner, row, _ in self.artifacts.values()
            if owner == int(run_id) and query.get("name") in (None, row["name"])
        ]
        page = [] if self.empty_lists else page_of(found, query)
        headers = self._link(found, query, f"/actions/runs/{run_id}/artifacts")
        return Reply(200, {"total_count": len(found), "artifacts": page}, headers)

    def _artifact_zip(self, query: dict[str, str], value: Any, artifact_id: str) -> Reply:
        if int(artifact_id) not in self.artifacts:
            return _error(404, "Not Found")
        if self.artifacts[int(artifact_id)][1]["expired"]:
            return _error(410, "Artifact has expired")
        return Reply(302, headers={"Location": f"{self.storage_url}/blob/{artifact_id}?sig=SignedQuery"})

    def _commit(self, query: dict[str, str], value: Any, quoted: str) -> Reply:
        if "contents: read" not in self.permissions:
            return _not_accessible()
        branches = {"main": tip_of(self.files), **self.branches}
        commit = branches.get(unquote(quoted).removeprefix("heads/"))
        if commit is None:
            return _error(422, f"No commit found for SHA: {unquote(quoted)}")
        return Reply(200, {**_SHAPES["commit"], "sha": commit})

    def _pull(self, query: dict[str, str], value: Any, number: str) -> Reply:
        row = self.pulls.get(int(number))
        return Reply(200, row) if row else _error(404, "Not Found")

    def _list_pulls(self, query: dict[str, str], value: Any) -> Reply:
        def is_wanted(row: dict[str, Any]) -> bool:
            head = f"{row['head']['repo']['owner']['login']}:{row['head']['ref']}"
            return row["state"] == query["state"] and (self.ignores_heads or head == query["head"])

        return Reply(200, page_of([row for row in self.pulls.values() if is_wanted(row)], query))

    def _list_comments(self, query: dict[str, str], value: Any, number: str) -> Reply:
        found = [row for owner, row in self.comments.values() if owner == int(number)]
        return Reply(200, page_of(found, query), self._link(found, query, f"/issues/{number}/comments"))

    def _link(self, found: list[Any], query: dict[str, str], place: str) -> dict[str, str]:
        links = link_to_next(found, query, f"{self.url}/repos/{REPOSITORY}{place}", size=30)
        return {name: f'{link}, <{self.url}/last>; rel="last"' for name, link in links.items()}

    def _create_comment(self, query: dict[str, str], value: Any, number: str) -> Reply:
        refused = self._refuses_body(value)
        if refused:
            return refused
        if self.on_create is not None:
            act, self.on_create = self.on_create, None
            act()
        comment_id = self.add_comment(int(number), value["body"], author=self.viewer or BOT)
        return Reply(201, self.comments[comment_id][1])

    def _update_comment(self, query: dict[str, str], value: Any, comment_id: str) -> Reply:
        refused = self._refuses_body(value)
        if refused:
            return refused
        if int(comment_id) not in self.comments:
            return _error(404, "Not Found")
        row = self.comments[int(comment_id)][1]
        row["body"] = value["body"]
        return Reply(200, row)

    def _delete_comment(self, query: dict[str, str], value: Any, comment_id: str) -> Reply:
        self.comments.pop(int(comment_id), None)
        return Reply(204)

    def _refuses_body(self, value: Any) -> Reply | None:
        if "pull-requests: write" not in self.permissions:
            return _not_accessible()
        if len(value["body"]) > 65_536:
            return _error(422, "Validation Failed: body is too long (maximum is 65536 characters)")
        return None

    def _storage_request(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        parts = urlsplit(handler.path)
        authorized = handler.headers.get("Authorization") is not None
        with self._lock:
            self.downloads.append(
                Seen(handler.command, parts.path, dict(parse_qsl(parts.query)), authorized, None)
            )
        if authorized or "sig=SignedQuery" not in parts.query:
            self.violations.append("the storage was sent credentials, or lost the signature")
            return send(handler, 400, b"", {})
        data = self.artifacts[int(parts.path.rpartition("/")[2])][2]
        with self._lock:
            fault = next_fault(self.storage_faults, handler.command, parts.path)
        if fault is not None and not (fault.cut or fault.silent):
            return send(handler, fault.status, fault.message.encode(), fault.headers)
        return self.send(handler, Reply(200, data, {"Content-Type": "application/zip"}, fault))


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Reply:
    more = {"documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return Reply(status, {"message": message, **more}, headers or {})


def _not_accessible() -> Reply:
    return _error(403, "Resource not accessible by integration")
