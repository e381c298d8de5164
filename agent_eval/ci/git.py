"""Run git so that no configuration, hook, filter, attribute or replacement of a checkout counts.

An earlier step of the job, or the agent, can write whatever it likes below `.git` of the checkout and into
the user's configuration of git. Nothing of that is read here, but for the objects themselves, which git
names by their content.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from agent_eval.errors import NotEvaluable
from agent_eval.processes.child import ChildLimits, ChildResult, allowed_environment, run_child
from agent_eval.storage.atomic import write_unsynced

COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
REMOTE = "origin"
OLDEST_GIT = (2, 32)
"""Older ones do not know the variables that keep other configuration out."""

_SECONDS = 900.0
_OUTPUT_BYTES = 64 << 20
_ACCESS = (
    *("SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_SSH_VARIANT", "GIT_SSL_CAINFO"),
    *("GIT_ASKPASS", "SSH_ASKPASS", "GIT_USERNAME", "GIT_PASSWORD"),
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_SETTINGS = (
    "advice.detachedHead=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",
    "gc.auto=0",
    # The token of the job would go along to where the answer leads.
    "http.followRedirects=false",
    "maintenance.auto=false",
)
_SCP_LIKE = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>[^/\\].*)")


@dataclass(frozen=True)
class Remote:
    """A repository that git can fetch from, and the headers by which its host knows the job.

    Attributes:
        url: Its address, without credentials: http, https, ssh, `host:path`, file, or an absolute path.
        headers: Whole header lines such as `Authorization: Basic …`, for the origin of `url` alone. Git gets
            them by its environment, which no other user can read, and never as arguments.
        by_user: Whether git reaches it by the user's own configuration, such as a credential helper. That is
            for a person's own machine: in a job, an earlier step can write that configuration.
    """

    url: str
    headers: tuple[str, ...] = field(default=(), repr=False)
    by_user: bool = False

    @classmethod
    def by_token(cls, url: str, user: str, token: str) -> Remote:
        """Make the remote of a host that takes a token as the password of a user; an empty token is none."""
        login = b64encode(f"{user}:{token}".encode()).decode()
        return cls(url, (f"Authorization: Basic {login}",) if token else ())

    @property
    def host(self) -> str:
        """The host, with its port; empty for a path on this machine."""
        if "://" not in self.url:
            parts = _SCP_LIKE.fullmatch(self.url)
            return parts["host"].lower() if parts and not self.url.startswith("/") else ""
        return urlsplit(self.url).netloc.rpartition("@")[2].lower()

    @property
    def origin(self) -> str | None:
        """Scheme and host, to which the headers belong; None for anything but http and https."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{self.host}" if parts.scheme in ("http", "https") else None

    def sibling(self, url: str) -> Remote | None:
        """The repository at another address, which may be relative to this one; None on another host.

        `git@HOST:path` and `https://HOST/path` name one host: of a submodule that is written in the other way
        the address is rewritten to this one's, as only that is known to work in the job.
        """
        if url.startswith(("./", "../")):
            base, separator = self.url.rstrip("/"), "/"
            while url.startswith(("./", "../")):
                up, _, url = url.partition("/")
                if up == "..":
                    cut = max(base.rfind("/"), base.rfind(":") if "://" not in base else -1)
                    base, separator = base[:cut], base[cut] if cut >= 0 else ""
            beside = replace(self, url=f"{base}{separator}{url}")
            return beside if beside.host == self.host and separator else None
        other = Remote(url)
        name, _, port = self.host.partition(":")
        if other.host != self.host and (other.host.partition(":")[0] != name or port):
            return None
        if self.origin is None or other.origin == self.origin:
            return replace(self, url=url)
        path = urlsplit(url).path if "://" in url else url.partition(":")[2]
        return replace(self, url=f"{self.origin}/{path.lstrip('/')}")

    def variables(self) -> dict[str, str]:
        """The environment variables from which git takes the address, as `origin`, and the headers."""
        settings = [(f"remote.{REMOTE}.url", self.url)]
        settings += [(f"http.{self.origin}/.extraHeader", header) for header in self.headers if self.origin]
        variables = {"GIT_CONFIG_COUNT": str(len(settings))}
        for number, (name, value) in enumerate(settings):
            variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return variables


class GitFailed(NotEvaluable):
    """Raised when git fails. `stderr` is what it printed, for this program alone: it may hold an address."""

    code = "git_failed"

    def __init__(self, command: str, result: ChildResult) -> None:
        super().__init__(
            f"`git {command}` {result.problem}.", remedy="Check git, and the disk of this machine."
        )
        self.stderr = result.stderr.decode("utf-8", "replace")


class Git:
    """Runs git without anybody's configuration; `NotEvaluable` where there is no git, or an old one.

    The configuration is written in `home`, an own directory: it has `safe.directory = *`, which the other end
    of a fetch reads too, for a checkout of another owner. Git sees a part of `environ`.
    """

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._cwd = home
        config = home / "gitconfig"
        write_unsynced(config, b"[safe]\n\tdirectory = *\n")
        proxies = tuple(name for name in environ if name.upper() in _PROXIES)
        self._access = allowed_environment(environ, (*_ACCESS, *proxies))
        self._environ = {
            **allowed_environment(environ),
            "GIT_ALLOW_PROTOCOL": "file:http:https:ssh",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(config),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        text = self.line("version") or "no git"
        version = re.search(r"(\d+)\.(\d+)", text)
        if version is None or (int(version[1]), int(version[2])) < OLDEST_GIT:
            oldest = ".".join(map(str, OLDEST_GIT))
            raise NotEvaluable(f"This machine has {text}.", remedy=f"Install git {oldest} or newer.")

    def run(
        self,
        *arguments: str,
        cwd: Path | None = None,
        stdin: bytes = b"",
        remote: Remote | None = None,
        more: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run git, by default in the own directory, and return what it prints.

        The remote becomes `origin`. Only with one does git see what gives access to other machines. Raises
        `GitFailed` where the exit code is not 0, or git took too long.
        """
        environ = {**self._environ, **(more or {})}
        # What writes files does so without the filters of anybody.
        is_of_remote = arguments[0] in ("fetch", "ls-remote")
        if remote is not None:
            environ = {**self._access, **environ, **remote.variables()}
            without = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM") if remote.by_user and is_of_remote else ()
            for name in ("GIT_NO_LAZY_FETCH", *without):
                del environ[name]
        result = run_child(
            ["git", *(word for setting in _SETTINGS for word in ("-c", setting)), *arguments],
            stdin=stdin,
            env=environ,
            limits=ChildLimits(seconds=_SECONDS, stdout_bytes=_OUTPUT_BYTES),
            cwd=cwd or self._cwd,
        )
        if result.failure is not None:
            raise GitFailed(arguments[0], result)
        return result.stdout

    def line(self, *arguments: str, cwd: Path | None = None) -> str | None:
        """Run git and return the line that it prints; None where it fails or prints nothing."""
        try:
            return self.run(*arguments, cwd=cwd).decode("utf-8", "surrogateescape").strip() or None
        except GitFailed:
            return None


def top_of(start: Path) -> Path | None:
    """Find the top of the checkout that a directory is in; None outside of any."""
    start = Path(os.path.realpath(start))
    return next((at for at in (start, *start.parents) if (at / ".git").exists()), None)
