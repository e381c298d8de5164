"""The way to a host: its proxy and the trusted certificates. The environment names both.

The library requests looks up proxies: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in
both spellings, with networks in NO_PROXY, and the settings of macOS. Importing requests takes longer than a
hundred requests to an agent, so where nothing names a proxy it is not imported.
"""

from __future__ import annotations

import os
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit
from urllib.request import getproxies

BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables that name certificates; the first that is set counts."""

PORTS = {"http": 80, "https": 443}
"""Port of a scheme when the address names none."""

Origin = tuple[str, str, int | None]
"""Scheme, host and port; credentials belong to an origin."""

_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_IN_A_TARGET = "!#$%&'()*+,/:;=?@[]~"


class UnusableRoute(Exception):
    """Raised when the environment names a proxy or certificates that cannot be used.

    Attributes:
        message: The problem.
        remedy: The next step for the user.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


class Hop(NamedTuple):
    """Host that a connection is opened to.

    Attributes:
        scheme: `http` or `https`.
        host: Name or address in ASCII, an IPv6 address without its brackets.
        port: TCP port.

    Example:
        >>> Hop("http", "::1", 8080).netloc
        '[::1]:8080'
    """

    scheme: str
    host: str
    port: int

    @property
    def netloc(self) -> str:
        """Host and port as a URL has them: `name:port` or `[::1]:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Route:
    """Way to a host.

    Attributes:
        end: The host itself.
        proxy: Proxy to connect to instead; None without a proxy.
        proxy_headers: Credentials for the proxy; empty where it needs none.
        tls: Context that checks certificates; None where nothing is encrypted.

    Example:
        >>> Route(Hop("https", "api.example", 443), proxy=Hop("http", "proxy.example", 3128)).is_tunnelled
        True
    """

    end: Hop
    proxy: Hop | None = None
    proxy_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | None = None

    @property
    def is_tunnelled(self) -> bool:
        """Whether the proxy only forwards bytes, as it does for https."""
        return self.proxy is not None and self.end.scheme == "https"


def route_to(url: str) -> Route:
    """Find the way to the host of an http or https address, from the environment.

    Raises:
        UnusableRoute: The environment names certificates that do not exist, or a proxy that cannot be used.
    """
    end = hop_of(urlsplit(url))
    address = _proxy_for(f"{end.scheme}://{end.netloc}/")
    if address is None:
        return Route(end, tls=_tls() if end.scheme == "https" else None)
    proxy, headers = _proxy(address)
    return Route(end, proxy, headers, _tls() if "https" in (end.scheme, proxy.scheme) else None)


def hop_of(parts: SplitResult) -> Hop:
    """Return the host of an address that has been checked."""
    host = parts.hostname or ""
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    return Hop(parts.scheme, host, parts.port or PORTS[parts.scheme])


def _proxy_for(url: str) -> str | None:
    if not set(getproxies()) - {"no"}:
        return None
    from requests.utils import get_environ_proxies, select_proxy

    return select_proxy(url, get_environ_proxies(url)) or None


def _proxy(address: str) -> tuple[Hop, dict[str, str]]:
    """Split the address of a proxy from the credentials in it, which no error may show."""
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        hop = hop_of(parts)
    except (ValueError, KeyError):
        hop = Hop("", "", 0)
    if not hop.host or hop.scheme not in PORTS:
        raise UnusableRoute(
            "The environment names a proxy that cannot be used.",
            "Write HTTP_PROXY or HTTPS_PROXY as http://host:port.",
        )
    from requests.utils import get_auth_from_url

    user, password = get_auth_from_url(parts.geturl())
    if not user:
        return hop, {}
    credentials = b64encode(f"{user}:{password}".encode("latin-1", "replace")).decode("ascii")
    return hop, {"Proxy-Authorization": f"Basic {credentials}"}


def _tls() -> ssl.SSLContext:
    variable = next((name for name in BUNDLES if os.environ.get(name)), None)
    if variable is None:
        from requests.utils import DEFAULT_CA_BUNDLE_PATH

        return _trusting(DEFAULT_CA_BUNDLE_PATH)
    bundle = os.environ[variable]
    if not os.path.exists(bundle):
        raise UnusableRoute(
            f"There are no certificates at {bundle}, which the environment names.",
            f"Correct or remove {variable}.",
        )
    return _trusting(bundle)


@lru_cache(maxsize=8)
def _trusting(bundle: str) -> ssl.SSLContext:
    """Create a context that trusts a bundle; cached, because reading it takes longer than a request."""
    if os.path.isdir(bundle):
        return ssl.create_default_context(capath=bundle)
    return ssl.create_default_context(cafile=bundle)


def origin_of(url: str) -> Origin:
    """Return the origin of an address; the port is None where neither it nor its scheme names one."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or PORTS.get(parts.scheme)


def with_query(url: str, params: Mapping[str, str | int] | None) -> str:
    """Add parameters to the query of an address."""
    if not params:
        return url
    parts = urlsplit(url)
    return parts._replace(query="&".join(filter(None, (parts.query, urlencode(params))))).geturl()


@lru_cache(maxsize=64)
def target_of(url: str, *, absolute: bool) -> str:
    """Return the target of a request line: path and query; for a proxy, scheme and host before them."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    encoded = quote(_STRAY_PERCENT.sub("%25", target), safe=_IN_A_TARGET)
    if not absolute:
        return encoded
    netloc = parts.netloc if parts.netloc.isascii() else hop_of(parts).netloc
    return f"{parts.scheme}://{netloc}{encoded}"
