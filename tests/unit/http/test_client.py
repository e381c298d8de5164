"""The session against real servers on localhost."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent_eval.errors import ExitCode
from agent_eval.http.client import Session
from agent_eval.http.errors import (
    AnswerTooLarge,
    HttpError,
    RateLimited,
    RefusedRedirect,
    UncertainOutcome,
    Unreachable,
)
from agent_eval.http.retry import Patience
from tests.fakes.json_server import JsonServer

SECRET = "tok_" + "verysecretvalue" * 2
NOW = 1_800_000_000.0


class Server(JsonServer):
    """Forgets the path of an agent, and remembers what it was asked."""

    @property
    def url(self) -> str:
        return self.origin

    @property
    def seen(self) -> list[tuple[str, str, str | None, bytes]]:
        return [(each.method, each.path, each.headers.get("Authorization"), each.body) for each in self.asked]


def serving() -> Iterator[Server]:
    with Server() as running:
        yield running


server = pytest.fixture(serving, name="server")
elsewhere = pytest.fixture(serving, name="elsewhere")  # of another origin


class Waits(list[float]):
    """Remembers instead of sleeping."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def session_to(server: Server, waits: Waits | None = None, **patience: Any) -> Session:
    return Session(
        server.url,
        secret_headers={"Authorization": f"Bearer {SECRET}"},
        patience=Patience(**patience),
        sleep=waits if waits is not None else Waits(),
        clock=lambda: NOW,
        chance=lambda: 1.0,
    )


def test_request__sends_query_and_credentials_and_reads_the_answer(server: Server) -> None:
    server.answers = [(200, {}, b'{"a": 1}')]
    answer = session_to(server).request("GET", "/things", params={"q": "x y"})
    assert json.loads(answer.body) == {"a": 1}
    assert server.seen == [("GET", "/things?q=x+y", f"Bearer {SECRET}", b"")]


@pytest.mark.parametrize(
    ("status", "headers", "body", "wait"),
    [
        (429, {"Retry-After": "7"}, b"{}", 7.0),
        (429, {"Retry-After": "Fri, 15 Jan 2027 08:00:10 GMT"}, b"{}", 10.0),
        (429, {"Retry-After-Ms": "250"}, b"{}", 0.25),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 30)}, b"{}", 31.0),
        (403, {}, b'{"message": "You have exceeded a secondary rate limit"}', 60.0),
    ],
)
def test_request__waits_as_long_as_the_service_says(
    server: Server, status: int, headers: dict[str, str], body: bytes, wait: float
) -> None:
    waits = Waits()
    server.answers = [(status, headers, body), (200, {}, b"{}")]
    assert session_to(server, waits).request("GET", "/x").status == 200
    assert waits == [wait]


def test_request__a_limit_that_was_waited_for_in_vain_is_not_waited_for_again(server: Server) -> None:
    waits = Waits()
    server.answers = [(403, {}, b"API rate limit exceeded for installation ID 7")]
    session = session_to(server, waits)
    for _ in range(2):
        with pytest.raises(RateLimited, match="does not say until when"):
            session.request("GET", "/x")
    assert waits == [60.0] * 4


def test_request__gives_up_at_once_when_asked_to_wait_too_long(server: Server) -> None:
    waits = Waits()
    server.answers = [(429, {"Retry-After": "3600"}, b"{}")]
    with pytest.raises(RateLimited, match=r"until 2027-01-15 09:00 UTC, for 60 minutes") as caught:
        session_to(server, waits).request("GET", "/x")
    assert waits == []
    assert len(server.seen) == 1
    assert caught.value.exit_code is ExitCode.NOT_EVALUABLE


@pytest.mark.parametrize(
    ("status", "headers", "waited", "error", "words"),
    [
        (503, {}, [1.0, 2.0, 4.0, 8.0], Unreachable, "5 attempts"),
        (429, {"Retry-After": "50"}, [50.0, 50.0], RateLimited, "limits requests until"),
        (503, {"Retry-After": "50"}, [50.0, 50.0], Unreachable, "too many waits"),
    ],
)
def test_request__backs_off_twice_as_long_each_time_and_never_longer_in_total_than_allowed(
    server: Server, status: int, headers: Any, waited: list[float], error: type[HttpError], words: str
) -> None:
    waits = Waits()
    server.answers = [(status, headers, b"{}")]
    with pytest.raises(error, match=words):
        session_to(server, waits, total_wait=120.0).request("GET", "/x")
    assert waits == waited
    assert len(server.seen) == len(waited) + 1


def test_request__a_refusal_for_lack_of_permission_is_not_repeated(server: Server) -> None:
    server.answers = [(403, {}, b'{"message": "Resource not accessible by integration"}')]
    with pytest.raises(HttpError, match="Resource not accessible") as caught:
        session_to(server).request("GET", "/x")
    assert caught.value.status == 403
    assert len(server.seen) == 1
    assert session_to(server).request("DELETE", "/x", accept=(403,)).status == 403


