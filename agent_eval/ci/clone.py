"""A private clone of the checkout, and git without anybody's configuration, by which it is made.

What judges and decides is read in the clone, and both sides come out of it. It is made first of all. An
earlier step of the job, or the agent, can write whatever it likes below `.git` of the checkout and into the
user's configuration of git. So an empty repository fetches commits by their ids, and objects come over by
content alone: no replacement, graft, filter, attribute, hook or reference of the checkout counts, and an
object that was forged is refused.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from agent_eval.ci.workspace import Altered, Seal, as_code
from agent_eval.errors import NotEvaluable, RemoteError, StorageError, UsageError
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
    """

    url: str
    headers: tuple[str, ...] = field(default=(), repr=False)

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
        if remote is not None:
            environ = {**self._access, **environ, **remote.variables()}
            del environ["GIT_NO_LAZY_FETCH"]
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

    def init(self, commit: str, *arguments: str) -> None:
        """Make an empty repository for the kind of ids that a commit has."""
        kind = "sha256" if len(commit) == 64 else "sha1"
        self.run("init", "--quiet", "--template=", f"--object-format={kind}", *arguments)

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


MAX_FILE_BYTES = 1 << 20
_LAST_RESORT = "/var/tmp"  # noqa: S108 - a directory of its own is made there, by a random name
_UPLOAD = "env GIT_GRAFT_FILE=/dev/null git -c core.commitGraph=false upload-pack"
"""The other end of a fetch reads the checkout's grafts and its graph of commits, but for this."""

WHOLE_HISTORY = (
    "Fetch the whole history in the step that checks out (`fetch-depth: 0`, `GIT_DEPTH: 0`), or let the job "
    "have the token of the repository."
)


class NoCheckout(NotEvaluable):
    """Raised where the job does not run in a git checkout, or in one without a commit."""

    code = "no_checkout"


class CommitUnknown(NotEvaluable):
    """Raised where a commit is neither in the checkout nor to be had from its remote."""

    code = "base_unknown"


class DamagedObjects(NotEvaluable):
    """Raised where the checkout has a commit, or names one, whose objects are not what their ids say."""

    code = "damaged_objects"


