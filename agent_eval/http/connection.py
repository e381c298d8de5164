"""requests with limits on the time and size of a whole answer, which it and urllib3 do not have.

Imported with the first request: importing requests takes longer than a hundred requests to an agent.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError as Urllib3Error

from agent_eval.http.errors import BrokenExchange, HttpError, NotConnected

_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables that name certificates; the first that is set counts."""

_MOST_KEPT_CONNECTIONS = 256
_TLS_RECORD = 1 << 14
_PACKED = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


@dataclass(frozen=True)
class Timing:
    """Limits in seconds: to open a connection, between two reads; and when all must have ended."""

    connect: float
    read: float
    end: float

    def remaining(self, at_most: float) -> float:
        """Seconds for the next step. Raises TimeoutError."""
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the exchange took too long")
        return min(seconds, at_most)


_TIMING: ContextVar[Timing] = ContextVar("timing")
"""Limits of this thread's exchange; a kept connection serves many."""


class _Reader(io.RawIOBase):
    """Reading side of a socket: every read has what is left of the exchange's time."""

    def __init__(self, connected: socket.socket, raw: io.RawIOBase) -> None:
        super().__init__()
        self._socket, self._raw = connected, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(_TIMING.get().remaining(_TIMING.get().read))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Reader(sock, self.fp.detach()))


class _Connection(HTTPConnection):
    response_class = _Response

    def connect(self) -> None:
        try:
            super().connect()
        # An invalid host name is a ValueError.
        except (OSError, http.client.HTTPException, Urllib3Error, ValueError) as error:
            refused = type(error) is OSError and "Tunnel" in str(error)
            raise NotConnected("the proxy refuses" if refused else _cause(error)) from error

    def _new_conn(self) -> socket.socket:
        """Open a socket in a thread, abandoned at the limit: the search for an address has none."""
        limits, opening, open_socket = _TIMING.get(), Future[socket.socket](), super()._new_conn
        by_then = Timing(0, 0, time.monotonic() + limits.remaining(limits.connect))

        def work() -> None:
            try:
                opening.set_result(open_socket())
            except BaseException as error:  # raised in the thread that waits
                opening.set_exception(error)

        threading.Thread(target=work, daemon=True, name="http-connect").start()
        try:
            opened = opening.result(by_then.remaining(limits.connect))
            opened.settimeout(by_then.remaining(limits.connect))  # for the TLS handshake
        except BaseException:
            opening.add_done_callback(_discard)
            raise
        return opened

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        for start in range(0, len(data), _TLS_RECORD):  # each is a write of its own
            self.sock.settimeout(_TIMING.get().remaining(_TIMING.get().read))
            super().send(data[start : start + _TLS_RECORD])


def _discard(late: Future[socket.socket]) -> None:
    if late.exception() is None:
        late.result().close()


class _TlsConnection(_Connection, HTTPSConnection):
    pass


class Transport(HTTPAdapter):
    """Kept connections, for any number of threads, by the environment's proxies and certificates.

    An adapter of requests, without its session: that keeps cookies and sends the passwords of `.netrc`.
    """

    def __init__(self) -> None:
        super().__init__(pool_maxsize=_MOST_KEPT_CONNECTIONS)
        self._settings = dict[str, Any]()

    def get_connection_with_tls_context(self, request: Any, *arguments: Any, **options: Any) -> Any:
        """As requests does, with connections that have our limits."""
        try:
            pool: Any = super().get_connection_with_tls_context(request, *arguments, **options)
        except ValueError:
            # Without its address, which may hold a password.
            message = "The environment names a proxy that cannot be used."
            remedy = "Write HTTP_PROXY or HTTPS_PROXY as http://host:port."
            raise HttpError(message, remedy=remedy, method=request.method, url=request.url) from None
        pool.ConnectionCls = _TlsConnection if pool.scheme == "https" else _Connection
        return pool

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """As requests does, for HTTP proxies."""
        if not proxy.lower().startswith("http"):
            raise ValueError("a proxy of another kind has connections without our limits")
        return super().proxy_manager_for(proxy, **options)

    def cert_verify(self, conn: Any, _: str, verify: Any, cert: Any) -> None:
        """As requests does, for a proxy that forwards plain HTTP too."""
        try:
            super().cert_verify(conn, f"{conn.scheme}:", verify, cert)  # type: ignore[no-untyped-call]
        except OSError:
            message = f"There are no certificates at {verify}, which the environment names."
            remedy = f"Correct or remove {' or '.join(name for name in _BUNDLES if os.environ.get(name))}."
            raise HttpError(message, remedy=remedy, method="", url="") from None

    def exchange(
        self, request: PreparedRequest, timing: Timing, max_bytes: int
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request once; return status, header fields by name in lower case, and the decoded body.

        A body larger than `max_bytes` is read no further, and returned longer than that.

        Raises:
            NotConnected: No connection could be opened; nothing was sent.
            BrokenExchange: The request may have been sent.
            HttpError: The environment names a proxy that cannot be used.
        """
        before, response, body = _TIMING.set(timing), None, bytearray()
        url = request.url or ""
        place = url[: url.find("/", len("https://"))]
        if place not in self._settings:  # all that is known of the environment takes as long as a request
            verify = next((os.environ[name] for name in _BUNDLES if os.environ.get(name)), True)
            self._settings[place] = {"proxies": get_environ_proxies(url), "verify": verify}
        try:
            limits = (timing.remaining(timing.connect), timing.read)
            response = self.send(request, stream=True, timeout=limits, **self._settings[place])
            headers = {name.lower(): value for name, value in response.headers.items()}
            for piece in _decoded(response.raw, headers.get("content-encoding", ""), max_bytes + 1):
                body += piece
                if len(body) > max_bytes:
                    break
            else:
                response.raw.release_conn()
        except (OSError, http.client.HTTPException, Urllib3Error, ValueError, zlib.error) as error:
            raise BrokenExchange(_cause(error)) from error
        finally:
            _TIMING.reset(before)
            # After any error, Ctrl-C included, the rest of the data on the connection belongs to no request.
            if response is not None:
                response.close()
        return response.status_code, headers, bytes(body)


def _decoded(raw: Any, encoding: str, cap: int) -> Iterator[bytes]:
    """Yield the body as it arrives, unpacked in pieces of at most `cap` bytes."""
    pieces: Iterator[bytes] = raw.stream(1 << 16, decode_content=False)
    if encoding.strip().lower() not in _PACKED:
        yield from pieces
        return
    unpacker = None
    for piece in pieces:
        packed = piece
        while packed:
            unpacker = unpacker or zlib.decompressobj(_GZIP_OR_ZLIB)
            yield unpacker.decompress(packed, cap)
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed, unpacker = unpacker.unused_data, None  # another gzip member may follow
    if unpacker is not None:
        raise http.client.IncompleteRead(b"")


def _cause(error: BaseException) -> str:
    """Name what happened, which requests and urllib3 wrap several times."""
    inner = [part for part in (error.__cause__, *error.args) if isinstance(part, BaseException)]
    return _cause(inner[0]) if inner else type(error).__name__
