"""An agent behind an address."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from tests.fakes.server import send, serve

Behaviour = Callable[[str, int], Any]
"""By case and number of the request for it, from 1: an answer, or a status with headers and a body."""


class Deployed:
    """Answers as `behave` says, and remembers in `asked` for which cases. A gateway may be before it."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave, self.asked = behave, list[str]()
        self._lock, self._server = threading.Lock(), serve(self._answer)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/ask"

    def _answer(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        case_id = json.loads(data)["case_id"]
        with self._lock:
            self.asked.append(case_id)
            number = self.asked.count(case_id)
        answer = self.behave(case_id, number)
        send(handler, *(answer if isinstance(answer, tuple) else (200, json.dumps(answer).encode(), {})))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
