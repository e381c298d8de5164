"""The one retrying HTTP session, on requests.

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
from functools import cached_property
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from agent_eval.errors import UsageError
from agent_eval.http import errors, retry
from agent_eval.http.errors import (
    HttpError,
    RateLimited,
    RefusedRedirect,
    host_of,
    one_line,
    path_of,
    said_in,
)
from agent_eval.http.retry import Patience
from agent_eval.text.numbers import count

MAX_JSON_BYTES = 32 << 20
MAX_REDIRECTS = 5
_LONGEST_EXCERPT = 200
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"})
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_USUAL_HEADERS = {"User-Agent": "agent-eval", "Accept": "*/*", "Accept-Encoding": "gzip"}
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NEXT_LINK = re.compile(r"<([^<>]+)>\s*;[^,<]*\brel=\"?next\"?")

Headers = Mapping[str, str]
Params = Mapping[str, str | int] | None
Origin = tuple[str, str, int | None]
"""Scheme, host and port; credentials belong to an origin."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response, read to its end: header fields by name in lower case, and the decoded body."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)
    host: str = ""
    """Host that answered, after redirects."""

    @property
    def excerpt(self) -> str:
        """Start of the body as one printable line, for an error message."""
        return one_line(self.body[:800].decode("utf-8", "replace"), _LONGEST_EXCERPT)

    @property
    def explanation(self) -> str:
        """What the service says of its refusal: the words of a JSON body, else `excerpt`; no full stop."""
        with suppress(ValueError, RecursionError):
            if words := one_line(said_in(json_text.loads(self.body[:8_192])), _LONGEST_EXCERPT):
                return words.rstrip(".")
        return self.excerpt.rstrip(".")


@dataclass(slots=True)
class _Call:
    """What all attempts at a request share, and `place`: the address that was asked last."""

    method: str
    url: str
    params: Params
    body: bytes | None
    headers: Headers
    max_bytes: int
    seconds: float
    home: Origin
    place: str = ""

    def __str__(self) -> str:
        return f"{self.method} {path_of(self.url)}"

    def error(self, kind: type[HttpError], message: str, remedy: str, status: int | None = None) -> HttpError:
        elsewhere = "" if _origin_of(self.place) == self.home else host_of(self.place)
        place = {"method": self.method, "url": self.url, "redirected_to": elsewhere}
        return kind(message, remedy=remedy, status=status, **place)


