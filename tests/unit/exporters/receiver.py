"""A collector on this machine that keeps what it is sent, and answers as a test tells it to."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """Every request that was taken, by path; `answers` come first, each for one request."""

    address: str
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)

    def of(self, path: str) -> list[dict[str, Any]]:
        return [body for asked, _, body in self.requests if asked == path]


@contextmanager
def receiver(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[Received]:
    """Serve until the block ends; a status of 400 and above takes nothing."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, fields, text = received.answers.pop(0) if received.answers else (200, {}, b"{}")
            if status < 400:
                assert self.headers["Content-Encoding"] == "gzip"
                value = json.loads(gzip.decompress(body))
                received.requests.append((self.path, dict(self.headers.items()), value))
            self.send_response(status)
            for name, value in {**fields, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Received(f"http://127.0.0.1:{server.server_port}", list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
