"""HTTP/1.1 over persistent connections, with limits on the time and size of each answer.

`http.client` speaks the protocol. A request takes a fifth of the processor time that it takes through
requests, which matters where an agent receives hundreds of requests a second while the same machine judges;
see `docs/decisions/http.md`.
"""

from __future__ import annotations

import http.client
import io
import select
import socket
import ssl
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from agent_eval.http.route import Hop, Route

_PIECE = 1 << 16
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})


class NotConnected(Exception):
    """Raised when no connection could be opened. Nothing was sent, so the request may be repeated."""


class BrokenExchange(Exception):
    """Raised when the answer is missing or incomplete; the service may have carried out the request."""


class OverCap(Exception):
    """Raised when the body is larger than allowed.

    Attributes:
        status: HTTP status of the answer.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Timing:
    """Time limits of an exchange, in seconds.

    Args:
        connect: Limit for opening a connection.
        read: Limit between two reads.
        total: Limit for the whole exchange, so that a slow drip of bytes cannot block the caller.

    Example:
        >>> Timing(connect=10, read=60, total=600).total
        600
    """

    connect: float
    read: float
    total: float


@dataclass(frozen=True)
class Response:
    """Response that was read to its end. Header names are in lower case.

    Example:
        >>> Response(200, {"content-type": "application/json"}, b"{}").headers["content-type"]
        'application/json'
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class _Deadline:
    """Time by which an exchange must end."""

    def __init__(self, timing: Timing) -> None:
        self._read = timing.read
        self._end = time.monotonic() + timing.total

    def remaining(self, at_most: float | None = None) -> float:
        """Return the seconds for the next step, by default a read or a write, or raise TimeoutError."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the exchange took too long")
        return min(seconds, self._read if at_most is None else at_most)


class _Wire:
    """Socket whose reads and writes end by the deadline of the exchange."""

    def __init__(self, connected: _Socket) -> None:
        self._socket = connected
        self._close = weakref.finalize(self, connected.close)
        self._unsent: list[bytes] = []
        self.deadline: _Deadline | None = None

    def _limited(self) -> _Socket:
        assert self.deadline is not None
        self._socket.settimeout(self.deadline.remaining())
        return self._socket

    def sendall(self, data: bytes) -> None:
        """Buffer data for `flush`: http.client sends head and body apart, and one packet is faster."""
        self._unsent.append(data)

    def flush(self) -> None:
        """Send the buffered data."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._limited().sendall(data)

    def receive_into(self, buffer: Any) -> int:
        return int(self._limited().recv_into(buffer))

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_WireReader(self))

    def close(self) -> None:
        """Do nothing: http.client closes a connection that it will not reuse before the body is read."""

    def has_ended(self) -> bool:
        """Tell whether the other side closed the connection, or sent data without a request."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def shut(self) -> None:
        """Close the socket; the finalizer does so for a wire that was garbage-collected."""
        self._close()


class _WireReader(io.RawIOBase):
    """Reading side of a wire, as a file."""

    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._wire.receive_into(buffer)


class _Connection(http.client.HTTPConnection):
    """Connection of `http.client` on a wire that is open already."""

    auto_open = 0

    def __init__(self, end: Hop, wire: _Wire) -> None:
        super().__init__(end.host, end.port)
        self.default_port = http.client.HTTPS_PORT if end.scheme == "https" else http.client.HTTP_PORT
        self.wire = wire
        self.sock = wire

    @property
    def is_reusable(self) -> bool:
        """Whether the answer was read to its end and the other side keeps the connection open."""
        return self.sock is not None and not self.wire.has_ended()


class Connections:
    """Pool of open connections to one host, for any number of threads; a thread has a connection to itself.

    Args:
        route: Way to the host.

    Example:
        >>> through_proxy = Route(Hop("http", "api.example", 80), proxy=Hop("http", "proxy.example", 3128))
        >>> Connections(through_proxy).needs_absolute_targets
        True
    """

    def __init__(self, route: Route) -> None:
        self._route = route
        self._idle: list[_Connection] = []
        self._more_headers = route.proxy_headers if self.needs_absolute_targets else {}

    @property
    def needs_absolute_targets(self) -> bool:
        """Whether a proxy carries out the requests, so that each must name the host."""
        return self._route.proxy is not None and not self._route.is_tunnelled

    def exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        max_bytes: int,
        timing: Timing,
    ) -> Response:
        """Send a request and read its answer.

        Args:
            method: HTTP method.
            target: Path and query, percent-encoded.
            headers: Headers to send unchanged.
            body: Body of the request; None for none.
            max_bytes: Cap on the decoded answer.
            timing: Time limits.

        Raises:
            NotConnected: No connection could be opened; nothing was sent.
            BrokenExchange: The request may have been sent.
            OverCap: The answer is larger than `max_bytes`.
        """
        deadline = _Deadline(timing)
        connection = self._idle_connection() or self._new_connection(deadline, timing.connect)
        connection.wire.deadline = deadline
        complete = False
        try:
            answer = _ask(connection, method, target, {**headers, **self._more_headers}, body)
            content = _read(answer, max_bytes)
            complete = True
        except (OSError, http.client.HTTPException, zlib.error) as error:
            raise BrokenExchange(type(error).__name__) from error
        finally:
            # After any error, Ctrl-C included, the rest of the data on the wire belongs to no request.
            if complete and connection.sock is not None:
                self._idle.append(connection)
            else:
                connection.wire.shut()
        return Response(answer.status, _header_fields(answer.getheaders()), content)

    def close(self) -> None:
        """Close the connections that no thread uses."""
        while self._idle:
            self._idle.pop().wire.shut()

    def _idle_connection(self) -> _Connection | None:
        """Take the most recently used connection that is still open; None if there is none."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_reusable:
                return connection
            connection.wire.shut()

    def _new_connection(self, deadline: _Deadline, at_most: float) -> _Connection:
        try:
            seconds = deadline.remaining(at_most)
            return _Connection(self._route.end, _Wire(_in_time(lambda: _open(self._route, seconds), seconds)))
        # An invalid host name is a ValueError.
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotConnected(type(error).__name__) from error


