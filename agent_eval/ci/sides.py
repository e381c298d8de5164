"""The two sides of a job, each checked out of the private clone, with nothing of the other's.

A side is a commit and nothing else: what earlier steps of the job made in the checkout, and what is not
committed there, is on neither side, so `setup` makes all that the agent needs. The change is run
there from its first run on, as fresh trials under other conditions than the first would say nothing.

Submodules and LFS files are fetched by the commit's own `.gitmodules` and `.lfsconfig`, from the host of the
repository and with the token of the job, and everything is held against its id: a submodule's objects by git,
an LFS file by the digest in its pointer. What the checkout already has is taken from there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Literal

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.command import split_command
from agent_eval.ci.clone import REMOTE, Git, GitFailed, PrivateClone, Remote
from agent_eval.ci.config import Setup
from agent_eval.ci.workspace import Altered, Seal, as_code
from agent_eval.config.spec import AgentSpec
from agent_eval.errors import FailureKind, NotEvaluable, RemoteError, UsageError
from agent_eval.http.client import Session
from agent_eval.operations.agent_setup import agent_options
from agent_eval.processes.child import TOOL_HOMES, ChildLimits, allowed_environment, run_child
from agent_eval.storage.atomic import HashedFile, write_unsynced

_LARGEST_POINTER = 1024

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*"
    rb"oid sha256:(?P<oid>[0-9a-f]{64})\nsize (?P<size>\d{1,18})\n"
)
"""What git has in the place of a file of LFS."""

_LARGEST_LFS_FILE = 2 << 30
_IN_A_BATCH = 100
_OF_LFS = "application/vnd.git-lfs+json"
_SECONDS = 900.0
_DEEPEST = 8
_CHUNK = 1 << 20
_BESIDE = ".agent-eval-lfs-"


class CannotCheckOut(NotEvaluable):
    """Raised where a commit cannot be checked out whole.

    `reason` says what is missing, for a sentence, such as "submodule `lib`".
    """

    code = "cannot_check_out"

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(
            f"The commit cannot be checked out: {reason}: {why}.",
            remedy="Let the token of the job read it, or fetch it in the step that checks out.",
        )
        self.reason = reason


@dataclass(frozen=True)
class _Source:
    """A bare repository with a commit, where it came from, and what the checkout keeps of it."""

    bare: Path
    remote: Remote | None
    of_checkout: Path
    depth: int = 0


def check_out(clone: PrivateClone, commit: str, directory: Path) -> frozenset[str]:
    """Check a commit out into a new directory: below `clone.home`, no code of the change finds it by chance.

    Its `.git` is a repository that borrows the clone's objects, so git works there (builds ask it for their
    version), and nothing that it writes gets into the clone.

    Returns its files, those of submodules included, by path below the directory. Raises `CannotCheckOut`
    where a submodule, an LFS file or a file of the commit is not to be had.
    """
    return frozenset(_populate(clone, _source_of(clone), commit, directory))


def _source_of(clone: PrivateClone) -> _Source:
    return _Source(clone.directory, clone.remote, clone.of_checkout)


def _populate(clone: PrivateClone, source: _Source, commit: str, directory: Path) -> Iterator[str]:
    """Fill a directory, and list its files by path below it."""
    git, own = clone.git, directory / ".git"
    try:
        git.init(commit, str(directory))
        write_unsynced(own / "objects" / "info" / "alternates", os.fsencode(source.bare / "objects") + b"\n")
        for name in ("packed-refs", "shallow"):
            if (source.bare / name).is_file():
                write_unsynced(own / name, (source.bare / name).read_bytes())
        # By the clone's repository, which fetches files that it does not have yet, all of them at once.
        where = {"GIT_DIR": str(source.bare), "GIT_WORK_TREE": str(directory)}
        where["GIT_INDEX_FILE"] = str(own / "index")
        git.run("read-tree", "-m", "-u", commit, cwd=directory, remote=source.remote, more=where)
        git.run("update-ref", "--no-deref", "HEAD", commit, cwd=directory)
    except GitFailed as error:
        raise CannotCheckOut("its files", "the objects are neither in the checkout nor at hand") from error
    entries = git.run("ls-tree", "-r", "-z", "--full-tree", commit, cwd=source.bare).split(b"\0")
    names, links = [], {}
    for entry in filter(None, entries):
        about, _, name = entry.decode("utf-8", "surrogateescape").partition("\t")
        mode, _, digest = about.split(" ")
        if mode == "160000":
            links[name] = digest
        else:
            names.append(name)
    _fetch_lfs(git, source, commit, directory, names)
    yield from names
    modules = _modules(git, source.bare, commit)
    for path, digest in links.items():
        if path not in modules:
            continue  # a link without an address stays an empty directory, as in every checkout
        inner = _submodule(clone, source, digest, path, modules[path])
        for name in _populate(clone, inner, digest, directory / path):
            yield f"{path}/{name}"


def _modules(git: Git, bare: Path, commit: str) -> dict[str, tuple[str, str]]:
    """Read name and address of each submodule by its path, as the commit's own `.gitmodules` has them."""
    listed = git.line("config", "--blob", f"{commit}:.gitmodules", "-z", "--list", cwd=bare) or ""
    sections: dict[str, dict[str, str]] = {}
    for entry in filter(None, listed.split("\0")):
        key, _, value = entry.partition("\n")
        section, _, setting = key.rpartition(".")
        if section.startswith("submodule."):
            sections.setdefault(section.removeprefix("submodule."), {})[setting] = value
    return {
        rows["path"].rstrip("/"): (name, rows["url"])
        for name, rows in sections.items()
        if {"path", "url"} <= rows.keys()
    }


