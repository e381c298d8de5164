"""The one retrying HTTP session.

Every request has time-outs and a cap on its answer. Refusals for too many requests, server errors and broken
connections are tried again where repeating is safe. Redirects are followed by hand: credentials never
leave the origin they belong to, and nothing goes over plain HTTP except to this very machine.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError

from agent_eval.errors import RemoteError
from agent_eval.http.retry import RETRIED_STATUS, Patience, asked_wait, backoff, is_rate_limit

MAX_JSON_BYTES = 32 << 20
MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"})
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_CHUNK = 1 << 16


class _NoCredentials(requests.auth.AuthBase):
    """Keeps requests from adding what `~/.netrc` says."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _HandsOff(requests.Session):
    """Leaves redirects alone.

    Even when told not to follow them, requests prepares the next request, and for that reads the whole
    body of the redirect and trips over a broken address.
    """

    def get_redirect_target(self, resp: requests.Response) -> None:  # noqa: ARG002 - requests names it
        return None


class Session:
    """Requests to one service.

    Args:
        base_url: Where the service lives; paths are appended to it.
        secret_headers: Sent to the origin of `base_url` only, and shown nowhere.
        headers: Sent with every request.
        patience: How long and how often to try.
        plain_http: Whether the host of `base_url` may also be talked to without encryption; for services
            on a private network.
        sleep: Waits for that many seconds.
        clock: Seconds since 1970.
        chance: A number from 0 to 1, for the spread of waits.

    Raises:
        HttpError: `base_url` is neither https nor this machine.
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
        self._origin = _origin(self._base)
        self._secret_headers = dict(secret_headers or {})
        self._headers = {"User-Agent": "agent-eval", **(headers or {})}
        self._patience = patience or Patience()
        self._sleep, self._clock, self._chance = sleep, clock, chance
        self._session = _HandsOff()
        self._session.auth = _NoCredentials()
        self._session.trust_env = False  # see `_surroundings_of`
        self._surroundings: dict[tuple[str, str, int | None], Mapping[str, Any]] = {}

    def __repr__(self) -> str:
        return f"Session({self._base!r})"

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        json: Any = None,
        accept: tuple[int, ...] = (),
        max_bytes: int = MAX_JSON_BYTES,
        repeatable: bool | None = None,
    ) -> Answer:
        """Send a request and read the answer.

        Args:
            method: HTTP method. POST is repeated only when it certainly was not carried out.
            path: Appended to the base, or a whole URL (the next page).
            params: The query.
            json: The body.
            accept: Statuses of 400 and above that are an answer, not an error.
            max_bytes: Cap on the answer's decoded size.
            repeatable: Whether doing it twice does no harm. Default: every method but POST.

        Raises:
            Unreachable: No answer, or server errors only.
            RateLimited: The service asks for too long a wait.
            UncertainOutcome: A POST that may have been carried out.
            AnswerTooLarge: More than `max_bytes`.
            RefusedRedirect: It points where this program does not go.
            HttpError: Any other status of 400 or above, with its `status`.
        """
        url = path if "://" in path else f"{self._base}{path}"
        safe = method in _REPEATABLE if repeatable is None else repeatable
        waited = 0.0
        for attempt in range(1, self._patience.attempts + 1):
            last = attempt == self._patience.attempts
            try:
                answer = self._follow(method, url, params, json, max_bytes)
            except (requests.RequestException, TimeoutError) as error:
                if not safe and not isinstance(error, requests.ConnectTimeout):
                    raise _uncertain(method, url, type(error).__name__) from None
                if last:
                    raise _unreachable(method, url, type(error).__name__, attempt) from None
                wait = backoff(attempt, self._patience, self._chance())
            else:
                if answer.status < 400 or answer.status in accept:
                    return answer
                wait = self._wait_after(method, url, answer, attempt, safe)
            waited += wait
            if waited > self._patience.total_wait:
                raise _unreachable(method, url, "too many waits", attempt)
            self._sleep(wait)
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    def pages(
        self, path: str, *, params: Mapping[str, str | int] | None = None, max_pages: int
    ) -> Iterator[Answer]:
        """Yield the pages of a listing, by their `Link` headers, `max_pages` at most."""
        answer = self.request("GET", path, params=params)
        yield answer
        for _ in range(max_pages - 1):
            if answer.next_url is None:
                return
            if _origin(answer.next_url) != self._origin:
                raise RefusedRedirect(
                    f"{host_of(self._base)} names a next page on another host.",
                    remedy="Check the API address.",
                    method="GET",
                    url=answer.next_url,
                )
            answer = self.request("GET", answer.next_url)
            yield answer

    def _wait_after(self, method: str, url: str, answer: Answer, attempt: int, safe: bool) -> float:
        """Seconds to wait before repeating what was refused; raises when it must not be repeated."""
        last = attempt == self._patience.attempts
        if is_rate_limit(answer.status, answer.headers, answer.body):
            asked = asked_wait(answer.status, answer.headers, now=self._clock())
            wait = backoff(attempt, self._patience, self._chance()) if asked is None else asked
            if last or wait > self._patience.longest_wait:
                raise RateLimited(
                    f"{host_of(url)} limits requests and asks to wait {wait:.0f} s.",
                    remedy="Run the job again later, or use a token with a higher limit.",
                    status=answer.status,
                    method=method,
                    url=url,
                )
            return wait
        if answer.status in RETRIED_STATUS:
            if not safe:
                raise _uncertain(method, url, f"HTTP {answer.status}", answer.status)
            if last:
                raise _unreachable(method, url, f"HTTP {answer.status}", attempt, answer.status)
            asked = asked_wait(answer.status, answer.headers, now=self._clock())
            usual = backoff(attempt, self._patience, self._chance())
            return min(self._patience.longest_wait, max(usual, asked or 0.0))
        raise HttpError(
            f"{method} {path_of(url)} was answered with HTTP {answer.status}: {self._scrub(answer.excerpt)}",
            remedy="Check the address and the token's permissions.",
            status=answer.status,
            method=method,
            url=url,
        )

    def _follow(
        self, method: str, url: str, params: Mapping[str, str | int] | None, json: Any, max_bytes: int
    ) -> Answer:
        """One attempt: the request and its redirects."""
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._once(method, url, params, json, max_bytes)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            target = self._target(method, url, location)
            moved_for_good = answer.status in (307, 308) and _origin(target) == self._origin
            if method != "GET" and not moved_for_good:
                raise RefusedRedirect(
                    f"{method} {path_of(url)} is redirected; only reading follows that.",
                    remedy="Use the repository's present name.",
                    status=answer.status,
                    method=method,
                    url=url,
                )
            # The location says it all; repeating the query would break signed addresses.
            url, params = target, None
        raise RefusedRedirect(
            f"{path_of(url)} redirects more than {MAX_REDIRECTS} times.",
            remedy="Check the API address.",
            method=method,
            url=url,
        )

    def _once(
        self, method: str, url: str, params: Mapping[str, str | int] | None, json: Any, max_bytes: int
    ) -> Answer:
        headers = dict(self._headers)
        if _origin(url) == self._origin:
            headers.update(self._secret_headers)
        deadline = time.monotonic() + self._patience.transfer_timeout
        with self._session.request(
            method,
            url,
            params=params,
            json=json,
            headers=headers,
            timeout=(self._patience.connect_timeout, self._patience.read_timeout),
            allow_redirects=False,
            **self._surroundings_of(url),
        ) as response:
            fields = {name.lower(): value for name, value in response.headers.items()}
            body = bytearray()
            for chunk in _pieces(response):
                body += chunk
                if len(body) > max_bytes:
                    raise AnswerTooLarge(
                        f"{method} {path_of(url)} answered with more than {max_bytes} bytes.",
                        remedy="Make the artifact smaller, or point to another one.",
                        status=response.status_code,
                        method=method,
                        url=url,
                    )
                if time.monotonic() > deadline:
                    raise TimeoutError
            return Answer(response.status_code, fields, bytes(body), host_of(url))

    def _surroundings_of(self, url: str) -> Mapping[str, Any]:
        """Proxies and certificates that the environment names, asked for once an origin.

        requests goes through the whole environment for each request, which takes longer than all the rest.
        """
        origin = _origin(url)
        if origin not in self._surroundings:
            with _HandsOff() as asked:
                found = asked.merge_environment_settings(url, {}, True, None, None)
            if isinstance(found["verify"], str) and not os.path.exists(found["verify"]):
                raise HttpError(
                    f"There are no certificates at {found['verify']}, which the environment names.",
                    remedy="Correct or remove REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE.",
                    method="",
                    url=url,
                )
            self._surroundings[origin] = found
        return self._surroundings[origin]

    def _target(self, method: str, url: str, location: str) -> str:
        """Where a redirect leads, refused when that is no place to go."""
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
                f"Refused to talk to {parts.scheme or 'no scheme'}://{host_of(url)}: only https is used.",
                remedy="Give an https address without a user name.",
                method=method,
                url=url,
            )

    def _scrub(self, text: str) -> str:
        for value in self._secret_headers.values():
            for part in value.split():
                if len(part) >= 8:
                    text = text.replace(part, "[redacted]")
        return text


def _pieces(response: requests.Response) -> Iterator[bytes]:
    """The body as it arrives, decoded; `iter_content` waits for whole chunks, however slowly they come."""
    read = getattr(response.raw, "read1", None)  # since urllib3 2.1
    if read is None:  # pragma: no cover
        yield from response.iter_content(_CHUNK)
        return
    try:
        while piece := read(_CHUNK, decode_content=True):
            yield piece
    # requests turns these into its own when it reads itself.
    except HTTPError as error:
        raise requests.ConnectionError(error) from error


def _split(method: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # a port that is no number raises only when it is read
    except ValueError:
        raise RefusedRedirect(
            "An address is not a valid URL.", remedy="Check the API address.", method=method, url=""
        ) from None
    return parts


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return (
        parts.scheme,
        (parts.hostname or "").lower(),
        parts.port or {"https": 443, "http": 80}.get(parts.scheme),
    )


def _unreachable(method: str, url: str, why: str, attempts: int, status: int | None = None) -> Unreachable:
    return Unreachable(
        f"{host_of(url)} gave no usable answer to {method} {path_of(url)} in {attempts} attempts ({why}).",
        remedy="Run the job again; if it persists, check the service's status page and the API address.",
        status=status,
        method=method,
        url=url,
    )


def _uncertain(method: str, url: str, why: str, status: int | None = None) -> UncertainOutcome:
    return UncertainOutcome(
        f"It is not known whether {method} {path_of(url)} was carried out ({why}).",
        remedy="Look whether it was before repeating it.",
        status=status,
        method=method,
        url=url,
    )


_NEXT_LINK = re.compile(r"<([^<>]+)>\s*;[^,<]*\brel=\"?next\"?")
_SHOWN_OF_A_BODY = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response, read to its end.

    Args:
        status: HTTP status.
        headers: Field names in lower case.
        body: Decoded bytes, within the cap of the request.
        host: Who answered in the end (after redirects).
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    host: str = ""

    @property
    def next_url(self) -> str | None:
        """The next page according to the `Link` header, else None."""
        found = _NEXT_LINK.search(self.headers.get("link", ""))
        return found.group(1) if found else None

    @property
    def excerpt(self) -> str:
        """The start of the body as one printable line, for an error message."""
        text = self.body[: 4 * _SHOWN_OF_A_BODY].decode("utf-8", "replace")
        line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        return line[:_SHOWN_OF_A_BODY]


class HttpError(RemoteError):
    """A request that did not get the answer it needs.

    `status` is None when there was no answer at all.
    """

    code = "remote_error"

    def __init__(
        self, message: str, *, remedy: str = "", status: int | None = None, method: str, url: str
    ) -> None:
        super().__init__(
            message, remedy=remedy, status=status, method=method, host=host_of(url), path=path_of(url)
        )
        self.status = status


class Unreachable(HttpError):
    """No answer, or only server errors, after every allowed attempt."""


class RateLimited(HttpError):
    """The service asks to wait longer than this program is allowed to."""


class UncertainOutcome(HttpError):
    """The request may or may not have been carried out. Look before repeating it."""


class AnswerTooLarge(HttpError):
    """The answer is larger than the cap of the request."""


class RefusedRedirect(HttpError):
    """The service points to a place this program does not go."""


def host_of(url: str) -> str:
    """Host and port of a URL, without user information."""
    return urlsplit(url).netloc.rpartition("@")[2]


def path_of(url: str) -> str:
    """Path of a URL. Queries and fragments can carry secrets and are left out."""
    return urlsplit(url).path
