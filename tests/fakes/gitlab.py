"""A GitLab on localhost: a real HTTP server that keeps pipelines, jobs, artifacts, merge requests and notes.

Every request and every answer is checked against the API's description, also whether the call takes the kind
of token that came; what differs is in `violations`. A note is read as GitLab reads it: a line that begins
with a quick action is obeyed, and the answer is 202. Artifacts are redirected to a second server on another
port, which refuses a request that carries a token.
"""

import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import quote, unquote

from tests.fakes.contract import Contract, Query
from tests.fakes.server import FakePlatform, Reply, error, link_to_next, page_of

TOKEN = "glpat-" + "S3cretToken" * 3
JOB_TOKEN = "glcbt-" + "S3cretJobToken" * 3
PROJECT, FORK = 4242, 6666
WEB = "https://gitlab.example/acme/shop"
ACCOUNT, SOMEONE_ELSE = 31, 99
_EXCLUDED = re.compile(r"^```.+?\n```$|^<!--.+?-->$", re.MULTILINE | re.DOTALL)
"""What GitLab does not search for quick actions: code between fences of exactly three, as it reads them."""
_QUICK_ACTION = re.compile(r"^\s*/[a-z_]+", re.MULTILINE)


class FakeGitLab(FakePlatform):
    """Use as a context manager; `url` is the API's address.

    Args:
        contract: GitLab's description; None checks nothing.
        prefix: Where GitLab lives below its host, with a leading slash; self-managed ones may.
    """

    def __init__(self, contract: Contract | None = None, *, prefix: str = "") -> None:
        super().__init__(contract, f"{prefix}/api/v4", self.storage)
        self.scopes = {"api"}
        self.premium = True
        self.pipelines: dict[int, dict[str, Any]] = {}
        self.jobs: dict[int, dict[str, Any]] = {}
        self.files: dict[int, dict[str, bytes]] = {}
        """Files of the artifacts of a job, by path."""
        self.notes: dict[int, dict[str, Any]] = {}
        self.obeyed: list[str] = []
        """Quick actions that a note contained."""
        self.branches: dict[str, str] = {}
        """Where branches point."""
        self.head = "c" * 40
        self.on_create: Callable[[], None] | None = None

    # What tests prepare

    def add_pipeline(self, number: int, **fields: Any) -> int:
        """A finished pipeline of a push to main, unless `fields` say otherwise."""
        self.pipelines[number] = {
            "id": number, "iid": number, "project_id": PROJECT, "sha": f"{number:040x}", "ref": "main",
            "status": "success", "source": "push", "created_at": "2026-01-12T08:00:00.000Z",
            "updated_at": "2026-01-12T08:05:00.000Z", "web_url": f"{WEB}/-/pipelines/{number}", **fields,
        }  # fmt: skip
        return number

    def add_job(self, pipeline: int, files: dict[str, bytes] | None, **fields: Any) -> int:
        """A finished job `agent-eval` of a pipeline, with the files of its artifacts; None for none."""
        number = 10_000 + 10 * pipeline + len(self.jobs)
        row = self.pipelines[pipeline]
        log = {"file_type": "trace", "size": 9, "filename": "job.log", "file_format": None}
        archive = {"file_type": "archive", "size": 999, "filename": "artifacts.zip", "file_format": "zip"}
        self.jobs[number] = {
            "id": number, "status": "success", "name": "agent-eval", "stage": "test", "ref": row["ref"],
            "tag": False, "allow_failure": False, "created_at": "2026-01-12T08:00:00.000Z",
            "web_url": f"{WEB}/-/jobs/{number}", "pipeline": row,
            "artifacts": [log] if files is None else [archive, log], "artifacts_expire_at": None, **fields,
        }  # fmt: skip
        self.files[number] = files or {}
        return number

    def add_note(self, body: str, *, author: int = ACCOUNT, system: bool = False) -> int:
        """A note on the merge request."""
        number = 700 + len(self.notes)
        times = dict.fromkeys(("created_at", "updated_at"), "2026-01-12T08:00:00.000Z")
        who = {"id": author, "username": f"user{author}", "name": "A user", "state": "active"}
        self.notes[number] = {"id": number, "body": body, "author": who, **times, "system": system}
        return number

    # What tests look at

    def bodies(self) -> list[str]:
        """The notes on the merge request, the oldest first."""
        return [row["body"] for row in self.notes.values()]

    # The servers

    def described(self, path: str) -> str:
        return re.sub(r"(?<=/artifacts/)(.+)", lambda found: quote(found[1], safe="%"), path)

    def problems(self, method: str, path: str, query: Query, body: bytes, credential: str) -> list[str]:
        problems = super().problems(method, path, query, body, credential)
        if self.contract and credential and not self.contract.accepts(method, path, credential):
            problems.append(f"{method} {path} does not take the credential {credential}")
        return problems

    def credential(self, handler: BaseHTTPRequestHandler) -> str:
        if handler.headers.get("PRIVATE-TOKEN") == TOKEN:
            return "private_token"
        return "job_token" if handler.headers.get("JOB-TOKEN") == JOB_TOKEN else ""

    def answer(self, method: str, path: str, query: dict[str, str], value: Any, credential: str) -> Reply:
        if not credential:
            return error(401, "401 Unauthorized")
        if method != "GET" and "api" not in self.scopes:
            return error(403, "insufficient_scope")
        if path == "/user":
            return Reply(200, {"id": ACCOUNT, "username": "bot", "name": "Bot", "state": "active"})
        for wanted, pattern, answer in self._routes():
            found = re.fullmatch(rf"/projects/(?:{PROJECT}|acme%2Fshop){pattern}", path)
            if wanted == method and found:
                if credential == "job_token" and not self.premium and not re.search("notes|branches", path):
                    return error(404, "404 Project Not Found")
                reply: Reply = answer(query, value, *found.groups())
                return reply
        return error(404, "404 Not found")

    def _routes(self) -> list[tuple[str, str, Callable[..., Reply]]]:
        return [
            ("GET", r"/pipelines", self._list_pipelines),
            ("GET", r"/pipelines/(\d+)/jobs", self._jobs_of),
            ("GET", r"/jobs", self._list_jobs),
            ("GET", r"/jobs/(\d+)/artifacts/(.+)", self._artifact),
            ("GET", r"/repository/branches/([^/]+)", self._branch),
            ("GET", r"/merge_requests/7", self._merge_request),
            ("GET", r"/merge_requests/7/notes", self._list_notes),
            ("POST", r"/merge_requests/7/notes", self._create_note),
            ("PUT", r"/merge_requests/7/notes/(\d+)", self._update_note),
            ("DELETE", r"/merge_requests/7/notes/(\d+)", self._delete_note),
        ]

    def _list_pipelines(self, query: dict[str, str], value: Any) -> Reply:
        finished = {"success", "failed", "canceled", "skipped"}
        rows = [
            row
            for row in sorted(self.pipelines.values(), key=lambda row: -int(row["id"]))
            if query.get("sha") in (None, row["sha"])
            and query.get("ref") in (None, row["ref"])
            and (query.get("scope") != "finished" or row["status"] in finished)
        ]
        return Reply(200, page_of(rows, query), self._link(rows, query, "/pipelines"))

    def _jobs_of(self, query: dict[str, str], value: Any, number: str) -> Reply:
        if int(number) not in self.pipelines:
            return error(404, "404 Not found")
        rows = [row for row in self._finished() if row["pipeline"]["id"] == int(number)]
        return Reply(200, page_of(rows, query), self._link(rows, query, f"/pipelines/{number}/jobs"))

    def _list_jobs(self, query: dict[str, str], value: Any) -> Reply:
        rows = self._finished()
        return Reply(200, page_of(rows, query), self._link(rows, query, "/jobs"))

    def _finished(self) -> list[dict[str, Any]]:
        finished = [row for row in self.jobs.values() if row["status"] in ("success", "failed")]
        return sorted(finished, key=lambda row: -int(row["id"]))

    def _artifact(self, query: dict[str, str], value: Any, number: str, path: str) -> Reply:
        if unquote(path) not in self.files.get(int(number), {}):
            return error(404, "404 Not found")
        return Reply(302, b"", {"Location": f"{self._host(1)}/{number}/{path}?sig=SignedQuery"})

    def _branch(self, query: dict[str, str], value: Any, quoted: str) -> Reply:
        name = unquote(quoted)
        if name not in self.branches:
            return error(404, "404 Branch Not Found")
        return Reply(200, {"name": name, "commit": {"id": self.branches[name]}})

    def _merge_request(self, query: dict[str, str], value: Any) -> Reply:
        row = {
            "id": 70, "iid": 7, "project_id": PROJECT, "state": "opened", "source_branch": "topic",
            "target_branch": "main", "source_project_id": PROJECT, "target_project_id": PROJECT,
            "sha": self.head,
        }  # fmt: skip
        return Reply(200, row)

    def _list_notes(self, query: dict[str, str], value: Any) -> Reply:
        rows = [row for row in self.notes.values() if not row["system"]]
        return Reply(200, page_of(rows, query), self._link(rows, query, "/merge_requests/7/notes"))

    def _create_note(self, query: dict[str, str], value: Any) -> Reply:
        if self._obeys(value["body"]):
            return Reply(202, {"commands_changes": {}, "summary": ["Merged."]})
        if self.on_create is not None:
            act, self.on_create = self.on_create, None
            act()
        return Reply(201, self.notes[self.add_note(value["body"])])

    def _update_note(self, query: dict[str, str], value: Any, number: str) -> Reply:
        if int(number) not in self.notes:
            return error(404, "404 Note Not Found")
        if self._obeys(value["body"]):
            del self.notes[int(number)]
            return Reply(202, {"commands_changes": {}, "summary": ["Merged."]})
        self.notes[int(number)]["body"] = value["body"]
        return Reply(200, self.notes[int(number)])

    def _delete_note(self, query: dict[str, str], value: Any, number: str) -> Reply:
        self.notes.pop(int(number), None)
        return Reply(204)

    def _obeys(self, body: str) -> bool:
        found = _QUICK_ACTION.findall(_EXCLUDED.sub("", body))
        self.obeyed += [action.strip() for action in found]
        return bool(found)

    def _link(self, rows: list[Any], query: dict[str, str], place: str) -> dict[str, str]:
        return link_to_next(rows, query, f"{self.url}/projects/{PROJECT}{place}", size=20)

    def stored(self, path: str) -> bytes:
        number, _, path = path.partition("/")
        return self.files[int(number)][path]
