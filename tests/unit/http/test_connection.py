"""The session over connections that behave well, badly and strangely."""

from __future__ import annotations

import gzip
import random
import socket
import subprocess
import sys
import threading
import time
import zlib
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import UsageError
from agent_eval.http import connection
from agent_eval.http.client import Session
from agent_eval.http.errors import AnswerTooLarge, HttpError, UncertainOutcome, Unreachable
from agent_eval.http.retry import Patience
from tests.unit.http.raw_server import CERTIFICATE, Peer, RawServer, Talk, in_turn

SECRET = "proxy-password-of-ours"
NAME_HASH = "ce275665.0"
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    proxies = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    for name in (*proxies, *map(str.upper, proxies), *BUNDLES):
        monkeypatch.delenv(name, raising=False)


def session_to(url: str, **patience: Any) -> Session:
    return Session(
        url, plain_http=True, patience=Patience(**{"attempts": 1, **patience}), sleep=lambda _: None
    )


def get(server: RawServer, **options: Any) -> Any:
    return session_to(server.url).request("GET", "/x", **options)


def encrypted(talk: Talk) -> Talk:
    def encrypted_talk(peer: Peer) -> None:
        peer.encrypt()
        talk(peer)

    return encrypted_talk


def noting(heads: list[str], *fields: str) -> Talk:
    """Each request is answered with an empty object, and its head noted."""

    def talk(peer: Peer) -> None:
        while head := peer.request():
            heads.append(head)
            peer.answer(b"{}", *fields)

    return talk


def sending(*pieces: bytes) -> Talk:
    """One request is answered with these bytes, in as many writes, and the connection closed."""

    def talk(peer: Peer) -> None:
        peer.request()
        for piece in pieces:
            peer.send(piece)
            time.sleep(0.01)

    return talk


def test_requests_that_follow_each_other_share_a_connection() -> None:
    with RawServer(noting([])) as server:
        session = session_to(server.url)
        for _ in range(5):
            assert session.request("POST", "/x", json={}).body == b"{}"
        assert server.connections == 1
        session.close()
        assert session.request("GET", "/x").status == 200
        assert server.connections == 2


def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    together = threading.Barrier(3)

    def answer(peer: Peer) -> None:
        together.wait(60)
        peer.answer(b"{}")

    with RawServer(in_turn(answer)) as server, ThreadPoolExecutor(3) as pool:
        session = session_to(server.url)
        answers = pool.map(lambda path: session.request("GET", path), ["/x"] * 3)
        assert [answer.status for answer in answers] == [200, 200, 200]
        assert server.connections == 3


def test_a_kept_connection_that_the_server_has_closed_is_replaced_before_anything_is_sent() -> None:
    closed = threading.Event()

    def talk(peer: Peer) -> None:
        peer.request()
        peer.answer(b"{}")
        peer.connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with RawServer(talk) as server:
        session = session_to(server.url)
        for _ in range(2):
            assert session.request("POST", "/x", json={}).status == 200
            assert closed.wait(60)
            closed.clear()
        assert server.connections == 2


@pytest.mark.parametrize("late", [False, True])
def test_what_nothing_asked_for_is_no_answer_to_the_next_request(late: bool) -> None:
    read, sent = threading.Event(), threading.Event()

    def first(peer: Peer) -> None:
        if late:
            peer.answer(b"first")
            read.wait(60)
            peer.answer(b"smuggled")
        else:
            peer.send(
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirstHTTP/1.1 200 OK\r\nX: smuggled\r\n\r\n"
            )
        sent.set()

    with RawServer(in_turn(first, lambda peer: peer.answer(b"second"))) as server:
        session = session_to(server.url)
        assert session.request("GET", "/x").body == b"first"
        read.set()
        assert sent.wait(60)
        assert session.request("GET", "/x").body == (b"first" if late else b"second")
        assert server.connections == (2 if late else 1)


def test_a_post_that_found_no_one_listening_was_not_carried_out_and_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    waits: list[float] = []
    session = Session(f"http://127.0.0.1:{port}", patience=Patience(attempts=3), sleep=waits.append)
    with pytest.raises(Unreachable, match=r"3 attempts \(ConnectionRefusedError\)"):
        session.request("POST", "/x", json={})
    assert len(waits) == 2


