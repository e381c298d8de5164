"""What came back, and the errors that say why nothing usable did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from agent_eval.errors import RemoteError

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