@pytest.mark.parametrize("failure", [(502, {}, b""), (0, {}, b"")], ids=["502", "connection lost"])
def test_post__is_not_repeated_when_it_may_have_been_carried_out(
    server: Server, failure: tuple[int, dict[str, str], bytes]
) -> None:
    server.answers = [failure]
    with pytest.raises(UncertainOutcome):
        session_to(server).request("POST", "/comments", json={"body": "hi"})
    assert len(server.seen) == 1


@pytest.mark.parametrize(("failure", "repeatable"), [((429, {"Retry-After": "1"}), None), ((502, {}), True)])
def test_post__is_repeated_when_it_was_refused_for_rate_or_only_asks(
    server: Server, failure: Any, repeatable: bool | None
) -> None:
    server.answers = [(*failure, b"{}"), (201, {}, b"{}")]
    answer = session_to(server).request("POST", "/x", json={"body": "hi"}, repeatable=repeatable)
    assert answer.status == 201
    assert [row[3] for row in server.seen] == [b'{"body": "hi"}'] * 2


def test_request__a_lost_connection_or_an_answer_that_is_none_is_tried_again(server: Server) -> None:
    short = (200, {"Content-Length": "100", "Connection": "close"}, b"short")
    server.answers = [(0, {}, b""), short, (200, {"Content-Encoding": "gzip"}, b"not packed")]
    server.answers += [(200, {}, b"whole")]
    assert session_to(server).request("GET", "/x").body == b"whole"


def test_request__nobody_listening_names_host_and_path_but_no_query(server: Server) -> None:
    server.__exit__()
    with pytest.raises(Unreachable) as caught:
        session_to(server).request("GET", "/x", params={"sig": "hidden"})
    assert "/x" in caught.value.message
    assert "hidden" not in json.dumps(caught.value.to_json())


def test_redirect__to_another_origin_goes_without_credentials(elsewhere: Server, server: Server) -> None:
    elsewhere.answers = [(200, {}, b"zip")]
    server.answers = [(302, {"Location": f"{elsewhere.url}/blob?sig=1"}, b"")]
    answer = session_to(server).request("GET", "/zip", params={"page": 1})
    assert answer.body == b"zip"
    assert elsewhere.seen == [("GET", "/blob?sig=1", None, b"")]


@pytest.mark.parametrize(("method", "status", "body"), [("GET", 301, b""), ("PATCH", 308, b'{"a": 1}')])
def test_redirect__within_the_origin_keeps_credentials_and_the_body_of_a_change(
    server: Server, method: str, status: int, body: bytes
) -> None:
    server.answers = [(status, {"Location": "/repositories/1"}, b""), (200, {}, b"{}")]
    session_to(server).request(method, "/repos/old", json=json.loads(body) if body else None)
    assert server.seen[1] == (method, "/repositories/1", f"Bearer {SECRET}", body)


def test_redirect__a_limit_of_another_host_is_none_of_the_services(server: Server, elsewhere: Server) -> None:
    waits = Waits()
    elsewhere.answers = [(429, {"Retry-After": "600"}, b"")]
    server.answers = [
        (302, {"Location": f"{elsewhere.url}/blob"}, b""),
        (429, {"Retry-After": "1"}, b""),
        (200, {}, b"{}"),
    ]
    session = session_to(server, waits)
    with pytest.raises(RateLimited):
        session.request("GET", "/zip")
    assert session.request("GET", "/x").status == 200
    assert waits == [1.0]


@pytest.mark.parametrize("status", [403, 404, 429, 503])
def test_redirect__the_error_names_the_host_that_refused(
    server: Server, elsewhere: Server, status: int
) -> None:
    elsewhere.answers = [(status, {"Retry-After": "600"}, b"")]
    server.answers = [(302, {"Location": f"{elsewhere.url}/blob?sig=1"}, b"")]
    with pytest.raises(HttpError) as caught:
        session_to(server).request("GET", "/zip")
    host = elsewhere.url.removeprefix("http://")
    assert caught.value.redirected_to == host == caught.value.details["host"]
    assert host in caught.value.message
    assert "sig=" not in caught.value.message


def test_redirect__a_failed_download_starts_again_at_the_beginning(elsewhere: Server, server: Server) -> None:
    elsewhere.answers = [(503, {}, b""), (200, {}, b"zip")]
    server.answers = [(302, {"Location": f"{elsewhere.url}/blob"}, b"")]
    assert session_to(server).request("GET", "/zip").body == b"zip"
    assert len(server.seen) == 2  # an address that is valid for a minute is asked for anew


def test_redirect__a_change_is_not_carried_elsewhere(elsewhere: Server, server: Server) -> None:
    server.answers = [(307, {"Location": f"{elsewhere.url}/x"}, b"")]
    with pytest.raises(RefusedRedirect):
        session_to(server).request("PATCH", "/x", json={})
    assert elsewhere.seen == []