LONG = b"abc" * 50_000


def chunked(packed: bytes) -> bytes:
    parts = packed[: len(packed) // 2], packed[len(packed) // 2 :]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "frame",
    [chunked, lambda packed: b"Content-Length: %d\r\n\r\n%b" % (len(packed), packed), b"\r\n".__add__],
    ids=["chunked", "length", "until closed"],
)
@pytest.mark.parametrize(
    ("encoding", "packed", "body"),
    [
        (b"gzip", gzip.compress(LONG, mtime=0), LONG),
        (b"gzip", zlib.compress(LONG), LONG),
        (b"gzip", gzip.compress(b"one ") + gzip.compress(b"two"), b"one two"),
        (b"br", b"\x01\x02", b"\x01\x02"),
    ],
    ids=["gzip", "zlib", "several members", "unknown"],
)
def test_a_packed_answer_is_unpacked(frame: Any, encoding: bytes, packed: bytes, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\n" % encoding
    with RawServer(sending(head + frame(packed))) as server:
        assert get(server).body == body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"abc" * 1000, mtime=0)[:-9],
    ],
)
def test_an_answer_that_is_none_is_an_error_and_its_connection_not_used_again(data: bytes) -> None:
    with RawServer(sending(data)) as server:
        session = session_to(server.url)
        for _ in range(2):
            with pytest.raises(UncertainOutcome):
                session.request("POST", "/x", json={})
        assert server.connections == 2


@pytest.mark.parametrize(
    ("begin", "piece", "error"),
    [
        (b"", b"1" * 65536, Unreachable),
        (b"2\r\nab\r\n0\r\n", b"1" * 65536, Unreachable),
        (b"", b"10000\r\n" + bytes(65536) + b"\r\n", AnswerTooLarge),
    ],
    ids=["size of a chunk", "trailer", "beyond the cap"],
)
def test_an_answer_without_end_is_not_read_to_its_end(
    begin: bytes, piece: bytes, error: type[HttpError]
) -> None:
    sent = 0

    def talk(peer: Peer) -> None:
        nonlocal sent
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + begin)
        while True:
            peer.send(piece)
            sent += len(piece)

    with RawServer(talk) as server, pytest.raises(error):
        get(server, max_bytes=100_000)
    assert sent < 50 << 20


def test_answers_of_random_bytes_raise_nothing_else() -> None:
    chance = random.Random(7)
    heads = [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]

    def talk(peer: Peer) -> None:
        peer.request()
        peer.send(chance.choice(heads) + chance.randbytes(chance.randrange(300)))

    with RawServer(talk) as server:
        session = session_to(server.url)
        for _ in range(300):
            with suppress(HttpError):
                session.request("GET", "/x", max_bytes=200)


def test_an_answer_that_is_refused_halfway_is_still_read() -> None:
    def talk(peer: Peer) -> None:
        peer.connection.recv(1000)
        peer.answer(b"too much", status="413 Too Large")
        peer.connection.shutdown(socket.SHUT_WR)
        while peer.connection.recv(65536):
            pass

    with RawServer(talk) as server:
        answer = session_to(server.url).request("POST", "/x", json="x" * 3_000_000, accept=(413,))
    assert (answer.status, answer.body) == (413, b"too much")


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["silent", "head", "interim", "length", "chunked"],
)
def test_an_answer_that_drips_is_not_waited_for(begin: bytes, piece: bytes) -> None:
    stop = threading.Event()

    def talk(peer: Peer) -> None:
        peer.request()
        peer.send(begin)
        while not stop.wait(0.02):
            peer.send(piece)

    with RawServer(talk) as server:
        with pytest.raises(UncertainOutcome, match="TimeoutError"):
            session_to(server.url).request("POST", "/x", json={}, seconds=0.2)
        stop.set()


def test_a_server_that_does_not_read_is_not_waited_for() -> None:
    stop = threading.Event()
    with RawServer(lambda peer: stop.wait(60) and None) as server:
        with pytest.raises(UncertainOutcome, match="TimeoutError"):
            session_to(server.url).request("POST", "/x", json="x" * 20_000_000, seconds=0.3)
        stop.set()


