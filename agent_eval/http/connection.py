"""HTTP/1.1 over connections that are kept open, in a given time and up to a given size.

`http.client` speaks the protocol. A request takes a fifth of the processor time that it takes through
requests, which counts where an agent is asked hundreds of times a second beside all the judging; see
`docs/decisions/http.md`.
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
    """No connection was opened, so nothing was sent: trying again does no harm."""


class BrokenExchange(Exception):
    """The answer did not come, or not all of it; what was asked may have been done."""


class OverCap(Exception):
    """The body is larger than allowed.

    Attributes:
        status: HTTP status of the answer.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Timing:
    """Seconds for the parts of an exchange.

    Args:
        connect: To open a connection.
        read: Between two reads.
        total: For all of it, so that a drip of bytes cannot hold the caller.
    """

    connect: float
    read: float
    total: float


@dataclass(frozen=True)
class Response:
    """What came back, read to its end. Field names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class _Deadline:
    """When an exchange has to be over."""

    def __init__(self, timing: Timing) -> None:
        self._read = timing.read
        self._end = time.monotonic() + timing.total

    def left(self, at_most: float | None = None) -> float:
        """Seconds for the next step, by default a read or a write; raises TimeoutError without any."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the exchange took too long")
        return min(seconds, self._read if at_most is None else at_most)


class _Wire:
    """A socket each of whose reads and writes ends by the deadline of the exchange."""

    def __init__(self, connected: _Socket) -> None:
        self._socket = connected
        self._close = weakref.finalize(self, connected.close)
        self._unsent: list[bytes] = []
        self.deadline: _Deadline | None = None

    def _limited(self) -> _Socket:
        assert self.deadline is not None
        self._socket.settimeout(self.deadline.left())
        return self._socket

    def sendall(self, data: bytes) -> None:
        """Keep it for `flush`: head and body of a request come one by one, and leave in one packet."""
        self._unsent.append(data)

    def flush(self) -> None:
        """Send what was kept."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._limited().sendall(data)

    def receive_into(self, buffer: Any) -> int:
        return int(self._limited().recv_into(buffer))

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_WireReader(self))

    def close(self) -> None:
        """Does nothing: http.client closes a connection that will not be kept before its body is read."""

    def has_ended(self) -> bool:
        """Whether the other side has closed it, or sent what was not asked for."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def shut(self) -> None:
        """Close the socket. Done by itself for a wire that is used no more."""
        self._close()


class _WireReader(io.RawIOBase):
    """The reading side of a wire, as a file."""

    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._wire.receive_into(buffer)


class _Connection(http.client.HTTPConnection):
    """`http.client` on a wire that is open already."""

    auto_open = 0

    def __init__(self, end: Hop, wire: _Wire) -> None:
        super().__init__(end.host, end.port)
        self.default_port = http.client.HTTPS_PORT if end.scheme == "https" else http.client.HTTP_PORT
        self.wire = wire
        self.sock = wire

    @property
    def can_be_used_again(self) -> bool:
        """Whether the answer was read to its end and the other side keeps the connection open."""
        return self.sock is not None and not self.wire.has_ended()


class Connections:
    """Open connections to one host, for any number of threads. Each is used by one thread at a time.

    Args:
        route: How the host is reached.
    """

    def __init__(self, route: Route) -> None:
        self._route = route
        self._idle: list[_Connection] = []
        self._more_headers = route.proxy_headers if self.needs_absolute_targets else {}

    @property
    def needs_absolute_targets(self) -> bool:
        """Whether a proxy carries requests out, and so has to be told the host with each."""
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
            headers: Sent as they are.
            body: None without one.
            max_bytes: Of the decoded answer, at most.
            timing: How long it may take.

        Raises:
            NotConnected: Nothing was sent.
            BrokenExchange: Something may have been.
            OverCap: The answer is larger than `max_bytes`.
        """
        deadline = _Deadline(timing)
        connection = self._kept() or self._opened(deadline, timing.connect)
        connection.wire.deadline = deadline
        kept = False
        try:
            answered = _ask(connection, method, target, {**headers, **self._more_headers}, body)
            content = _read(answered, max_bytes)
            kept = True
        except (OSError, http.client.HTTPException, zlib.error) as error:
            raise BrokenExchange(type(error).__name__) from error
        finally:
            # After anything else, Ctrl-C included, what is left on the wire belongs to no request.
            if kept and connection.sock is not None:
                self._idle.append(connection)
            else:
                connection.wire.shut()
        return Response(answered.status, _joined(answered.getheaders()), content)

    def close(self) -> None:
        """Close what is open and not in use."""
        while self._idle:
            self._idle.pop().wire.shut()

    def _kept(self) -> _Connection | None:
        """The connection used last that is still open."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.can_be_used_again:
                return connection
            connection.wire.shut()

    def _opened(self, deadline: _Deadline, at_most: float) -> _Connection:
        try:
            seconds = deadline.left(at_most)
            return _Connection(self._route.end, _Wire(_in_time(lambda: _open(self._route, seconds), seconds)))
        # A host that is no name is a ValueError.
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotConnected(type(error).__name__) from error


