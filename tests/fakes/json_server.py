"""A server on localhost that answers with what it is told, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class JsonServer:
    """Gives its answers (status, headers, body) one after the other, the last one again and again.

    The status 0 closes the connection instead. `{self}` in a header is the server's own origin. `hang` waits
    before each answer; `breaks` cuts each connection after its answer, whatever length that states.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = [(200, {}, b"{}")]
        self.asked: list[Asked] = []
        self.hang, self.breaks = 0.0, False
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body leave in one packet: two would wait 40 ms for each other.
            wbufsize = 1 << 16

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                owner.asked.append(Asked(self.command, self.path, dict(self.headers), body))
                time.sleep(owner.hang)
                status, headers, body = owner.answers.pop(0) if len(owner.answers) > 1 else owner.answers[0]
                self.close_connection = self.close_connection or owner.breaks or status == 0
                if status == 0:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value.replace("{self}", owner.origin))
                with suppress(BrokenPipeError, ConnectionResetError):
                    self.end_headers()
                    self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815 - the names http.server looks for

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def requests(self) -> list[Any]:
        """The JSON of each request."""
        return [json.loads(each.body) for each in self.asked]

    @property
    def headers(self) -> list[dict[str, str]]:
        return [each.headers for each in self.asked]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}/agent"

    def __enter__(self) -> JsonServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
