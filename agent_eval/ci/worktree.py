"""Check a commit out of the private clone, with its submodules and LFS files, into a repository of its own.

What a commit names is fetched by the commit's own `.gitmodules` and `.lfsconfig`, from the host of the
repository and with the token of the job, and everything is held against its id: a submodule's objects by git,
an LFS file by the digest in its pointer. What the checkout already has is taken from there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from agent_eval.ci.clone import LARGEST_POINTER, POINTER, PrivateClone
from agent_eval.ci.git import REMOTE, Git, GitFailed, Remote
from agent_eval.ci.seal import as_code
from agent_eval.errors import NotEvaluable, RemoteError, UsageError
from agent_eval.http.client import Session
from agent_eval.storage.atomic import HashedFile, write_unsynced

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
class Worktree:
    """A commit that is checked out: its top, and its files, those of submodules included, by path below it.

    Its `.git` is a repository that borrows the clone's objects, so git works there (builds ask it for their
    version), and nothing that it writes gets into the clone.
    """

    directory: Path
    tracked: frozenset[str]


@dataclass(frozen=True)
class _Source:
    """A bare repository with a commit, where it came from, and what the checkout keeps of it."""

    bare: Path
    remote: Remote | None
    of_checkout: Path
    depth: int = 0


def check_out(clone: PrivateClone, commit: str, directory: Path) -> Worktree:
    """Check a commit out into a new directory: below `clone.home`, no code of the change finds it by chance.

    Raises `CannotCheckOut` where a submodule, an LFS file or a file of the commit is not to be had.
    """
    source = _Source(clone.directory, clone.remote, clone.of_checkout)
    return Worktree(directory, frozenset(_populate(clone, source, commit, directory)))


def _populate(clone: PrivateClone, source: _Source, commit: str, directory: Path) -> Iterator[str]:
    """Fill a directory, and list its files by path below it."""
    git, own = clone.git, directory / ".git"
    try:
        _new_repository(git, commit, str(directory))
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


def _new_repository(git: Git, commit: str, *arguments: str) -> None:
    """Make an empty repository for the kind of ids that a commit has."""
    kind = "sha256" if len(commit) == 64 else "sha1"
    git.run("init", "--quiet", "--template=", f"--object-format={kind}", *arguments)


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
    _new_repository(git, commit, "--bare", str(bare))
    remote = source.remote.sibling(url) if source.remote is not None else None
    copy = source.of_checkout / "modules" / name
    has_copy = not {"..", "/"} & set(Path(name).parts) and copy.is_dir()
    own = _Source(bare, remote, copy, source.depth + 1)
    if has_copy and _fetched(git, own, copy.as_uri(), commit, None):
        return own
    if remote is None:
        raise CannotCheckOut(reason, _not_here(source))
    for address in dict.fromkeys((remote.url, f"{remote.url.removesuffix('.git').rstrip('/')}.git")):
        if _fetched(git, own, REMOTE, commit, replace(remote, url=address)):
            return own
    raise CannotCheckOut(reason, "its repository cannot be read, or does not have the commit")


def _fetched(git: Git, source: _Source, address: str, commit: str, remote: Remote | None) -> bool:
    """Fetch a commit alone, or everything where the host gives no single one; tells whether it came."""
    flags = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    ways = (("--depth=1", f"+{commit}:refs/agent-eval/{commit}"), ("", "+refs/*:refs/remotes/all/*"))
    for option, spec in ways:
        try:
            arguments = (*flags, *filter(None, (option,)), address, spec)
            git.run("fetch", *arguments, cwd=source.bare, remote=remote)
        except GitFailed:
            continue
        if git.line("cat-file", "-t", commit, cwd=source.bare) == "commit":
            return True
    return False


def _fetch_lfs(git: Git, source: _Source, commit: str, directory: Path, names: Sequence[str]) -> None:
    """Put the files of LFS in the place of their pointers."""
    missing = {}
    for name, (oid, size) in _pointers(git, directory, names).items():
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


def _pointers(git: Git, directory: Path, names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Find the pointers among files: digest and bytes of what they stand for, by path."""
    small = []
    for name in names:
        status = os.lstat(directory / name)
        if status.st_size < LARGEST_POINTER and not os.path.islink(directory / name):
            content = (directory / name).read_bytes()
            if pointer := POINTER.fullmatch(content):
                small.append((name, pointer["oid"].decode(), int(pointer["size"])))
    if not small:
        return {}
    asked = b"".join(os.fsencode(name) + b"\0" for name, _, _ in small)
    answer = git.run("check-attr", "-z", "--stdin", "filter", cwd=directory, stdin=asked)
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
