"""The digests of a directory's files: they show what changed while the other side's agent ran."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 20
_SETTLED_SECONDS = 2.0
"""A file that changed later than that may change again in one tick of the clock: it is read again."""
_Signature = tuple[int, ...]


@dataclass(frozen=True)
class Snapshot:
    """A directory at one time: a digest of the whole, and one of each entry by its path.

    Example:
        >>> before = Snapshot("1", {"agent.py": b"a"})
        >>> now = Snapshot("2", {"agent.py": b"a", "job.log": b"b"})
        >>> now.first_altered_since(before)
        'job.log'
    """

    digest: str
    entries: Mapping[str, bytes]

    def first_altered_since(self, before: Snapshot) -> str | None:
        """Find the first path, in the order of the alphabet, that is new, gone or altered; None without."""
        if self.digest == before.digest:
            return None
        paths = self.entries.keys() | before.entries.keys()
        return min(path for path in paths if self.entries.get(path) != before.entries.get(path))


class TreeDigest:
    """Computes the digest of a directory again and again; of files that did not change it reads no content.

    It covers each entry's path, kind, permissions and content; of a link where it leads. No link is followed.

    Example:
        >>> _ = Path("agent.py").write_text("print(1)")
        >>> tree = TreeDigest(Path())
        >>> before = tree.take()
        >>> _ = Path("agent.py").write_text("print(2)")
        >>> tree.take().first_altered_since(before)
        'agent.py'

    Args:
        root: The directory.
        skip: Paths relative to it that are left out, with what they contain.
        only: Paths relative to it of the only files that count; None for all.
    """

    def __init__(
        self,
        root: Path,
        skip: frozenset[str] = frozenset({".git"}),
        only: frozenset[str] | None = None,
    ) -> None:
        self._root, self._skip, self._only = root, skip, only
        self._known: dict[str, tuple[_Signature, bytes]] = {}

    def take(self) -> Snapshot:
        """Compute the digests of the directory as it is now."""
        now = time.time()
        total = hashlib.sha256()
        entries: dict[str, bytes] = {}
        known: dict[str, tuple[_Signature, bytes]] = {}
        for name, entry in self._entries():
            status = entry.stat(follow_symlinks=False)
            signature = _signature(status)
            before = self._known.get(name)
            content = before[1] if before is not None and before[0] == signature else _content(entry, status)
            if now - status.st_ctime > _SETTLED_SECONDS:
                known[name] = signature, content
            entries[name] = f"{status.st_mode:o}:".encode() + content
            total.update(f"{len(name)}:{name}:".encode("utf-8", "surrogateescape"))
            total.update(entries[name])
        self._known = known
        return Snapshot(total.hexdigest(), entries)

    def links(self) -> Iterator[Path]:
        """Yield where every link leads, without following links within the path to it."""
        for _, entry in self._entries():
            if entry.is_symlink():
                yield Path(os.path.realpath(entry.path))

    def _entries(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield every entry with its path, in an order that does not depend on the file system."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with os.scandir(self._root / folder) as entries:
                children = sorted(entries, key=lambda entry: entry.name)
            for entry in children:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if name in self._skip:
                    continue
                if self._only is None or name in self._only:
                    yield name, entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)


def _signature(status: os.stat_result) -> _Signature:
    # No program that cannot set the system's clock can choose when a file's status last changed.
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _content(entry: os.DirEntry[str], status: os.stat_result) -> bytes:
    if stat.S_ISLNK(status.st_mode):
        return hashlib.sha256(os.fsencode(os.readlink(entry.path))).digest()
    if not stat.S_ISREG(status.st_mode):
        return b""
    content = hashlib.sha256()
    with open(os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
    return content.digest()
