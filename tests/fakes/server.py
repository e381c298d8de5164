"""Parts of the fake platforms: faults, requests as they arrived, pages, and an HTTP server on localhost."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

if TYPE_CHECKING:
    # The environments of frameworks do not have its packages.
    from tests.fakes.contract import Contract, Query

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]
CREDENTIALS = ("Authorization", "PRIVATE-TOKEN", "JOB-TOKEN", "Circle-Token")


@dataclass
class Fault:
    """An answer that comes instead of the right one, `times` times.

    `carried_out`: after doing the work. `cut`: only half of the right answer comes. `silent`: none comes.
    """

    method: str
    path: str
    status: int
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "fault"
    carried_out: bool = False
    cut: bool = False
    silent: bool = False


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    authorized: bool
    body: Any


@dataclass
class Reply:
    """An answer before it is sent."""

    status: int
    value: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    fault: Fault | None = None


def next_fault(faults: list[Fault], method: str, path: str) -> Fault | None:
    for fault in faults:
        if fault.times > 0 and fault.method == method and re.search(fault.path, path):
            fault.times -= 1
            return fault
    return None


def page_of(rows: list[Any], query: dict[str, str]) -> list[Any]:
    size, page = int(query.get("per_page", "30")), int(query.get("page", "1"))
    return rows[(page - 1) * size : page * size]


def link_to_next(rows: list[Any], query: dict[str, str], address: str, *, size: int) -> dict[str, str]:
    """The header of a page that another one follows; `size` is that of a page unless the query says so."""
    size, page = int(query.get("per_page", size)), int(query.get("page", "1"))
    if page * size >= len(rows):
        return {}
    following = urlencode({**query, "per_page": size, "page": page + 1})
    return {"Link": f'<{address}?{following}>; rel="next"'}


def error(status: int, message: str, headers: dict[str, str] | None = None) -> Reply:
    return Reply(status, {"message": message}, headers or {})


def send(
    handler: BaseHTTPRequestHandler,
    status: int,
    data: bytes,
    headers: dict[str, str],
    *,
    announced: int | None = None,
) -> None:
    try:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data) if announced is None else announced))
        handler.end_headers()
        handler.wfile.write(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def serve(answer: Answer) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or head and body, in two packets, wait 40 ms for each other

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client may have gone
                super().handle()

        def _handle(self) -> None:
            answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _handle  # noqa: N815 - the names http.server looks for

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


class Served:
    """Servers on localhost, one for each way to answer, for as long as the context manager is open."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = answers
        self._servers: list[ThreadingHTTPServer] = []

    def _host(self, number: int = 0) -> str:
        """The address of a server."""
        return f"http://127.0.0.1:{self._servers[number].server_address[1]}"

    def _start(self) -> None:
        self._servers = self._servers or [serve(answer) for answer in self._answers]

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


class FakePlatform(Served):
    """The API of a platform: it remembers its requests, and answers some with a fault.

    Args:
        contract: The platform's description, to check against; None checks nothing.
        below: Path of the API on its host.
        answers: How the servers beside the API answer.

    Attributes:
        violations: What differs from the description.
    """

    def __init__(self, contract: Contract | None, below: str, *answers: Answer) -> None:
        super().__init__(self._request, *answers)
        self.contract, self.below = contract, below
        self.violations: list[str] = []
        self.requests: list[Seen] = []
        self.faults: list[Fault] = []
        self._lock = threading.RLock()

    @property
    def url(self) -> str:
        return f"{self._host(0)}{self.below}"

    def fail(self, method: str, path: str, status: int, times: int = 1, **fields: Any) -> None:
        """Answer requests whose path matches the regular expression with `status`."""
        self.faults.append(Fault(method, path, status, times, **fields))

    def count(self, method: str, path: str) -> int:
        """How many requests matched."""
        return sum(seen.method == method and bool(re.search(path, seen.path)) for seen in self.requests)

    # What a platform says

    error = staticmethod(error)

    def credential(self, handler: BaseHTTPRequestHandler) -> str:
        """The kind of credential that came; empty for none, or a wrong one."""
        raise NotImplementedError

    def answer(self, method: str, path: str, query: dict[str, str], value: Any, credential: str) -> Reply:
        raise NotImplementedError

    def described(self, path: str) -> str:
        """A path as the description has it."""
        return path

    def is_described(self, path: str, reply: Reply) -> bool:
        """Whether the description has such an answer."""
        return not isinstance(reply.value, bytes)

    def stored(self, path: str) -> bytes:
        """What the storage, a server on another port, has at a path."""
        raise NotImplementedError

    # The servers

    def storage(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Give what is stored to requests that have the signature, and no token."""
        parts = urlsplit(handler.path)
        carried = [name for name in CREDENTIALS if name in handler.headers]
        if carried or "sig=SignedQuery" not in parts.query:
            self.violations.append(f"the storage was sent {carried or 'no signature'}")
            return send(handler, 400, b"", {})
        return send(handler, 200, self.stored(unquote(parts.path.strip("/"))), {})

    def _request(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        parts, method = urlsplit(handler.path), handler.command
        query = parse_qsl(parts.query, keep_blank_values=True)
        path = parts.path.removeprefix(self.below)
        credential, described = self.credential(handler), self.described(path)
        with self._lock:
            value = json.loads(body) if body else None
            self.requests.append(Seen(method, path, dict(query), bool(credential), value))
            problems = self.problems(method, described, query, body, credential)
            self.violations += problems
            reply = self.error(422, "not what the description says")
            if not problems:
                reply = self._faulty(method, path, dict(query), value, credential)
            data = reply.value if isinstance(reply.value, bytes) else json.dumps(reply.value).encode()
            data = b"" if reply.value is None else data
            if self.contract is not None and not problems and self.is_described(path, reply):
                self.violations += self.contract.answer_problems(
                    method, described, reply.status, data or b"{}", reply.headers
                )
        headers = {"Content-Type": "application/json; charset=utf-8", **reply.headers}
        self.send(handler, Reply(reply.status, data, headers, reply.fault))

    def problems(self, method: str, path: str, query: Query, body: bytes, credential: str) -> list[str]:
        """What the description has against a request."""
        return self.contract.request_problems(method, path, query, body) if self.contract else []

    def send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        send(handler, reply.status, reply.value, reply.headers)

    def _faulty(self, method: str, path: str, query: dict[str, str], value: Any, credential: str) -> Reply:
        fault = next_fault(self.faults, method, path)
        if fault is None:
            return self.answer(method, path, query, value, credential)
        if fault.cut or fault.silent:
            reply = self.answer(method, path, query, value, credential)
            reply.fault = fault
            return reply
        if fault.carried_out:
            self.answer(method, path, query, value, credential)
        return self.error(fault.status, fault.message, fault.headers)
