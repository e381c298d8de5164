"""Errors of HTTP requests, and the parts of an address that may be shown."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent_eval.errors import RemoteError


class HttpError(RemoteError):
    """Raised when a request has no answer that can be used; catch it to handle all errors of this module.

    `status` is None when there was no answer at all. `redirected_to` is a host other than the service's, to
    which a redirect led and where it failed; else empty.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        status: int | None = None,
        method: str,
        url: str,
        redirected_to: str = "",
    ) -> None:
        place = {"method": method, "host": redirected_to or host_of(url), "path": path_of(url)}
        super().__init__(message, remedy=remedy, status=status, **place)
        self.status, self.redirected_to = status, redirected_to


class Unreachable(HttpError):
    """Raised after the last allowed attempt, when none had an answer other than a server error."""


class RateLimited(HttpError):
    """Raised when the service asks for a longer wait than the patience allows."""


class UncertainOutcome(HttpError):
    """Raised when the service may have carried out the request. Check that before repeating it."""


class AnswerTooLarge(HttpError):
    """Raised when the answer is larger than the cap of the request."""


class RefusedRedirect(HttpError):
    """Raised when an address, redirect or next page is refused: not https, another host, or no valid URL."""


class NotConnected(Exception):
    """Raised when no connection could be opened. Nothing was sent, so the request may be repeated."""


class BrokenExchange(Exception):
    """Raised when the answer is missing or incomplete; the service may have carried out the request."""


def host_of(url: str) -> str:
    """Return host and port of a URL, without user information."""
    return urlsplit(url).netloc.rpartition("@")[2]


def path_of(url: str) -> str:
    """Return the path of a URL, without query and fragment, which can contain secrets."""
    return urlsplit(url).path