class PrivateClone:
    """A bare repository below an own directory, with the commits that the job needs.

    Make it by `PrivateClone.of` before any code of the change runs, fetch what is needed, and `seal` it.

    Attributes:
        top: The top of the checkout, where `head` is checked out.
        of_checkout: What git keeps of the checkout, its objects among it.
        home: The own directory, of this user alone; worktrees may be made below it.
        remote: Where what the checkout lacks is fetched from; None once the clone is sealed.
    """

    def __init__(self, top: Path, home: Path, git: Git, remote: Remote | None) -> None:
        self.top, self.home, self.remote = top, home, remote
        self.git, self.directory = git, home / "clone.git"
        self.head = ""
        self.of_checkout = top / (git.line("rev-parse", "--git-common-dir", cwd=top) or ".git")
        self._at_hand: set[str] = set()
        self._sealed: Seal | None = None

    @classmethod
    def of(
        cls, start: Path, environ: Mapping[str, str], remote: Remote | None = None, *, head: str | None = None
    ) -> PrivateClone:
        """Clone the commit that is checked out, with its history; `start` is a directory in the checkout.

        The remote is the platform's own address of the repository, with the token of the job; None for none.
        `head` names a commit of the remote, for a job that checks nothing out.

        Raises:
            NoCheckout: There is no checkout, or it has no commit.
            CommitUnknown: Its history is not there, and not to be had from the remote.
            NotEvaluable: Its objects are damaged, there is no git or an old one, or no place for the clone.
        """
        top = top_of(start) if head is None else None
        if head is None and top is None:
            raise NoCheckout(
                "The job does not run in a git checkout.", remedy="Run it in one, with its history."
            )
        home = Path(tempfile.mkdtemp(prefix="agent-eval-", dir=_private_place(top or Path.cwd(), environ)))
        try:
            git = Git(home, environ)
            if top is None:
                top = home / "nothing"
                git.run("init", "--quiet", "--template=", str(top))
            clone = cls(top, home, git, remote)
            head = head or clone.git.line("rev-parse", "--verify", "--quiet", "HEAD", cwd=top)
            if head is None or COMMIT.fullmatch(head) is None:
                raise NoCheckout("The checkout has no commit.", remedy="Commit what is to be evaluated.")
            git.init(head, "--bare", str(clone.directory))
            clone.head = head
            clone.fetch(head)
            if not clone._lacks_history():
                # Builds name their version by the nearest tag.
                tags = (f"--upload-pack={_UPLOAD}", top.as_uri(), "+refs/tags/*:refs/tags/*")
                git.line("fetch", "--quiet", "--no-write-fetch-head", *tags, cwd=clone.directory)
                clone._in_clone("pack-refs", "--all")
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        return clone

    def close(self) -> None:
        """Remove everything below the own directory, what its owner may not write included."""
        for folder, names, _ in os.walk(self.home):
            for path in (os.path.join(folder, name) for name in names):
                if not os.path.islink(path):
                    with suppress(OSError):
                        os.chmod(path, 0o700)
        shutil.rmtree(self.home, ignore_errors=True)

    def tip(self, branch: str) -> str:
        """Ask the remote for the newest commit of a branch, and fetch that.

        Raises `CommitUnknown` where the remote is unknown, does not answer, or has no such branch.
        """
        name, asked = f"refs/heads/{branch}", ("ls-remote", "--quiet", REMOTE)
        try:
            answer = self.git.run(*asked, name, remote=self.remote) if self.remote else b""
        except GitFailed as error:
            raise CommitUnknown(
                f"The remote repository cannot be asked for the newest commit of {as_code(branch)}.",
                remedy="Check that the job can read the repository, then run it again.",
            ) from error
        for line in answer.decode("utf-8", "replace").splitlines():
            commit, _, reference = line.partition("\t")
            if reference == name and COMMIT.fullmatch(commit):
                self.fetch(commit)
                return commit
        why = "the remote repository has no such branch" if self.remote else "there is no remote repository"
        raise CommitUnknown(
            f"The newest commit of {as_code(branch)} is not known: {why}.",
            remedy="Name the branch that changes are merged into.",
        )

    def fetch(self, *commits: str) -> None:
        """Have commits, with their whole history, in the clone: from the checkout, else from the remote.

        Raises:
            CommitUnknown: One of them is in neither.
            DamagedObjects: The checkout has it, and its objects are damaged.
        """
        wanted = [commit for commit in commits if _checked(commit) not in self._at_hand]
        if not wanted:
            return
        is_fetched = not self._lacks_history()
        if is_fetched:
            try:
                self._fetch(self.top.as_uri(), wanted, f"--upload-pack={_UPLOAD}")
            except GitFailed as error:
                # Git says the same of a commit that is damaged as of one that is not there.
                objects = self.of_checkout / "objects"
                is_there = any((objects / commit[:2] / commit[2:]).exists() for commit in wanted)
                is_fetched = False
                if is_there or "not our ref" not in error.stderr:
                    raise DamagedObjects(
                        "The base commit cannot be read from the checkout: its objects are damaged.",
                        remedy="Check out again, without steps before that write below `.git`.",
                    ) from error
        if not is_fetched:
            why = "The base commit is not known: fetch the whole history."
            if self.remote is None:
                raise CommitUnknown(why, remedy=WHOLE_HISTORY)
            try:
                # Files come when they are checked out: of a long history only few are needed.
                self._fetch(REMOTE, wanted, *(("--filter=blob:none",) if self._lacks_history() else ()))
            except GitFailed as error:
                raise CommitUnknown(why, remedy=WHOLE_HISTORY) from error
        self._at_hand.update(wanted)

    def _lacks_history(self) -> bool:
        """Whether the checkout was made without its whole history, or without some files of it."""
        shallow = self.git.line("rev-parse", "--is-shallow-repository", cwd=self.top)
        return shallow == "true" or any((self.of_checkout / "objects" / "pack").glob("*.promisor"))

    def _fetch(self, source: str, commits: Sequence[str], *options: str) -> None:
        specs = [f"+{commit}:refs/agent-eval/{commit}" for commit in commits]
        flags = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        remote = self.remote if source == REMOTE else None
        self.git.run("fetch", *flags, *options, source, *specs, cwd=self.directory, remote=remote)

    def merge_base(self, first: str, second: str) -> str:
        """Find the commit where two lines of history parted; `CommitUnknown` where none is common."""
        base = self.git.line("merge-base", _checked(first), _checked(second), cwd=self.directory)
        if base is None:
            raise CommitUnknown(
                "The base commit is not known: the change has no history in common with its base branch.",
                remedy="Base the change on that branch.",
            )
        self._at_hand.add(base)
        return base

    def is_ancestor(self, earlier: str, later: str) -> bool:
        """Whether one commit is at or before another; an unknown one, or what is no commit id, is not."""
        if COMMIT.fullmatch(earlier) is None:
            return False
        try:
            self._in_clone("merge-base", "--is-ancestor", earlier, _checked(later))
        except GitFailed:
            return False
        return True

    def _in_clone(self, *arguments: str) -> bytes:
        return self.git.run(*arguments, cwd=self.directory)

    def ancestors(self, commit: str, *, most: int) -> list[str]:
        """List a commit and those before it, none before one that is made from it; at most so many."""
        order = ("--topo-order", f"--max-count={most}", _checked(commit), "--")
        return self._in_clone("rev-list", *order).decode().split()

    def same_tree(self, first: str, second: str) -> bool:
        """Whether two commits have the same files."""
        trees = (f"{_checked(commit)}^{{tree}}" for commit in (first, second))
        return len({self._in_clone("rev-parse", "--verify", tree) for tree in trees}) == 1

    def edited(self) -> list[str]:
        """List the files of `head` that the checkout has with other content, which is on no side of the job.

        Line ends do not count, nor do files of LFS, of which the commit has pointers.
        """
        where = {**self._index_of(self.head, self.top), "GIT_LITERAL_PATHSPECS": "0"}
        options = ("--numstat", "-z", "--diff-filter=M", "--ignore-cr-at-eol", "--ignore-submodules=all")
        command = ("diff-files", *options, "--", ":(attr:!filter)")
        output = self.git.run(*command, cwd=self.top, remote=self.remote, more=where)
        rows = (row.split("\t") for row in output.decode("utf-8", "surrogateescape").split("\0") if row)
        return [name for added, removed, name in rows if (added, removed) != ("0", "0")]

    def files(self, commit: str) -> list[str]:
        """List the regular files of a commit by path in the repository."""
        output = self._in_clone("ls-tree", "-r", "-z", "--full-tree", _checked(commit))
        entries = filter(None, output.decode("utf-8", "surrogateescape").split("\0"))
        return [entry.partition("\t")[2] for entry in entries if entry.startswith("100")]

    def write(self, commit: str, names: Sequence[str], directory: Path) -> None:
        """Write regular files of a commit, of any size, below a directory."""
        asked = "".join(f"{name}\0" for name in names).encode("utf-8", "surrogateescape")
        where, command = self._index_of(commit, directory), ("checkout-index", "--force", "-z", "--stdin")
        self.git.run(*command, cwd=directory, stdin=asked, remote=self.remote, more=where)

    def _index_of(self, commit: str, directory: Path) -> dict[str, str]:
        """Make an index of a commit, and return the variables by which git holds a directory against it."""
        index = {"GIT_INDEX_FILE": str(self.home / "index"), "GIT_WORK_TREE": str(directory)}
        where = {**index, "GIT_DIR": str(self.directory)}
        self.git.run("read-tree", _checked(commit), cwd=directory, more=where)
        return where

    def file(self, path: str, commit: str) -> bytes | None:
        """Read a file, by its path with `/`, as of a fetched commit; None if it does not exist there.

        Raises `RemoteError` where it is not a regular file of at most 1 MiB.
        """
        entry = self._in_clone("ls-tree", "-z", "--full-tree", _checked(commit), "--", path.rstrip("/"))
        if not entry:
            return None
        mode, kind, blob = entry.partition(b"\t")[0].decode().split(" ")
        if mode.startswith("100") and kind == "blob":
            content = self.git.run("cat-file", "blob", blob, cwd=self.directory, remote=self.remote)
            if len(content) <= MAX_FILE_BYTES:
                return content
        raise RemoteError(
            f"{as_code(path)} on the base branch is not a regular file of at most 1 MiB.",
            remedy="Name a smaller file.",
            path=path,
        )

    def seal(self) -> None:
        """Forget the remote and remember every file of the clone: from now on code of the change may run."""
        if self.remote is not None and self._lacks_history():
            # Of each commit in use, all files at once that the history came without.
            nothing = self._in_clone("hash-object", "-t", "tree", "/dev/null").decode().strip()
            try:
                for commit in sorted(self._at_hand):
                    all_files = ("diff-tree", "-r", "--shortstat", nothing, commit)
                    self.git.run(*all_files, cwd=self.directory, remote=self.remote)
            except GitFailed as error:
                raise CommitUnknown(
                    "The files of the base commit cannot be fetched.", remedy=WHOLE_HISTORY
                ) from error
        self.remote = None
        self._sealed = Seal(self.directory)

    def refuse_altered(self) -> None:
        """Refuse a clone that is not as it was when it was sealed, with every file of it."""
        path = self._sealed.altered() if self._sealed is not None else None
        if path is not None:
            raise Altered(
                f"The job's private clone was altered while the change ran: {as_code(path)}.",
                remedy="Nothing but the job may write there: look at what the agent and its setup do.",
                file=path,
            )


def _private_place(top: Path, environ: Mapping[str, str]) -> Path:
    """Choose the directory below which everything private of the job is made.

    Programs look upwards from where they run, node for `node_modules` and cargo for its settings, so it is
    neither in the checkout nor in `/tmp`, where whatever runs leaves files, but in what the runner empties
    after the job, or in the user's cache.
    """
    named = (environ.get("RUNNER_TEMP"), environ.get("XDG_CACHE_HOME"))
    home = environ.get("HOME")
    for candidate in (*named, f"{home}/.cache" if home else None, _LAST_RESORT):
        if candidate is None:
            continue
        place = Path(os.path.realpath(candidate))
        if place.is_relative_to(top):
            continue
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK | os.X_OK):
            return place
    raise StorageError(
        "There is no directory for the job's private clone.",
        remedy="Let HOME or XDG_CACHE_HOME name one outside of the checkout that can be written to.",
    )


def _checked(commit: str) -> str:
    if COMMIT.fullmatch(commit) is None:
        raise UsageError(
            f"{as_code(commit)} is no commit id.", remedy="Give all 40 or 64 hexadecimal digits of one."
        )
    return commit
