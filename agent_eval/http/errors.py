"""Errors of HTTP requests, and the parts of an address that may be shown."""

from __future__ import annotations

from typing import Any
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


def said_in(body: Any, *, depth: int = 12) -> str:
    """Join what the JSON of a refusal says in words, wherever services put them; empty if it says nothing.

    Example:
        >>> said_in({"detail": [{"loc": ["body", "model"], "msg": "field required"}]})
        'body.model: field required'
    """
    if depth == 0 or not isinstance(body, list | dict):
        return body if isinstance(body, str) else ""
    if isinstance(body, list):
        return "; ".join(filter(None, (said_in(item, depth=depth - 1) for item in body)))
    words, place = body.get("message", body.get("msg")), body.get("loc", body.get("field"))
    inner = [body.get(name) for name in ("error", "errors", "detail", "details")]
    sentence = said_in([words, *inner], depth=depth - 1)
    place = ".".join(map(str, place)) if isinstance(place, list) else place
    return f"{place}: {sentence}" if place and sentence else sentence


def one_line(text: str, limit: int) -> str:
    """Return the beginning of a text as one printable line."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:limit]