def test_the_search_for_an_address_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found, closed = threading.Event(), threading.Event()
    look_up = socket.getaddrinfo

    def slow_search(host: Any, *arguments: Any) -> Any:
        found.wait(60)
        return look_up("127.0.0.1", *arguments)

    def talk(peer: Peer) -> None:
        assert peer.request() == ""
        closed.set()

    with RawServer(talk) as server:
        monkeypatch.setattr(socket, "getaddrinfo", slow_search)
        with pytest.raises(Unreachable, match="TimeoutError"):
            session_to(f"http://agent.internal:{server.port}").request("POST", "/x", json={}, seconds=0.1)
        found.set()
        assert closed.wait(60), "a connection that came too late was not closed, or something was sent"


def test_ctrl_c_in_the_middle_of_an_answer_leaves_nothing_for_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any) -> bytes:
        raise KeyboardInterrupt

    talk = in_turn(lambda peer: peer.answer(b"first"), lambda peer: peer.answer(b"second"))
    with RawServer(talk) as server, monkeypatch.context() as patched:
        session = session_to(server.url)
        patched.setattr(connection, "_decoded", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.request("GET", "/x")
        patched.undo()
        assert session.request("GET", "/x").body == b"first"
        assert server.connections == 2


def test_a_cookie_is_not_sent_back() -> None:
    heads: list[str] = []
    with RawServer(noting(heads, "Set-Cookie: state=of-the-last-case")) as server:
        session = session_to(server.url)
        for _ in range(2):
            session.request("GET", "/x")
    assert "ookie" not in heads[1]


def test_what_a_request_says() -> None:
    heads: list[str] = []
    with RawServer(noting(heads)) as server:
        session = Session(server.url, headers={"user-agent": "ours"}, secret_headers={"X-Key": "k"})
        session.request("POST", "/a b/ü%zz%20?q=1#part", params={"page": 2}, json={"a": 1})
        session.request("GET", "")
    first, second = (head.split("\r\n") for head in heads)
    assert first[0] == "POST /a%20b/%C3%BC%25zz%20?q=1&page=2 HTTP/1.1"
    names = "accept accept-encoding content-length content-type host user-agent x-key"
    assert sorted(line.partition(":")[0].lower() for line in first[1:]) == names.split()
    assert f"Host: 127.0.0.1:{server.port}" in first
    assert "user-agent: ours" in first
    assert second[0] == "GET / HTTP/1.1"


@pytest.mark.parametrize(
    "headers",
    [{"X-Key": f"{SECRET}\r\nX-More: y"}, {"X-Key": f"{SECRET}\u20ac"}, {"X Key": SECRET}, {"": SECRET}],
)
def test_a_header_that_cannot_be_sent_is_refused_at_once_without_its_value(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="cannot be sent") as caught:
        Session("https://agent.example", secret_headers=headers)
    assert SECRET not in str(caught.value.to_json())


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_a_host_in_brackets_is_reached() -> None:
    heads: list[str] = []
    try:
        server = RawServer(noting(heads), socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 address of its own")
    with server:
        assert session_to(f"http://[::1]:{server.port}").request("GET", "/x").status == 200
    assert f"Host: [::1]:{server.port}" in heads[0]


@pytest.mark.parametrize("host", ["no such name", "a" * 70, "agent\x00.internal", "a..b"])
def test_a_host_that_is_no_name_is_an_error_of_ours(host: str) -> None:
    with pytest.raises(HttpError):
        session_to(f"http://{host}/").request("POST", "/x", json={})


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))


@pytest.mark.parametrize("variable", BUNDLES)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_an_encrypted_answer_from_a_host_that_the_environment_trusts(
    variable: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(CERTIFICATE))
    with RawServer(encrypted(noting([]))) as server:
        session = session_to(f"https://{host}:{server.port}")
        assert [session.request("GET", "/x").body for _ in range(3)] == [b"{}"] * 3
        assert server.connections == 1


def test_certificates_may_be_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path))
    # OpenSSL finds a certificate in a directory by the hash of its name.
    (tmp_path / NAME_HASH).write_bytes(CERTIFICATE.read_bytes())
    with RawServer(encrypted(noting([]))) as server:
        assert session_to(f"https://localhost:{server.port}").request("GET", "/x").body == b"{}"