@pytest.mark.parametrize(
    "location",
    ["http://a.example/x", "ftp://127.0.0.1/x", "https://me:pw@a.example/x", "http://[::1", "//:99999x/"],
)
def test_redirect__to_a_place_without_encryption_or_sense_is_refused(server: Server, location: str) -> None:
    server.answers = [(302, {"Location": location}, b"")]
    with pytest.raises(RefusedRedirect):
        session_to(server).request("GET", "/x")


def test_redirect__in_circles_ends(server: Server) -> None:
    server.answers = [(302, {"Location": "/x"}, b"")]
    with pytest.raises(RefusedRedirect, match="more than 5"):
        session_to(server).request("GET", "/x")


def test_session__refuses_an_address_without_encryption() -> None:
    with pytest.raises(RefusedRedirect, match="only https"):
        Session("http://github.example.org/api/v3")
    with pytest.raises(RefusedRedirect, match="not a valid URL"):
        Session("https://github.example.org:port/")


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b"x" * 300_000),
        (200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(5_000_000))),
        (302, {"Location": "/y"}, b"x" * 300_000),
    ],
    ids=["plain", "packed", "redirect"],
)
def test_answer__beyond_the_cap_is_refused(server: Server, answer: Any) -> None:
    server.answers = [answer]
    with pytest.raises(AnswerTooLarge, match="100000 bytes"):
        session_to(server).request("GET", "/x", max_bytes=100_000)


def test_pages__follow_the_link_header_up_to_the_bound(server: Server) -> None:
    links = '<{self}/x?page=0>; rel="prev", <{self}/x?page=2>; rel="next", <{self}/x?page=9>; rel="last"'
    more = {"Link": links}
    last = {"Link": '<{self}/x?page=9>; rel="last"'}
    server.answers = [(200, more, b"1"), (200, more, b"2"), (200, last, b"3")]
    assert [page.body for page in session_to(server).pages("/x", max_pages=9)] == [b"1", b"2", b"3"]
    assert [path for _, path, *_ in server.seen] == ["/x", "/x?page=2", "/x?page=2"]
    server.answers = [(200, more, b"1")]
    assert len(list(session_to(server).pages("/x", max_pages=4))) == 4


@pytest.mark.parametrize("link", ["https://example.org/x?page=2", "http://[::1"])
def test_pages__do_not_leave_the_origin(server: Server, link: str) -> None:
    server.answers = [(200, {"Link": f'<{link}>; rel="next"'}, b"1")]
    with pytest.raises(RefusedRedirect, match=r"another host|not a valid URL"):
        list(session_to(server).pages("/x", max_pages=9))


@pytest.mark.parametrize(
    "odd", ["http://{home}\\@{other}/x", "http://{other}#@{home}/x", "//{other}\\.{home}/x"]
)
def test_redirect__an_address_that_can_be_read_in_two_ways_gets_no_credentials(
    elsewhere: Server, server: Server, odd: str
) -> None:
    places = {"home": server.url.removeprefix("http://"), "other": elsewhere.url.removeprefix("http://")}
    server.answers = [(302, {"Location": odd.format(**places)}, b""), (200, {}, b"{}")]
    with contextlib.suppress(HttpError):
        session_to(server).request("GET", "/x")
    assert [row[2] for row in elsewhere.seen] in ([], [None])


def test_secrets__appear_in_no_repr_and_no_error(server: Server) -> None:
    session = session_to(server)
    server.answers = [(400, {}, f'{{"message": "bad token {SECRET}"}}'.encode())]
    with pytest.raises(HttpError) as caught:
        session.request("GET", "/x")
    assert SECRET not in repr(session) + repr(caught.value) + str(caught.value.to_json())
    assert "[redacted]" in caught.value.message


def test_secrets__of_netrc_are_not_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password hidden\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    Session(server.url).request("GET", "/x")
    assert server.seen[0][2] is None


def test_plain_http_is_for_the_host_that_it_is_allowed_for(server: Server) -> None:
    session = Session(server.url, plain_http=True)
    assert session.request("GET", "/x").status == 200
    server.answers = [(302, {"Location": "http://other.internal/x"}, b"")]
    with pytest.raises(RefusedRedirect):
        session.request("GET", "/x")
    Session("http://agent.internal:8000", plain_http=True)
    for url in ("http://", "http://agent.internal:8000"):
        with pytest.raises(RefusedRedirect):
            Session(url, plain_http=url == "http://")


def test_certificates_that_the_environment_names_are_the_ones_that_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    with pytest.raises(HttpError, match=r"no certificates at .*missing\.pem") as caught:
        Session("https://127.0.0.1:9").request("GET", "/x")
    assert "REQUESTS_CA_BUNDLE" in caught.value.remedy
