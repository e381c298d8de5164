"""A server on localhost that answers POST requests with what it is told."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JsonServer:
    """Gives its answers (status, headers, body) one after the other, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = [(200, {}, b"{}")]
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.hang = 0.0
        self.breaks = False
        """Whether each connection is cut after the answer, whatever length that states."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body leave in one packet: two would wait 40 ms for each other.
            wbufsize = 1 << 16

            def do_POST(self) -> None:
                owner.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                owner.headers.append(dict(self.headers))
                time.sleep(owner.hang)
                status, headers, body = owner.answers.pop(0) if len(owner.answers) > 1 else owner.answers[0]
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                with suppress(BrokenPipeError, ConnectionResetError):
                    self.end_headers()
                    self.wfile.write(body)
                self.close_connection = self.close_connection or owner.breaks

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/agent"

    def __enter__(self) -> JsonServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