def test_a_host_whose_certificate_is_not_trusted_or_another_ones_is_sent_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heads: list[str] = []
    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *arguments: look_up("127.0.0.1", *arguments))
    with RawServer(encrypted(noting(heads))) as server:
        for host in ("localhost", "other.internal"):
            with pytest.raises(Unreachable, match="SSLCertVerificationError"):
                session_to(f"https://{host}:{server.port}").request("POST", "/x", json={})
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    assert heads == []


def test_a_proxy_is_given_the_whole_address_and_its_own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[str] = []
    with RawServer(noting(heads)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        session = session_to("http://agent.internal")
        for _ in range(2):
            session.request("GET", "/x", params={"q": 1})
        assert proxy.connections == 1
    lines = heads[1].split("\r\n")
    assert lines[0] == "GET http://agent.internal/x?q=1 HTTP/1.1"
    assert "Host: agent.internal" in lines
    assert f"Proxy-Authorization: Basic {b64encode(b'me:p@ss').decode()}" in lines


@pytest.mark.parametrize("way", ["http", "https"])
def test_what_is_encrypted_passes_a_proxy_in_a_tunnel(
    way: str, monkeypatch: pytest.MonkeyPatch, trusted: None
) -> None:
    heads: list[str] = []

    def talk(peer: Peer) -> None:
        if way == "https":
            peer.encrypt()
        heads.append(peer.request())
        peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        encrypted(noting(heads))(peer)

    with RawServer(talk) as proxy:
        monkeypatch.setenv("https_proxy", f"{way}://me:{SECRET}@localhost:{proxy.port}")
        session = Session("https://localhost", patience=Patience(attempts=1), secret_headers={"X-Key": "k"})
        assert [session.request("GET", "/x").body for _ in range(2)] == [b"{}"] * 2
        assert proxy.connections == 1
    connect, *requests = heads
    assert connect.startswith("CONNECT localhost:443 HTTP/1.")
    assert "Proxy-Authorization: Basic" in connect
    assert "X-Key" not in connect
    assert [head.split("\r\n")[0] for head in requests] == ["GET /x HTTP/1.1"] * 2
    assert not any("Proxy-Authorization" in head for head in requests)


def test_the_certificate_of_a_proxy_that_forwards_what_is_not_encrypted_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heads: list[str] = []
    with RawServer(encrypted(noting(heads))) as proxy:
        monkeypatch.setenv("http_proxy", f"https://localhost:{proxy.port}")
        with pytest.raises(Unreachable, match="SSLCertVerificationError"):
            session_to("http://agent.internal").request("POST", "/x", json={})
        assert heads == []
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
        assert session_to("http://agent.internal").request("GET", "/x").status == 200


def test_a_proxy_that_refuses_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, trusted: None
) -> None:
    with RawServer(in_turn(lambda peer: peer.answer(b"no", status="407 No"))) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:{SECRET}@127.0.0.1:{proxy.port}")
        with pytest.raises(Unreachable, match="the proxy refuses") as caught:
            session_to("https://agent.internal").request("POST", "/x", json={})
    assert SECRET not in repr(caught.value) + str(caught.value.to_json())


@pytest.mark.parametrize(
    "address", [f"socks5://me:{SECRET}@127.0.0.1:1080", f"http://me:{SECRET}@:80", "http://["]
)
def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", address)
    with pytest.raises(HttpError, match="a proxy that cannot be used") as caught:
        session_to("http://agent.internal").request("POST", "/x", json={})
    assert SECRET not in repr(caught.value) + str(caught.value.to_json())
    assert "HTTP_PROXY" in caught.value.remedy


@pytest.mark.parametrize("excepted", ["127.0.0.1", "127.0.0.0/8", "10.0.0.0/8, 127.0.0.1", "*"])
def test_hosts_that_the_environment_excepts_are_reached_without_the_proxy(
    excepted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", excepted)
    with RawServer(noting([])) as server:
        assert get(server).status == 200


def test_requests_is_not_imported_before_something_is_sent() -> None:
    code = (
        "import sys\n"
        "from agent_eval.http.client import Session\n"
        "Session('http://localhost:1', plain_http=True).close()\n"
        "print(sorted({'requests', 'urllib3', 'certifi'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
