"""A host of git repositories on localhost, over HTTP, with git's own backend, and the API of its LFS."""

import hashlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
GIT = ("git", *WHO, "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")


def git(top: Path, *arguments: str) -> str:
    environ = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(
        [*GIT, *arguments], cwd=top, check=True, capture_output=True, text=True, env=environ
    )
    return done.stdout.strip()


def commit(top: Path, **files: str) -> str:
    """Commit all that is there, and files by name, and return the commit."""
    top.mkdir(parents=True, exist_ok=True)
    if not (top / ".git").exists():
        git(top, "init", "--quiet")
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--allow-empty", "-m", "work")
    return git(top, "rev-parse", "HEAD")


def keep_lfs(top: Path, content: bytes, *, named: bytes | None = None) -> None:
    """Let a checkout keep an object of LFS, under the digest of another perhaps."""
    oid = hashlib.sha256(content if named is None else named).hexdigest()
    place = top / ".git" / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
    place.parent.mkdir(parents=True)
    place.write_bytes(content)


def pointer(content: bytes) -> str:
    """The pointer that stands for a file of LFS in git."""
    oid = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n"


@dataclass
class GitHost:
    """Serves the repositories below `root`; with a `token`, only to who sends it.

    `seen` has method, path and Authorization of every request; `objects` the files of LFS by their digest.
    With `moved_to`, the address of another host, it redirects everything there.
    """

    root: Path
    token: str = ""
    url: str = ""
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    moved_to: str = ""

    def add(self, name: str, work: Path) -> str:
        """Publish what a repository has now, and return its address."""
        bare = self.root / name
        if not bare.exists():
            git(self.root, "init", "--quiet", "--bare", str(bare))
            git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
            git(bare, "config", "uploadpack.allowFilter", "true")
        git(work, "push", "--quiet", "--force", str(bare), "HEAD:refs/heads/main")
        return f"{self.url}/{name}"

    def keep(self, content: bytes) -> None:
        self.objects[hashlib.sha256(content).hexdigest()] = content

    @property
    def header(self) -> str:
        return f"Authorization: Bearer {self.token}"


class _Handler(BaseHTTPRequestHandler):
    host: GitHost
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        sent = self.headers.get("Authorization")
        self.host.seen.append((self.command, self.path, sent))
        if self.host.moved_to:
            self._send(302, b"", {"Location": f"{self.host.moved_to}{self.path}"})
        elif self.host.token and f"Authorization: {sent}" != self.host.header:
            self._send(401, b"", {"WWW-Authenticate": "Basic"})
        elif self.path.endswith("/info/lfs/objects/batch"):
            self._lfs(json.loads(body))
        elif "/lfs-object/" in self.path:
            self._send(200, self.host.objects[self.path.rpartition("/")[2]], {})
        else:
            self._git(body)

    def _lfs(self, asked: dict[str, list[dict[str, str]]]) -> None:
        rows = []
        for row in asked["objects"]:
            found = row["oid"] in self.host.objects
            address = {"href": f"{self.host.url}/lfs-object/{row['oid']}"}
            rows.append({**row, "actions": {"download": address}} if found else {**row, "error": {}})
        kind = {"Content-Type": "application/vnd.git-lfs+json"}
        self._send(200, json.dumps({"objects": rows}).encode(), kind)

    def _git(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        environ = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.host.root), "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }  # fmt: skip
        if environ["HTTP_GIT_PROTOCOL"]:
            environ["GIT_PROTOCOL"] = environ["HTTP_GIT_PROTOCOL"]
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environ)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self._send(int(headers.pop("Status", "200").split()[0]), answer, headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(root: Path, token: str = "") -> Iterator[GitHost]:
    root.mkdir()
    host = GitHost(root, token)

    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"host": host}))
    host.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
