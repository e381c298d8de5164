"""A server on localhost that answers with what it is told, and remembers what it was asked."""

import json
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.server import Served


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class JsonServer(Served):
    """Gives its answers (status, headers, body) one after the other, the last one again and again.

    The status 0 closes the connection instead. `{self}` in a header is the server's own origin. `hang` waits
    before each answer; `breaks` cuts each connection after its answer, whatever length that states.
    """

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.answers: list[tuple[int, dict[str, str], bytes]] = [(200, {}, b"{}")]
        self.asked: list[Asked] = []
        self.hang, self.breaks = 0.0, False
        self._start()

    def _answer(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        self.asked.append(Asked(handler.command, handler.path, dict(handler.headers), data))
        time.sleep(self.hang)
        status, headers, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        handler.close_connection = handler.close_connection or self.breaks or status == 0
        if status == 0:
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value.replace("{self}", self.origin))
        with suppress(BrokenPipeError, ConnectionResetError):
            handler.end_headers()
            handler.wfile.write(body)

    @property
    def requests(self) -> list[Any]:
        """The JSON of each request."""
        return [json.loads(each.body) for each in self.asked]

    @property
    def headers(self) -> list[dict[str, str]]:
        return [each.headers for each in self.asked]

    @property
    def origin(self) -> str:
        return self._host()

    @property
    def url(self) -> str:
        return f"{self.origin}/agent"