def _ask(
    connection: _Connection, method: str, target: str, headers: Mapping[str, str], body: bytes | None
) -> http.client.HTTPResponse:
    connection.request(method, target, body, headers)
    with suppress(BrokenPipeError):  # one that does not want the whole request may have answered all the same
        connection.wire.flush()
    return connection.getresponse()


def _read(answered: http.client.HTTPResponse, max_bytes: int) -> bytes:
    content = bytearray()
    for piece in _decoded(answered, max_bytes + 1):
        content += piece
        if len(content) > max_bytes:
            raise OverCap(answered.status)
    answered.close()
    return bytes(content)


def _decoded(answered: http.client.HTTPResponse, cap: int) -> Iterator[bytes]:
    """The body as it arrives, unpacked, in pieces of at most `cap` bytes where it was packed."""
    encoding = (answered.getheader("content-encoding") or "").strip().lower()
    return _unpacked(_raw(answered), cap) if encoding in _COMPRESSED else _raw(answered)


def _unpacked(pieces: Iterator[bytes], cap: int) -> Iterator[bytes]:
    unpacker = None
    for piece in pieces:
        packed = piece
        while packed:
            unpacker = unpacker or zlib.decompressobj(_GZIP_OR_ZLIB)
            yield unpacker.decompress(packed, cap)
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed, unpacker = unpacker.unused_data, None  # gzip may go on with another member
    if unpacker is not None:
        raise http.client.IncompleteRead(b"")


def _raw(answered: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := answered.read1(_PIECE):
        yield piece
    if answered.length:  # read1 does not say that the connection ended before the body did
        raise http.client.IncompleteRead(b"", answered.length)


def _joined(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Fields by name in lower case; what is said several times is a list."""
    fields: dict[str, str] = {}
    for name, value in pairs:
        key = name.lower()
        fields[key] = f"{fields[key]}, {value}" if key in fields else value
    return fields


class _Socket(Protocol):
    """What is used of a socket, encrypted or not."""

    def close(self) -> None: ...
    def fileno(self) -> int: ...
    def recv_into(self, buffer: Any, /) -> Any: ...
    def sendall(self, data: bytes, /) -> None: ...
    def settimeout(self, value: float | None, /) -> None: ...


_Outcome = SimpleQueue[_Socket | BaseException]


def _in_time(open_socket: Callable[[], _Socket], seconds: float) -> _Socket:
    """Call in a thread of its own, which is left behind when it takes too long: the search for a name's
    address knows of no time limit.
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
        found = outcome.get(timeout=seconds)
    except Empty:
        late.set()
        _discard(outcome)
        raise TimeoutError("no connection in time") from None
    if isinstance(found, BaseException):
        raise found
    return found


def _discard(outcome: _Outcome) -> None:
    with suppress(Empty):
        found = outcome.get_nowait()
        if not isinstance(found, BaseException):
            found.close()


class ProxyRefusal(OSError):
    """A proxy does not let it through."""


def _open(route: Route, seconds: float) -> _Socket:
    """A connection to the end of a route, encrypted where it shall be."""
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
    """Have a proxy pass on what comes. Raises ProxyRefusal when it does not."""
    place = route.end.netloc
    fields = {"Host": place, **route.proxy_headers}
    lines = [f"CONNECT {place} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    opened.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    answered = http.client.HTTPResponse(opened, method="CONNECT")
    try:
        answered.begin()
    finally:
        answered.close()
    if answered.status != 200:
        raise ProxyRefusal(answered.status)


def _encrypted(opened: socket.socket, route: Route) -> _Socket:
    if not isinstance(opened, ssl.SSLSocket):
        return _tls(route).wrap_socket(opened, server_hostname=route.end.host)
    from urllib3.util.ssltransport import SSLTransport

    # The way to the proxy is encrypted as well, and the standard library cannot do that twice.
    return SSLTransport(opened, _tls(route), route.end.host)
