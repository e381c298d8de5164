"""Comment on a change that another platform hosts than the one on which the job runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from agent_eval.ci.comment import Comments, CommentWords, Marker, Published, publish
from agent_eval.ci.platforms.catalog import load, platform_specs
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.http.retry import Patience


@dataclass(frozen=True, kw_only=True)
class HostedChange:
    """A change under review, named by the address of its page.

    Example:
        >>> HostedChange(url="https://git.example/acme/shop/pull/7", settings=None).host
        'git.example'

    Args:
        url: Its page.
        settings: The checked settings of the job, which hold the token.
        sleep: Waits that many seconds between attempts; None for the usual way.
        patience: How long and how often the host is asked.
    """

    url: str
    settings: PlatformSettings
    sleep: Callable[[float], None] | None = field(default=None, repr=False)
    patience: Patience | None = None

    @property
    def host(self) -> str:
        """The host of the page, with its port where it states one."""
        return urlsplit(self.url).netloc.rpartition("@")[2].lower()

    def api_address(self, api_url: str, *, public: str, of_public: str) -> str:
        """Choose the API to which the token is sent: never to a host that only the change's address names.

        Args:
            api_url: The API's address as the user gave it; may be empty.
            public: The public service's host.
            of_public: The public service's API.

        Returns:
            The address; empty where the user has to give it.
        """
        if api_url:
            return api_url if _same_site(urlsplit(api_url).netloc.lower(), self.host) else ""
        return of_public if self.host == public else ""


def _same_site(api: str, host: str) -> bool:
    """Whether an API is on the host of the pages, or on `api.` before it."""
    return api in (host, f"api.{host}")


def comment_on(change: HostedChange, marker: Marker, body: str, *, full_report: str) -> Published | None:
    """Create or update the comment on a change, by the first platform that hosts it and was given a token.

    Args:
        change: The change.
        marker: Of this evaluation and run.
        body: Markdown that starts with the marker.
        full_report: Where the job leaves the full report.

    Returns:
        The result; None where no platform hosts such a change, or the job has no token for it.
    """
    for spec in platform_specs():
        comments: Comments | None = load(spec.comments_elsewhere)(change) if spec.comments_elsewhere else None
        if comments is not None:
            words = CommentWords(
                change=spec.words.change, full_report=full_report, refused="The token may not write comments"
            )
            return publish(comments, marker, body, words=words)
    return None
