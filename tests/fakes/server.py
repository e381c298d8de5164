"""Parts of the fake platforms: faults, requests as they arrived, pages, and an HTTP server on localhost."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlencode


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


def serve(answer: Callable[[BaseHTTPRequestHandler, bytes], None]) -> ThreadingHTTPServer:
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

    def __init__(self, *answers: Callable[[BaseHTTPRequestHandler, bytes], None]) -> None:
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

    `violations` has what differs from the platform's description.
    """

    def __init__(self, *answers: Callable[[BaseHTTPRequestHandler, bytes], None]) -> None:
        super().__init__(*answers)
        self.violations: list[str] = []
        self.requests: list[Seen] = []
        self.faults: list[Fault] = []
        self._lock = threading.RLock()

    def fail(self, method: str, path: str, status: int, times: int = 1, **fields: Any) -> None:
        """Answer requests whose path matches the regular expression with `status`."""
        self.faults.append(Fault(method, path, status, times, **fields))

    def count(self, method: str, path: str) -> int:
        """How many requests matched."""
        return sum(seen.method == method and bool(re.search(path, seen.path)) for seen in self.requests)