def _ask(
    connection: _Connection, method: str, target: str, headers: Mapping[str, str], body: bytes | None
) -> http.client.HTTPResponse:
    connection.request(method, target, body, headers)
    with suppress(BrokenPipeError):  # a service that refuses the body may have answered nevertheless
        connection.wire.flush()
    return connection.getresponse()


def _read(answer: http.client.HTTPResponse, max_bytes: int) -> bytes:
    content = bytearray()
    for piece in _decoded(answer, max_bytes + 1):
        content += piece
        if len(content) > max_bytes:
            raise OverCap(answer.status)
    answer.close()
    return bytes(content)


def _decoded(answer: http.client.HTTPResponse, cap: int) -> Iterator[bytes]:
    """Yield the body as it arrives; decompress a compressed one in pieces of at most `cap` bytes."""
    encoding = (answer.getheader("content-encoding") or "").strip().lower()
    return _unpacked(_raw(answer), cap) if encoding in _COMPRESSED else _raw(answer)


def _unpacked(pieces: Iterator[bytes], cap: int) -> Iterator[bytes]:
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


def _raw(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := answer.read1(_PIECE):
        yield piece
    if answer.length:  # read1 does not say that the connection ended before the body did
        raise http.client.IncompleteRead(b"", answer.length)


def _header_fields(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Collect header fields by name in lower case; join the values of a repeated field with commas."""
    fields: dict[str, str] = {}
    for name, value in pairs:
        key = name.lower()
        fields[key] = f"{fields[key]}, {value}" if key in fields else value
    return fields


class _Socket(Protocol):
    """Methods that a wire uses of a socket, encrypted or not."""

    def close(self) -> None: ...
    def fileno(self) -> int: ...
    def recv_into(self, buffer: Any, /) -> Any: ...
    def sendall(self, data: bytes, /) -> None: ...
    def settimeout(self, value: float | None, /) -> None: ...


_Outcome = SimpleQueue[_Socket | BaseException]


def _in_time(open_socket: Callable[[], _Socket], seconds: float) -> _Socket:
    """Open a socket in another thread, and abandon the thread at the time limit.

    Name resolution has no time limit of its own.
    """
    outcome: _Outcome = SimpleQueue()
    late = threading.Event()

    def work() -> None:
        try:
            outcome.put(open_socket())
        # It is raised again in the thread that waits.
        except BaseException as error:
            outcome.put(error)
        if late.is_set():
            _discard(outcome)

    threading.Thread(target=work, daemon=True, name="http-connect").start()
    try:
        result = outcome.get(timeout=seconds)
    except Empty:
        late.set()
        _discard(outcome)
        raise TimeoutError("no connection in time") from None
    if isinstance(result, BaseException):
        raise result
    return result


def _discard(outcome: _Outcome) -> None:
    with suppress(Empty):
        result = outcome.get_nowait()
        if not isinstance(result, BaseException):
            result.close()


class ProxyRefusal(OSError):
    """Raised when a proxy refuses to open a tunnel."""


def _open(route: Route, seconds: float) -> _Socket:
    """Open a connection to the end of a route; encrypt it for https."""
    first = route.proxy or route.end
    plain = socket.create_connection((first.host, first.port), seconds)
    opened: socket.socket = plain
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if first.scheme == "https":
            opened = _tls(route).wrap_socket(plain, server_hostname=first.host)
        if not route.is_tunnelled:
            return opened
        _tunnel(opened, route)
        return _encrypted(opened, route)
    except BaseException:
        opened.close()
        raise


def _tls(route: Route) -> ssl.SSLContext:
    assert route.tls is not None
    return route.tls


def _tunnel(opened: socket.socket, route: Route) -> None:
    """Ask a proxy for a tunnel. Raises ProxyRefusal when it refuses."""
    place = route.end.netloc
    fields = {"Host": place, **route.proxy_headers}
    lines = [f"CONNECT {place} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    opened.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    answer = http.client.HTTPResponse(opened, method="CONNECT")
    try:
        answer.begin()
    finally:
        answer.close()
    if answer.status != 200:
        raise ProxyRefusal(answer.status)


def _encrypted(opened: socket.socket, route: Route) -> _Socket:
    if not isinstance(opened, ssl.SSLSocket):
        return _tls(route).wrap_socket(opened, server_hostname=route.end.host)
    from urllib3.util.ssltransport import SSLTransport

    # The connection to the proxy is encrypted too, and the standard library cannot encrypt twice.
    return SSLTransport(opened, _tls(route), route.end.host)
