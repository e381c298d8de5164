"""Let a program call the tools of its attempt while it runs, at an address of this machine."""

from __future__ import annotations

import json
import secrets
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agent_eval.agents.base import ToolFault
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.errors import InvalidInput
from agent_eval.storage.json import Limits, parse

TOOLS_VARIABLE = "AGENT_EVAL_TOOLS"
"""Environment variable in which a program finds the address."""

_LARGEST_CALL = 8 << 20
_HOST = "127.0.0.1"


class ToolAddress:
    """Serves the tools of one attempt on a port that only this machine reaches. A context manager.

    A program posts `{"tool": "lookup", "arguments": {"id": 7}}` and receives `{"output": …, "error": …}`.

    Attributes:
        url: The address, with a path that cannot be guessed.
        failure: What ended the attempt during a call; None if nothing did.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._lock = recorder, threading.Lock()
        self._path = f"/{secrets.token_urlsafe(16)}"
        self._has_ended = False
        self.failure: ToolFault | LimitReached | None = None
        self._server = ThreadingHTTPServer((_HOST, 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._serve, daemon=True, name="tool-address")
        self.url = f"http://{_HOST}:{self._server.server_address[1]}{self._path}"

    def record_with(self, recorder: Recorder) -> None:
        """Record further calls with another recorder, which is that of the next turn."""
        with self._lock:
            self._recorder, self.failure = recorder, None

    def _serve(self) -> None:
        while not self._has_ended:
            self._server.handle_request()

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Answer a request: its HTTP status, and the object that is sent back."""
        if not secrets.compare_digest(path.encode(), self._path.encode()):
            return 404, {"error": "there are no tools at this address"}
        try:
            call = parse(body, source="the call", limits=Limits(wide_integers=True))
        except InvalidInput as error:
            return 400, {"error": error.message}
        tool = call.get("tool") if isinstance(call, dict) else None
        if not isinstance(tool, str):
            return 400, {"error": "the call names no tool"}
        with self._lock:
            return self._call(tool, call.get("arguments", {}))

    def _call(self, tool: str, arguments: Any) -> tuple[int, dict[str, Any]]:
        if self._has_ended or self.failure is not None:
            return 410, {"error": "the attempt is over: no further tools are called"}
        try:
            call_id = self._recorder.record_call(tool, arguments)
            answer = self._recorder.call_tool(tool, arguments, call_id)
        except (ToolFault, LimitReached) as failure:
            self.failure = failure
            return 410, {"error": failure.problem}
        return 200, {"output": answer.output, "error": answer.error}

    def __enter__(self) -> ToolAddress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._has_ended = True
        # Without a request the thread would wait for one for ever.
        with socket.create_connection((_HOST, self._server.server_address[1])):
            self._thread.join()
        self._server.server_close()


def _handler(address: ToolAddress) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 60.0

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isascii() and length.isdigit() else _LARGEST_CALL + 1
            if size > _LARGEST_CALL:
                status, answer = 413, {"error": "the call is too large, or does not state its length"}
            else:
                status, answer = address.answer(self.path, self.rfile.read(size))
            data = json.dumps(answer, ensure_ascii=True).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Print nothing: standard error is that of the command."""

        def handle(self) -> None:
            with suppress(OSError):  # the program may have gone
                super().handle()

    return Handler
