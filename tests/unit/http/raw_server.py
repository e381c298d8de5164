"""A server on localhost that speaks byte by byte: what no polite server sends can be sent too."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

CERTIFICATE = Path(__file__).parent / "certificates" / "localhost.pem"

Talk = Callable[["Peer"], None]


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = b""

    def request(self) -> str:
        """Read one request; its head as text. Empty when there is none."""
        while b"\r\n\r\n" not in self._buffer:
            if not (piece := self.connection.recv(65536)):
                return ""
            self._buffer += piece
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(self._buffer) < length:
            self._buffer += self.connection.recv(65536)
        self._buffer = self._buffer[length:]
        return head.decode("latin-1")

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def answer(self, body: bytes, *fields: str, status: str = "200 OK") -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields, "", ""]
        self.send("\r\n".join(lines).encode("latin-1") + body)

    def encrypt(self) -> None:
        """Go on with TLS, inside what is there already."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection = _Inner(self.connection, context)  # type: ignore[assignment]
        else:
            self.connection = context.wrap_socket(self.connection, server_side=True)


class _Inner:
    """TLS inside TLS, as behind a proxy that is reached by TLS itself."""

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext) -> None:
        self._outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._until_done(self._tls.do_handshake)

    def _until_done(self, step: Callable[..., Any], *arguments: Any) -> Any:
        while True:
            try:
                done = step(*arguments)
            except ssl.SSLWantReadError:
                self._outer.sendall(self._outgoing.read())
                if not (piece := self._outer.recv(65536)):
                    return b""
                self._incoming.write(piece)
            else:
                self._outer.sendall(self._outgoing.read())
                return done

    def recv(self, size: int) -> bytes:
        return bytes(self._until_done(self._tls.read, size))

    def sendall(self, data: bytes) -> None:
        self._until_done(self._tls.write, data)

    def close(self) -> None:
        self._outer.close()


class RawServer:
    """Has every connection talked to as told, in a thread of its own.

    Args:
        talk: Called with each new connection, which is closed when it returns.
        family: Of addresses.
    """

    def __init__(self, talk: Talk, family: socket.AddressFamily = socket.AF_INET) -> None:
        self._talk = talk
        self.connections = 0
        self.problems: list[Exception] = []
        host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        self._listener = socket.create_server((host, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        peer = Peer(connection)
        try:
            self._talk(peer)
        except OSError:
            pass  # the client left
        except Exception as problem:
            self.problems.append(problem)
        finally:
            peer.connection.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> RawServer:
        return self

    def __exit__(self, *_: Any) -> None:
        # A thread that waits in accept does not notice that its socket was closed.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        assert self.problems == []


def in_turn(*answers: Talk) -> Talk:
    """Each request on a connection is answered by the next, the last again and again."""

    def talk(peer: Peer) -> None:
        left = list(answers)
        while peer.request():
            (left.pop(0) if len(left) > 1 else left[0])(peer)

    return talk
