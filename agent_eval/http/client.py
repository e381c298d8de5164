"""The one retrying HTTP session.

Every request has time-outs and a cap on its answer. The session repeats requests after rate limits, server
errors and broken connections where repeating is safe. It follows redirects itself: credentials never leave
the origin they belong to, and plain HTTP is used only for this machine, or where the caller allows it.
"""

from __future__ import annotations

import json as json_text
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from agent_eval.errors import UsageError
from agent_eval.http.connection import BrokenExchange, Connections, NotConnected, OverCap, Timing
from agent_eval.http.errors import (
    AnswerTooLarge,
    HttpError,
    RateLimited,
    RefusedRedirect,
    UncertainOutcome,
    Unreachable,
    host_of,
    path_of,
)
from agent_eval.http.retry import (
    RETRIED_STATUS,
    Patience,
    asked_wait,
    backoff,
    end_of_limit,
    is_rate_limit,
    stated_wait,
)
from agent_eval.http.route import Origin, UnusableRoute, origin_of, route_to, target_of, with_query
from agent_eval.text.numbers import count

MAX_JSON_BYTES = 32 << 20
MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"})
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_VALUE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


class Session:
    """Send requests to one service. Use it for every HTTP request of the program, from any number of threads.

    More than six parameters: all but the address have a default; three replace time and chance in tests.

    Args:
        base_url: Address of the service; paths are appended to it.
        secret_headers: Headers with credentials: sent to the origin of `base_url` only, redacted from errors.
        headers: Headers of every request.
        patience: Time limits, and how often to try.
        plain_http: Whether the host of `base_url` may be used without encryption; for services on a private
            network.
        sleep: Function that waits for that many seconds.
        clock: Function that returns the seconds since 1970.
        chance: Function that returns a number from 0 to 1, for the spread of waits.

    Raises:
        HttpError: `base_url` is neither https nor this machine.

    Example:
        >>> Session("https://api.example/v1/", secret_headers={"Authorization": "Bearer secret"})
        Session('https://api.example/v1')
    """

    def __init__(
        self,
        base_url: str,
        *,
        secret_headers: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience | None = None,
        plain_http: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._base = base_url.rstrip("/")
        base_host = _split("GET", self._base).hostname or ""
        self._plain_hosts = (
            _LOCAL if base_host in _LOCAL else frozenset({base_host} if plain_http and base_host else ())
        )
        self._check_address("GET", self._base)
        self._origin = origin_of(self._base)
        self._secrets = tuple((secret_headers or {}).values())
        usual = {"User-Agent": "agent-eval", "Accept": "*/*", "Accept-Encoding": "gzip"}
        self._headers = _merged_headers(usual, headers or {})
        self._own_headers = _merged_headers(self._headers, secret_headers or {})
        self._patience = patience or Patience()
        self._sleep, self._clock, self._chance = sleep, clock, chance
        self._connections, self._is_limited = dict[Origin, Connections](), False

    def __repr__(self) -> str:
        return f"Session({self._base!r})"

    def close(self) -> None:
        """Close open connections. A further request opens a new one."""
        for connections in list(self._connections.values()):
            connections.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        json: Any = None,
        body: bytes | None = None,
        accept: tuple[int, ...] = (),
        max_bytes: int = MAX_JSON_BYTES,
        repeatable: bool | None = None,
        seconds: float | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Send a request and read the answer.

        More than six parameters: method and path are needed; the others have the defaults of most calls.

        Args:
            method: HTTP method. POST is repeated only when it certainly was not carried out.
            path: Path that is appended to the base, or a whole URL (the next page of a listing).
            params: Parameters of the query.
            json: JSON value of the body; None for no body.
            body, content_type: A body as it is sent, such as JSON packed by gzip, and its type; not `json`.
            accept: Statuses of 400 and above to return as an answer, instead of an error.
            max_bytes: Cap on the answer's decoded size.
            repeatable: Whether the request may be carried out twice; None for every method but POST.
            seconds: Time limit of each attempt; None for the patience's `transfer_timeout`.

        Raises:
            Unreachable: No attempt had an answer other than a server error.
            RateLimited: The service asks for a longer wait than the patience allows.
            UncertainOutcome: The service may have carried out a POST whose answer did not arrive.
            AnswerTooLarge: The answer has more than `max_bytes`.
            RefusedRedirect: The service redirects to an address that this program refuses.
            HttpError: The answer has any other status of 400 or above, with its `status`.
        """
        url, waited = path if "://" in path else f"{self._base}{path}", 0.0
        safe = method in _REPEATABLE if repeatable is None else repeatable
        body = body if json is None else json_text.dumps(json, allow_nan=False).encode()
        exchange = _Exchange(method, url, body, max_bytes, self._timing(seconds), safe, content_type)
        for attempt in range(1, self._patience.attempts + 1):
            last = attempt == self._patience.attempts
            try:
                answer = self._follow(exchange, with_query(url, params))
            except (BrokenExchange, NotConnected) as error:
                if not safe and isinstance(error, BrokenExchange):
                    raise _uncertain(exchange, str(error)) from None
                if last:
                    raise self._unreachable(exchange, str(error), attempt) from None
                why, wait = str(error), backoff(attempt, self._patience, self._chance())
            else:
                if answer.status < 400 or answer.status in accept:
                    return answer
                why, wait = f"HTTP {answer.status}", self._wait_after(exchange, answer, attempt, waited)
            waited += wait
            if waited > self._patience.total_wait:
                raise self._unreachable(exchange, f"{why}, too many waits", attempt)
            self._sleep(wait)
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    def pages(
        self, path: str, *, params: Mapping[str, str | int] | None = None, max_pages: int
    ) -> Iterator[Answer]:
        """Yield the pages of a listing, by their `Link` headers, `max_pages` at most."""
        yield (answer := self.request("GET", path, params=params))
        for _ in range(max_pages - 1):
            if answer.next_url is None:
                return
            if origin_of(answer.next_url) != self._origin:
                raise RefusedRedirect(
                    f"{host_of(self._base)} names a next page on another host.",
                    remedy="Check the API address.",
                    method="GET",
                    url=answer.next_url,
                )
            answer = self.request("GET", answer.next_url)
            yield answer

    def _wait_after(self, exchange: _Exchange, answer: Answer, attempt: int, waited: float) -> float:
        """Compute the seconds to wait before the request is repeated; raise where it must not be repeated."""
        last = attempt == self._patience.attempts
        asked = asked_wait(answer.status, answer.headers, now=self._clock())
        usual = backoff(attempt, self._patience, self._chance())
        if is_rate_limit(answer.status, answer.headers, answer.body):
            wait = usual if asked is None else asked
            too_long = wait > min(self._patience.longest_wait, self._patience.total_wait - waited)
            if last or too_long or self._is_limited:
                raise self._limited(exchange, answer)
            return wait
        if answer.status in RETRIED_STATUS:
            if not exchange.safe:
                raise _uncertain(exchange, f"HTTP {answer.status}", answer.status)
            if last:
                raise self._unreachable(exchange, f"HTTP {answer.status}", attempt, answer.status)
            return min(self._patience.longest_wait, max(usual, asked or 0.0))
        why = self._scrub(answer.explanation)
        raise HttpError(
            f"{answer.host} answered {exchange.words} with HTTP {answer.status}{f': {why}' if why else ''}.",
            remedy="Check the address and the token's permissions.",
            status=answer.status,
            method=exchange.method,
            url=exchange.url,
            redirected_to=self._other_host(exchange),
        )

    def _limited(self, exchange: _Exchange, answer: Answer) -> RateLimited:
        # Waiting for the same limit again would keep the job for minutes with every request that follows.
        self._is_limited = not self._other_host(exchange)
        now = self._clock()
        stated = stated_wait(answer.headers, now=now)
        return RateLimited(
            f"{answer.host} limits requests {end_of_limit(stated, now=now)} (HTTP {answer.status}).",
            remedy=f"Run the job again {'later' if stated is None else 'after that'}, or use a token with a "
            "higher limit.",
            status=answer.status,
            method=exchange.method,
            url=exchange.url,
            redirected_to=self._other_host(exchange),
        )

    def _unreachable(
        self, exchange: _Exchange, why: str, attempts: int, status: int | None = None
    ) -> Unreachable:
        times = count(attempts, "attempt")
        return Unreachable(
            f"{host_of(exchange.place)} gave no usable answer to {exchange.words} in {times} ({why}).",
            remedy="Run the job again; if it persists, check the service's status page and the API address.",
            status=status,
            method=exchange.method,
            url=exchange.url,
            redirected_to=self._other_host(exchange),
        )

    def _other_host(self, exchange: _Exchange) -> str:
        """Name the host that a redirect led to, where it is not the service's own; else empty."""
        return "" if origin_of(exchange.place) == self._origin else host_of(exchange.place)

    def _follow(self, exchange: _Exchange, url: str) -> Answer:
        """Make one attempt: send the request and follow its redirects."""
        method = exchange.method
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._once(exchange, url)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            target = self._target(method, url, location)
            moved_for_good = answer.status in (307, 308) and origin_of(target) == self._origin
            if method != "GET" and not moved_for_good:
                raise RefusedRedirect(
                    f"{method} {path_of(url)} is redirected; only reading follows that.",
                    remedy="Use the repository's present name.",
                    status=answer.status,
                    method=method,
                    url=url,
                )
            # The location includes its query; adding the request's again would break signed addresses.
            url = target
        raise RefusedRedirect(
            f"{path_of(url)} redirects more than {MAX_REDIRECTS} times.",
            remedy="Check the API address.",
            method=method,
            url=url,
        )

    def _once(self, exchange: _Exchange, url: str) -> Answer:
        exchange.place, origin = url, origin_of(url)
        headers = self._own_headers if origin == self._origin else self._headers
        if exchange.body is not None:
            headers = _merged_headers(headers, {"Content-Type": exchange.content_type})
        connections = self._connections_to(origin, url)
        try:
            response = connections.exchange(
                exchange.method,
                target_of(url, absolute=connections.needs_absolute_targets),
                headers,
                exchange.body,
                max_bytes=exchange.max_bytes,
                timing=exchange.timing,
            )
        except OverCap as error:
            raise AnswerTooLarge(
                f"{exchange.method} {path_of(url)} answered with more than {exchange.max_bytes} bytes.",
                remedy="Make the artifact smaller, or point to another one.",
                status=error.status,
                method=exchange.method,
                url=url,
            ) from None
        return Answer(response.status, response.headers, response.body, host_of(url))

    def _connections_to(self, origin: Origin, url: str) -> Connections:
        """Return the connections to an origin; read proxy and certificates from the environment once."""
        connections = self._connections.get(origin)
        if connections is None:
            try:
                route = route_to(url)
            except UnusableRoute as error:
                raise HttpError(error.message, remedy=error.remedy, method="", url=url) from None
            # Another thread may have been faster: the first is used by both.
            connections = self._connections.setdefault(origin, Connections(route))
        return connections

    def _timing(self, seconds: float | None) -> Timing:
        patience = self._patience
        total = patience.transfer_timeout if seconds is None else seconds
        return Timing(connect=patience.connect_timeout, read=patience.read_timeout, total=total)

    def _target(self, method: str, url: str, location: str) -> str:
        """Resolve the target of a redirect; refuse an address that `_check_address` refuses."""
        _split(method, location)
        target = urljoin(url, location)
        self._check_address(method, target)
        return target

    def _check_address(self, method: str, url: str) -> None:
        parts = _split(method, url)
        secure = parts.scheme == "https" and bool(parts.hostname)
        local = parts.scheme == "http" and (parts.hostname or "") in self._plain_hosts
        if "@" in parts.netloc or not (secure or local):
            raise RefusedRedirect(
                f"Refused to connect to {parts.scheme or 'no scheme'}://{host_of(url)}: only https is used.",
                remedy="Give an https address without a user name.",
                method=method,
                url=url,
            )

    def _scrub(self, text: str) -> str:
        for value in self._secrets:
            for part in value.split():
                if len(part) >= 8:
                    text = text.replace(part, "[redacted]")
        return text


@dataclass(slots=True)
class _Exchange:
    """Parameters that all attempts at a request share, and `place`: the address that was asked last."""

    method: str
    url: str
    body: bytes | None
    max_bytes: int
    timing: Timing
    safe: bool
    content_type: str
    place: str = ""

    @property
    def words(self) -> str:
        """The request as messages name it."""
        return f"{self.method} {path_of(self.url)}"


def _merged_headers(headers: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Merge headers; `more` replaces those of the same name, in whatever case.

    Raises:
        UsageError: A name or value in `more` is not valid in HTTP.
    """
    for name, value in more.items():
        if not _HEADER_NAME.fullmatch(name) or _NOT_IN_A_VALUE.search(value):
            raise UsageError(
                f"The header {name!r} cannot be sent.",
                remedy="Its name is a word, its value one line of Latin characters.",
            )
    replaced = {name.lower() for name in more}
    return {**{name: value for name, value in headers.items() if name.lower() not in replaced}, **more}


def _split(method: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # urlsplit checks port and host name only when they are read.
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:
        raise RefusedRedirect(
            "An address is not a valid URL.", remedy="Check the API address.", method=method, url=""
        ) from None
    return parts


def _uncertain(exchange: _Exchange, why: str, status: int | None = None) -> UncertainOutcome:
    return UncertainOutcome(
        f"It is not known whether {exchange.words} was carried out ({why}).",
        remedy="Check whether it was before repeating it.",
        status=status,
        method=exchange.method,
        url=exchange.url,
    )


_NEXT_LINK = re.compile(r"<([^<>]+)>\s*;[^,<]*\brel=\"?next\"?")
_EXCERPT_LENGTH, _EXPLANATION_BYTES = 200, 8_192


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response, read to its end.

    Args:
        status: HTTP status.
        headers: Field names in lower case.
        body: Decoded bytes, within the cap of the request.
        host: Host that answered, after redirects.

    Example:
        >>> Answer(200, {"link": '<https://api.example/runs?page=2>; rel="next"'}, b"[]").next_url
        'https://api.example/runs?page=2'
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    host: str = ""

    @property
    def next_url(self) -> str | None:
        """Address of the next page, from the `Link` header; None on the last."""
        match = _NEXT_LINK.search(self.headers.get("link", ""))
        return match.group(1) if match else None

    @property
    def excerpt(self) -> str:
        """Start of the body as one printable line, for an error message."""
        return _one_line(self.body[: 4 * _EXCERPT_LENGTH].decode("utf-8", "replace"))

    @property
    def explanation(self) -> str:
        """What the service says of its refusal: `message` of a JSON body, else `excerpt`; no full stop."""
        with suppress(ValueError, RecursionError):
            content = json_text.loads(self.body[:_EXPLANATION_BYTES])
            if isinstance(content, dict) and isinstance(content.get("message"), str):
                return _one_line(content["message"]).rstrip(".")
        return self.excerpt.rstrip(".")


def _one_line(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line[:_EXCERPT_LENGTH]
