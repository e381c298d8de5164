"""Sources of a pack's files: a directory or an archive. No name or link in them is trusted."""

from __future__ import annotations

import fcntl
import os
import stat
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from agent_eval.errors import InvalidInput, InvalidPack
from agent_eval.evidence.layout import ATTESTATIONS, COMPARE, HISTORY
from agent_eval.storage.files import check_member_name

if TYPE_CHECKING:
    from agent_eval.storage.archive import ZipArchive

MAX_FILE_BYTES = 1 << 30
"""Maximum size of a file of a pack that is read into memory as a whole."""

_GET_IT_AGAIN = "The pack was changed after it was sealed, or damaged: get it again or run again."
_DEEPEST = 32
_CHUNK = 1 << 20
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_DIRECTORY = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC

# Created just before a file is written into them: a writer that is killed in between does no damage.
_MAY_BE_EMPTY = (f"{COMPARE}/", f"{ATTESTATIONS}/", f"{HISTORY}/")


def invalid_pack(pack: str, path: str | None, what: str, *, remedy: str = _GET_IT_AGAIN) -> InvalidPack:
    """Build the error for a pack that does not verify.

    `path` is the file or directory in the pack that has the problem; None for the pack as a whole. `what` is
    the problem, as a predicate: "is missing".
    """
    place = pack if path is None else f"{pack}: {path[:300]}"
    return InvalidPack(f"{place}: {what}", remedy=remedy, pack=pack, file=path)


class PackSource(Protocol):
    """Source of a pack's files by relative POSIX path. Implement it to read packs from another store.

    `name` is the name of the pack in errors. Every method raises InvalidPack for an entry that is not a
    regular file, is reached through a link, or has a name that is not valid on every system.
    """

    name: str

    def members(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield every file with its bytes, to be read before the next is asked for; check the tree too."""
        ...

    def content(self, path: str) -> Iterator[bytes] | None:
        """Open a file; yield its bytes, in pieces of about 1 MiB. None where it does not exist."""
        ...

    def shared(self) -> AbstractContextManager[None]:
        """Return a context in which no process of this program adds files to the pack."""
        ...


def read_limited(source: PackSource, path: str, limit: int) -> bytes | None:
    """Read a file; None where it does not exist. Raises InvalidPack for more than `limit` bytes."""
    content = source.content(path)
    if content is None:
        return None
    parts, total = [], 0
    for chunk in content:
        total += len(chunk)
        if total > limit:
            raise invalid_pack(source.name, path, f"is larger than {limit:,} bytes")
        parts.append(chunk)
    return b"".join(parts)


class DirectorySource(PackSource):
    """Read a pack from a directory, through descriptors, so that links in it are never followed.

    A link at `root` itself is followed.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))
        self.name = str(root)
        try:
            self._descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            reason = "no such directory" if isinstance(error, FileNotFoundError) else _reason(error)
            remedy = "Give the path of an evidence pack: a directory with a manifest.json."
            raise invalid_pack(self.name, None, reason, remedy=remedy) from error
        weakref.finalize(self, os.close, self._descriptor)

    @contextmanager
    @override
    def shared(self) -> Iterator[None]:
        # A file system without locks is read unlocked.
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @override
    def members(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        # A new descriptor: scandir starts at the position of its descriptor.
        yield from self._walk(os.open(".", _OPEN_DIRECTORY, dir_fd=self._descriptor), "", 0)

    def _walk(self, descriptor: int, prefix: str, depth: int) -> Iterator[tuple[str, Iterator[bytes]]]:
        try:
            with os.scandir(descriptor) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            if not entries and prefix and prefix not in _MAY_BE_EMPTY:
                raise invalid_pack(self.name, prefix.rstrip("/"), "is an empty directory")
            if depth > _DEEPEST:
                raise invalid_pack(self.name, prefix.rstrip("/"), "is too deep")
            for entry in entries:
                path = self._checked(prefix, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    inner = self._open(entry.name, _OPEN_DIRECTORY, descriptor, path)
                    yield from self._walk(inner, f"{path}/", depth + 1)
                    continue
                if not entry.is_file(follow_symlinks=False):
                    raise self._not_regular(path, entry.is_symlink())
                yield path, self._bytes_of(entry.name, descriptor, path)
        except OSError as error:
            raise invalid_pack(self.name, prefix.rstrip("/") or None, _reason(error)) from error
        finally:
            os.close(descriptor)

    @override
    def content(self, path: str) -> Iterator[bytes] | None:
        *directories, name = path.split("/")
        if check_member_name(path):
            raise invalid_pack(self.name, path, "is not a path within the pack")
        descriptor = os.dup(self._descriptor)
        try:
            for directory in directories:
                inner = self._open(directory, _OPEN_DIRECTORY, descriptor, path)
                os.close(descriptor)
                descriptor = inner
            content = self._bytes_of(name, descriptor, path)
            return chain([next(content, b"")], content)  # opened before its directory is closed
        except FileNotFoundError:
            return None
        finally:
            os.close(descriptor)

    def _checked(self, prefix: str, name: str) -> str:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            printable = prefix + name.encode("utf-8", "backslashreplace").decode()
            raise invalid_pack(self.name, printable, "has a name that is not UTF-8") from None
        path = prefix + name
        if problem := check_member_name(path):
            raise invalid_pack(self.name, path, f"{problem}")
        return path

    def _open(self, name: str, flags: int, descriptor: int, path: str) -> int:
        try:
            return os.open(name, flags, dir_fd=descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise invalid_pack(self.name, path, _reason(error)) from error

    def _bytes_of(self, name: str, directory: int, path: str) -> Iterator[bytes]:
        opened = self._open(name, _OPEN_FILE, directory, path)
        try:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                raise self._not_regular(path, False)
            # One byte more than the size, so that the first read reaches the end of the file.
            while chunk := os.read(opened, min(status.st_size, _CHUNK) + 1):
                yield chunk
        finally:
            os.close(opened)

    def _not_regular(self, path: str, link: bool) -> InvalidPack:
        return invalid_pack(self.name, path, "is a symbolic link" if link else "is not a regular file")


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


class ArchiveSource(PackSource):
    """Read a pack from a zip.

    `prefix` is the directory of the pack in the zip: empty, or ending in a slash.
    """

    def __init__(self, archive: ZipArchive, prefix: str = "") -> None:
        self.archive = archive
        self.prefix = prefix
        self.name = f"{archive.source}: {prefix.rstrip('/')}" if prefix else archive.source
        self._paths = {name[len(prefix) :]: name for name in archive.names() if name.startswith(prefix)}

    @contextmanager
    @override
    def shared(self) -> Iterator[None]:
        # Packs in archives do not change.
        yield

    @override
    def members(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        for path in self._paths:
            yield path, self._bytes_of(path)

    @override
    def content(self, path: str) -> Iterator[bytes] | None:
        return self._bytes_of(path) if path in self._paths else None

    def _bytes_of(self, path: str) -> Iterator[bytes]:
        try:
            yield from self.archive.chunks(self._paths[path])
        except InvalidInput as error:
            raise invalid_pack(self.name, path, error.message) from error