class Session:
    """Send requests to one service. Use it for every HTTP request of the program, from any number of threads.

    More than six parameters: all but the address have a default; three replace time and chance in tests.

    Args:
        base_url: Paths are appended to it.
        secret_headers: Credentials: sent to the origin of `base_url` only, redacted from errors.
        patience: Time limits, and how often to try.
        plain_http: Whether the host of `base_url` may be used without encryption, on a private network.
        sleep, clock, chance: Wait for seconds, the seconds since 1970, and a number from 0 to 1.

    Raises:
        HttpError: `base_url` is neither https nor this machine.
        UsageError: A header cannot be sent.
    """

    def __init__(
        self,
        base_url: str,
        *,
        secret_headers: Headers | None = None,
        headers: Headers | None = None,
        patience: Patience | None = None,
        plain_http: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._base = base_url.rstrip("/")
        host = _split(self._base).hostname or ""
        self._plain_hosts = _LOCAL if host in _LOCAL else {host} - {""} if plain_http else frozenset()
        self._check_address("GET", self._base)
        self._origin = _origin_of(self._base)
        self._headers, self._secrets = _sendable(headers or {}), _sendable(secret_headers or {})
        self._patience = patience or Patience()
        self._sleep, self._clock, self._chance = sleep, clock, chance
        self._is_limited = False

    def __repr__(self) -> str:
        return f"Session({self._base!r})"

    @cached_property
    def _transport(self) -> Any:
        from agent_eval.http.connection import Transport

        return Transport()

    def close(self) -> None:
        """Close open connections. A further request opens a new one."""
        if "_transport" in self.__dict__:
            self._transport.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = None,
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
            method: POST is repeated only when it certainly was not carried out.
            path: Path that is appended to the base, or a whole URL (the next page of a listing).
            params, json: Parameters of the query, and the JSON value of the body; None for none.
            body, content_type: A body as it is sent, such as JSON packed by gzip, and its type; not `json`.
            accept: Statuses of 400 and above to return as an answer, instead of an error.
            max_bytes: Cap on the answer's decoded size.
            repeatable: Whether the request may be carried out twice; None for every method but POST.
            seconds: Time limit of each attempt; None for the patience's `transfer_timeout`.

        Raises:
            HttpError: One of its subclasses, or the answer has an error status, which is its `status`.
        """
        body = body if json is None else json_text.dumps(json, allow_nan=False).encode()
        headers = {} if body is None else {"Content-Type": content_type}
        seconds = self._patience.transfer_timeout if seconds is None else seconds
        url = path if "://" in path else f"{self._base}{path}"
        call = _Call(method, url, params, body, headers, max_bytes, seconds, self._origin)
        is_safe = method in _REPEATABLE if repeatable is None else repeatable
        waited, attempts = 0.0, self._patience.attempts
        for attempt in range(1, attempts + 1):
            wait = retry.backoff(attempt, self._patience, self._chance())
            status = None
            try:
                answer = self._follow(call)
            except errors.NotConnected as error:
                why, may_be_done = str(error), False
            except errors.BrokenExchange as error:
                why, may_be_done = str(error), True
            else:
                status, why = answer.status, f"HTTP {answer.status}"
                if status < 400 or status in accept:
                    return answer
                may_be_done = status in retry.RETRIED_STATUS
                wait = self._wait_after(call, answer, wait, waited, last=attempt == attempts)
            if may_be_done and not is_safe:
                message = f"It is not known whether {call} was carried out ({why})."
                remedy = "Check whether it was before repeating it."
                raise call.error(errors.UncertainOutcome, message, remedy, status)
            waited += wait
            if attempt == attempts or waited > self._patience.total_wait:
                why += ", too many waits" * (attempt < attempts)
                tried = f"in {count(attempt, 'attempt')} ({why})"
                message = f"{host_of(call.place)} gave no usable answer to {call} {tried}."
                remedy = "Run the job again; if it persists, check the service's status page and the address."
                raise call.error(errors.Unreachable, message, remedy, status)
            self._sleep(wait)
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    def pages(self, path: str, *, params: Params = None, max_pages: int) -> Iterator[Answer]:
        """Yield the pages of a listing, by their `Link` headers, `max_pages` at most."""
        answer = self.request("GET", path, params=params)
        yield answer
        for _ in range(max_pages - 1):
            link = _NEXT_LINK.search(answer.headers.get("link", ""))
            if link is None:
                return
            url = link.group(1)
            if _origin_of(url) != self._origin:
                message = f"{host_of(self._base)} names a next page on another host."
                raise RefusedRedirect(message, remedy="Check the API address.", method="GET", url=url)
            answer = self.request("GET", url)
            yield answer

    def _wait_after(self, call: _Call, answer: Answer, usual: float, waited: float, *, last: bool) -> float:
        """Compute the seconds to wait after an error status; raise where the request must not be repeated."""
        status, patience, now = answer.status, self._patience, self._clock()
        asked = retry.asked_wait(status, answer.headers, now=now)
        if retry.is_rate_limit(status, answer.headers, answer.body):
            wait = usual if asked is None else asked
            too_long = wait > min(patience.longest_wait, patience.total_wait - waited)
            if not (last or too_long or self._is_limited):
                return wait
            # Waiting for the same limit again would keep the job for minutes with every request that follows.
            self._is_limited = _origin_of(call.place) == self._origin
            stated = retry.stated_wait(answer.headers, now=now)
            end = retry.end_of_limit(stated, now=now)
            message = f"{answer.host} limits requests {end} (HTTP {status})."
            when = "later" if stated is None else "after that"
            remedy = f"Run the job again {when}, or use a token with a higher limit."
            raise call.error(RateLimited, message, remedy, status)
        if status in retry.RETRIED_STATUS:
            return min(patience.longest_wait, max(usual, asked or 0.0))
        why = answer.explanation
        for secret in " ".join(self._secrets.values()).split():
            why = why.replace(secret, "[redacted]") if len(secret) >= 8 else why
        message = f"{answer.host} answered {call} with HTTP {status}{f': {why}' if why else ''}."
        raise call.error(HttpError, message, "Check the address and the token's permissions.", status)

    def _follow(self, call: _Call) -> Answer:
        """Make one attempt: send the request and follow its redirects."""
        call.place, params = call.url, call.params
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._once(call, params)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            _split(location)
            target = urljoin(call.place, location)
            moved_for_good = answer.status in (307, 308) and _origin_of(target) == self._origin
            if call.method != "GET" and not moved_for_good:
                message = f"{call.method} {path_of(call.place)} is redirected; only reading follows that."
                raise call.error(
                    RefusedRedirect, message, "Use the repository's present name.", answer.status
                )
            # The location includes its query; adding the request's again would break signed addresses.
            call.place, params = target, None
        message = f"{path_of(call.place)} redirects more than {MAX_REDIRECTS} times."
        raise call.error(RefusedRedirect, message, "Check the API address.")

    def _once(self, call: _Call, params: Params) -> Answer:
        from requests import PreparedRequest

        from agent_eval.http.connection import Timing

        address = _STRAY_PERCENT.sub("%25", call.place)
        headers = {**_USUAL_HEADERS, **self._headers, **call.headers}
        prepared: Any = PreparedRequest()
        try:
            prepared.prepare(call.method, address, headers, data=call.body, params=params)
        except ValueError:
            raise _no_url() from None
        # requests connects to this address; from an odd one, two readers may take two hosts.
        self._check_address(call.method, prepared.url)
        if _origin_of(prepared.url) == self._origin:
            prepared.headers.update(self._secrets)
        end = time.monotonic() + call.seconds
        timing = Timing(self._patience.connect_timeout, self._patience.read_timeout, end)
        status, fields, body = self._transport.exchange(prepared, timing, call.max_bytes)
        if len(body) > call.max_bytes:
            message = f"{call.method} {path_of(call.place)} answered with more than {call.max_bytes} bytes."
            remedy = "Make the artifact smaller, or point to another one."
            raise call.error(errors.AnswerTooLarge, message, remedy, status)
        return Answer(status, fields, body, host_of(call.place))

    def _check_address(self, method: str, url: str) -> None:
        parts = _split(url)
        secure = parts.scheme == "https" and bool(parts.hostname)
        local = parts.scheme == "http" and (parts.hostname or "") in self._plain_hosts
        if "@" in parts.netloc or not (secure or local):
            message = (
                f"Refused to connect to {parts.scheme or 'no scheme'}://{host_of(url)}: only https is used."
            )
            remedy = "Give an https address without a user name."
            raise RefusedRedirect(message, remedy=remedy, method=method, url=url)


def _sendable(headers: Headers) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(f"{name}:{value}") or ":" in name:
            remedy = "Its name is a word, its value one line of Latin characters."
            raise UsageError(f"The header {name!r} cannot be sent.", remedy=remedy)
    return {name: value.strip() for name, value in headers.items()}


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # urlsplit checks port and host name only when they are read.
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:
        raise _no_url() from None
    return parts


def _no_url() -> RefusedRedirect:
    remedy = "Check the API address."
    return RefusedRedirect("An address is not a valid URL.", remedy=remedy, method="", url="")


def _origin_of(url: str) -> Origin:
    parts = _split(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").encode("idna").decode("ascii").lower(), port