def _submodule(
    clone: PrivateClone, source: _Source, commit: str, path: str, module: tuple[str, str]
) -> _Source:
    """Fetch the commit of a submodule: from the checkout's copy of it, else from its own address."""
    git, (name, url) = clone.git, module
    reason = f"submodule {as_code(path)}"
    if source.depth >= _DEEPEST:
        raise CannotCheckOut(reason, f"submodules are nested more than {_DEEPEST} deep")
    bare = clone.home / f"module-{len(list(clone.home.glob('module-*')))}.git"
    git.init(commit, "--bare", str(bare))
    remote = source.remote.sibling(url) if source.remote is not None else None
    copy = source.of_checkout / "modules" / name
    has_copy = not {"..", "/"} & set(Path(name).parts) and copy.is_dir()
    addresses: list[tuple[str, Remote | None]] = [(copy.as_uri(), None)] if has_copy else []
    if remote is not None:
        bare_url = remote.url.removesuffix(".git").rstrip("/")
        urls = dict.fromkeys((remote.url, f"{bare_url}.git"))
        addresses += [(REMOTE, replace(remote, url=address)) for address in urls]
    flags = ("--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    for address, access in addresses:
        with suppress(GitFailed):
            spec = f"+{commit}:refs/agent-eval/{commit}"
            git.run("fetch", *flags, address, spec, cwd=bare, remote=access)
            return _Source(bare, remote, copy, source.depth + 1)
    if remote is None:
        raise CannotCheckOut(reason, _not_here(source))
    raise CannotCheckOut(reason, "its repository cannot be read, or does not have the commit")


def write_files(clone: PrivateClone, commit: str, names: Sequence[str], directory: Path) -> None:
    """Write regular files of a commit below a directory; raises `CannotCheckOut` for one that LFS lacks."""
    attributes = [name for name in clone.files(commit) if Path(name).name == ".gitattributes"]
    clone.write(commit, [*names, *attributes], directory)
    _fetch_lfs(clone.git, _source_of(clone), commit, directory, names)


def _fetch_lfs(git: Git, source: _Source, commit: str, directory: Path, names: Sequence[str]) -> None:
    """Put the files of LFS in the place of their pointers."""
    missing = {}
    where = {"GIT_DIR": str(source.bare), "GIT_WORK_TREE": str(directory)}
    for name, (oid, size) in _pointers(git, where, directory, names).items():
        copy = source.of_checkout / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
        try:
            descriptor = os.open(copy, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            missing[name] = oid, size
            continue
        with open(descriptor, "rb") as content:
            if not _put(content, directory / name, oid):
                missing[name] = oid, size
    if not missing:
        return
    reason = f"LFS file {as_code(min(missing))}"
    own = git.line("config", "--blob", f"{commit}:.lfsconfig", "lfs.url", cwd=source.bare)
    remote = source.remote
    if own is not None and remote is not None:
        remote = remote.sibling(own)
    if remote is None or remote.origin is None:
        raise CannotCheckOut(reason, _not_here(source))
    if own is None:
        remote = replace(remote, url=f"{remote.url.rstrip('/').removesuffix('.git')}.git/info/lfs")
    try:
        for name, data in _downloaded(remote, missing):
            reason = f"LFS file {as_code(name)}"
            if not _put(BytesIO(data), directory / name, missing[name][0]):
                raise CannotCheckOut(reason, "what was sent is another file than its pointer says")
    except (RemoteError, UsageError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotCheckOut(reason, "its host does not give it") from error


def _not_here(source: _Source) -> str:
    return "the checkout does not have it" + (", and it is on another host" if source.remote else "")


def _pointers(
    git: Git, where: Mapping[str, str], directory: Path, names: Sequence[str]
) -> dict[str, tuple[str, int]]:
    """Find the pointers among files: digest and bytes of what they stand for, by path."""
    small = []
    for name in names:
        status = os.lstat(directory / name)
        if status.st_size < _LARGEST_POINTER and not os.path.islink(directory / name):
            content = (directory / name).read_bytes()
            if pointer := _POINTER.fullmatch(content):
                small.append((name, pointer["oid"].decode(), int(pointer["size"])))
    if not small:
        return {}
    asked = b"".join(os.fsencode(name) + b"\0" for name, _, _ in small)
    answer = git.run("check-attr", "-z", "--stdin", "filter", cwd=directory, stdin=asked, more=where)
    words = answer.decode("utf-8", "surrogateescape").split("\0")
    by_lfs = {name for name, value in zip(words[::3], words[2::3], strict=False) if value == "lfs"}
    return {name: (oid, size) for name, oid, size in small if name in by_lfs}


def _put(content: BinaryIO, place: Path, oid: str) -> bool:
    """Put content in the place of a pointer, if it is what the pointer says."""
    beside = place.with_name(f"{_BESIDE}{oid}")
    with HashedFile(beside) as file:
        while chunk := content.read(_CHUNK):
            file.write(chunk)
    if file.sha256 == oid:
        shutil.copymode(place, beside)
        os.replace(beside, place)
        return True
    os.unlink(beside)
    return False


def _downloaded(remote: Remote, missing: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, bytes]]:
    """Ask the API of LFS for objects, and yield the content of each file.

    Its answer names an address for each object, often on another host, where no header of the job goes.
    """
    split = (line.partition(":") for line in remote.headers)
    secrets = {name.strip(): value.strip() for name, _, value in split}
    session = Session(remote.url, secret_headers=secrets, headers={"Accept": _OF_LFS})
    rows = sorted(missing.items())
    for start in range(0, len(rows), _IN_A_BATCH):
        batch = dict(rows[start : start + _IN_A_BATCH])
        objects = [{"oid": oid, "size": size} for oid, size in dict.fromkeys(batch.values())]
        question = {"operation": "download", "transfers": ["basic"], "objects": objects}
        answer = session.request(
            "POST", "/objects/batch", json=question, repeatable=True, content_type=_OF_LFS
        )
        actions = {row["oid"]: row["actions"]["download"] for row in json.loads(answer.body)["objects"]}
        for name, (oid, size) in batch.items():
            if size > _LARGEST_LFS_FILE:
                raise CannotCheckOut(f"LFS file {as_code(name)}", "it is larger than 2 GiB")
            href, headers = actions[oid]["href"], actions[oid].get("header") or {}
            own = secrets if Remote(href).origin == remote.origin else {}
            source = Session(href, secret_headers={**own, **headers})
            yield name, source.request("GET", href, max_bytes=size + 1, seconds=_SECONDS).body
            source.close()
    session.close()


SETTINGS_OF_HOME = (
    *(".npmrc", ".yarnrc.yml", ".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml"),
    *(".cargo/config.toml", ".cargo/credentials.toml", ".docker/config.json", ".gitconfig"),
    *(".m2/settings.xml", ".netrc", ".pypirc", ".aws/config", ".aws/credentials"),
    ".config/gcloud/application_default_credentials.json",
)
"""What says where packages and services are, and by whose leave. Each side has a copy; of caches none."""

_CACHE = re.compile(r".*_(cache|cache_(dir|home|folder|path))|gocache|gomodcache", re.IGNORECASE)

_XDG = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}

_PACKAGES = (
    *("lib/python*/site-packages", "lib/python*/dist-packages", "lib64/python*/site-packages"),
    *("lib/node_modules", "lib/node_modules/@*", "lib/ruby/gems/*/gems"),
)
"""Where, below the directory that a `bin` of PATH is in, installers put what all programs there can use."""

_OUTPUT_BYTES = 64 << 20
_SHOWN_LINES = 40
_SHOWN_CHARACTERS = 6_000
_Entry = tuple[int, int, int, int]


class NoSuchDirectory(NotEvaluable):
    """Raised where a commit does not have the directory that the job works in."""

    code = "no_such_directory"


class SetupFailed(NotEvaluable):
    """Raised when `setup` fails. `details["output"]` is the end of what it printed."""

    code = "setup_failed"


class Side:
    """A commit that is checked out, with a HOME, TMPDIR and caches of its own.

    `start` is the directory in the checkout that the job works in; None for the working directory.
    `directory` is the same in the worktree: agent and setup run there. Children get a part of `environ`,
    which has the environment variables of the job as this side sees them. `sources` seals the tracked files,
    after a setup or trials of this side's own agent anew: agents write logs and caches beside them.

    Raises:
        CannotCheckOut: A submodule, an LFS file or a file of it is not to be had.
        NoSuchDirectory: The commit does not have the directory.
    """

    def __init__(
        self,
        clone: PrivateClone,
        name: Literal["change", "base"],
        commit: str,
        environ: Mapping[str, str],
        start: Path | None = None,
    ) -> None:
        self.name, self.commit = name, commit
        place = clone.home / name
        place.mkdir()
        # Some programs name what they make after the directory.
        self.top = self.directory = place / "tree" / clone.top.name
        self.sources = Seal(self.top, check_out(clone, commit, self.top))
        self._of_checkout = clone.top
        self._inside = re.compile(rf"{re.escape(str(clone.top))}(?![\w.-])")
        self._home, self._temporary = place / "home", place / "tmp"
        self._installed: dict[str, _Entry] = {}
        self.directory = self.path((start or Path.cwd()).resolve())
        if not self.directory.is_dir():
            where = self.directory.relative_to(self.top).as_posix()
            raise NoSuchDirectory(
                f"There is no directory {as_code(where)} in commit {commit[:7]}.",
                remedy="Run the job in a directory that both sides have.",
            )
        self.environ = self._surroundings(environ)

    def path(self, path: Path) -> Path:
        """Where a path is in the worktree that is absolute in the checkout, or relative to `directory`."""
        if path.is_relative_to(self.top):
            return path
        if path.is_relative_to(self._of_checkout):
            return self.top / path.relative_to(self._of_checkout)
        return self.directory / path

    def set_up(self, setup: Setup, say: Callable[[str], None]) -> None:
        """Run `setup` there, and take what it left as the sources of this side."""
        self.refuse_altered()
        setup = replace(setup, command=self.moved(setup.command))
        set_up(setup, self.environ, say, cwd=self.directory, of=self.name)
        self.sources.renew()

    def moved(self, text: str) -> str:
        """Write the worktree wherever a text, such as a command, names the checkout."""
        return self._inside.sub(lambda _: str(self.top), text)

    def agent(self, agent: AgentSpec) -> AgentSpec:
        """Copy the specification of an agent with commands and files of this side's worktree."""
        command, name, repair = (
            self.moved(text) if text is not None else None
            for text in (agent.command, agent.name, agent.repair_command)
        )
        prompt = self.path(agent.system_prompt) if agent.system_prompt is not None else None
        return replace(agent, command=command, name=name, repair_command=repair, system_prompt=prompt)

    def options(self, agent: AgentSpec) -> AgentOptions:
        """Read the settings of an agent as this side has them: its variables, and its system prompt."""
        return replace(agent_options(self.agent(agent), self.environ), cwd=self.directory)

    def refuse_altered(self) -> None:
        """Refuse a side whose sources the other altered. For the base, before each of its trials."""
        path = self.sources.altered()
        if path is not None:
            raise Altered(
                f"Files of the {self.name} were altered while the other side ran: {as_code(path)}.",
                remedy="Let agent and setup write below their own working directory.",
                file=path,
            )

    def note_installed(self, command: str | None) -> None:
        """Remember the installed programs and packages that the agent may use, before the other's setup."""
        self._installed = dict(self._usable(command))

    def installed_altered(self, command: str | None) -> str | None:
        """Find a program or package that was installed, removed or altered since; None without one."""
        now, before = dict(self._usable(command)), self._installed
        return min(
            (path for path in now.keys() | before.keys() if now.get(path) != before.get(path)), default=None
        )

    def _surroundings(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Make home and temporary directory, and the variables that lead there."""
        home = Path(environ.get("HOME", "/nonexistent"))
        for place in (self._home, self._temporary):
            place.mkdir(mode=0o700)
        for name in SETTINGS_OF_HOME:
            if (home / name).is_file():
                (self._home / name).parent.mkdir(parents=True, exist_ok=True)
                write_unsynced(self._home / name, (home / name).read_bytes())
                (self._home / name).chmod(0o600)
        moved = {}
        for name, value in environ.items():
            # A file that no commit has, such as credentials, was made in the checkout by an earlier step.
            is_file = Path(value).is_relative_to(self._of_checkout) and os.path.isfile(value)
            stays = is_file and not os.path.exists(self.path(Path(value)))
            moved[name] = value if stays else self.moved(value)
        moved.pop("VIRTUAL_ENV", None)
        caches = {name: str(self._home / ".cache" / name.lower()) for name in moved if _CACHE.fullmatch(name)}
        tools = {
            name: moved.get(name) or str(home / below)
            for name, below in TOOL_HOMES
            if moved.get(name) or (home / below).is_dir()
        }
        cargo = str(Path(moved.pop("CARGO_HOME", home / ".cargo")) / "bin")
        folders = moved.get("PATH", os.defpath).split(os.pathsep)
        if cargo not in folders and os.path.isdir(cargo):
            folders.append(cargo)
        return {
            **moved,
            **caches,
            **tools,
            **{name: str(self._home / below) for name, below in _XDG.items()},
            **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(self._temporary)),
            "HOME": str(self._home),
            "PATH": os.pathsep.join(folders),
        }

    def _usable(self, command: str | None) -> Iterator[tuple[str, _Entry]]:
        """Yield what is directly in each directory of programs and packages outside of this side's own."""
        folders = [Path(name) for name in self.environ["PATH"].split(os.pathsep) if name]
        if command is not None and "/" in (first := split_command(command)[0]):
            folders.append((self.directory / first).parent)
        if (versions := self.environ.get("PYENV_ROOT")) is not None:
            folders += Path(versions).glob("versions/*/bin")
        places = [*folders]
        for folder in folders:
            if folder.name in ("bin", "sbin"):
                places += (place for pattern in _PACKAGES for place in folder.parent.glob(pattern))
        for variable in ("PYTHONPATH", "NODE_PATH"):
            places += (Path(name) for name in self.environ.get(variable, "").split(os.pathsep) if name)
        for place in sorted({Path(os.path.realpath(place)) for place in places}):
            if place.is_relative_to(self._home.parent):
                continue
            try:
                with os.scandir(place) as entries:
                    for entry in (entry for entry in entries if entry.name != "__pycache__"):
                        status = entry.stat(follow_symlinks=False)
                        # Of a directory an installer changes the identity: bytecode comes into it.
                        is_folder = entry.is_dir(follow_symlinks=False)
                        content = (0, 0) if is_folder else (status.st_size, status.st_mtime_ns)
                        yield entry.path, (status.st_mode, status.st_ino, *content)
            except OSError:
                continue


def set_up(
    setup: Setup,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    cwd: Path | None = None,
    *,
    of: str = "change",
) -> None:
    """Run `setup`, if there is one, without the job's secrets.

    `say` prints into the job's log, which names `of`, what is checked out at `cwd`. Raises `SetupFailed`
    where the command failed or took too long.
    """
    if not setup.command:
        return
    say(f"Running `setup` of the {of}.")
    done = run_child(
        # Both streams as one, so that an error is printed where it occurred.
        ["/bin/sh", "-e", "-c", f"exec 2>&1\n{setup.command}"],
        env=allowed_environment(environ, setup.environment),
        limits=ChildLimits(seconds=setup.seconds, stdout_bytes=_OUTPUT_BYTES),
        cwd=cwd,
    )
    if done.failure is None:
        say(f"`setup` is done after {done.duration_s:.0f} s.")
        return
    lines = done.stdout[-4 * _SHOWN_CHARACTERS :].decode("utf-8", "replace").splitlines()
    output = "\n".join(lines[-_SHOWN_LINES:])[-_SHOWN_CHARACTERS:]
    printed = f"The end of what it printed:\n{output}" if output.strip() else "It printed nothing."
    say(f"`setup` {done.problem}. {printed}")
    remedy = (
        "Give it longer with `limits.setup_seconds`."
        if done.failure is FailureKind.TIMEOUT
        else "Correct it; variables it needs are named in `setup.env`."
    )
    raise SetupFailed(f"`setup` {done.problem}.", remedy=remedy, output=output)
