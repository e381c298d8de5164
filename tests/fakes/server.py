"""Parts of the fake platforms: faults, requests as they arrived, pages, and an HTTP server on localhost."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
