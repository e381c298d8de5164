"""Write files and directories durably: the old content stays until all of the new content is on disk.

`write_file` and `new_file` replace a file, `new_directory` and `new_directories` whole directories;
`HashedFile` and `write_unsynced` write files within them. A killed process leaves at worst a hidden sibling
named `.NAME.partial-…`, which the next write of the same name removes: its writer held a lock on it, and the
kernel releases that when the process ends, however it ends. Without locks nothing is removed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from agent_eval.errors import StorageError, UsageError

_REMEDIES = {
    errno.ENOSPC: "Free space on the disk or write to another one.",
    errno.EDQUOT: "Free space within the quota or write to another disk.",
    errno.EFBIG: "Raise the limit on file size (ulimit -f) or write to another disk.",
    errno.EROFS: "The file system is read-only: write to another directory.",
    errno.EACCES: "Choose a directory that this user may write to.",
    errno.EPERM: "Choose a directory that this user may write to.",
    errno.ENOTDIR: "There is a file where a directory is needed: choose another path.",
    errno.EEXIST: "There is a file where a directory is needed: choose another path.",
    errno.EISDIR: "There is a directory where a file is needed: choose another path.",
    errno.ENAMETOOLONG: "Choose a shorter path.",
}
_STREAM_DIRECTORIES = (Path("/dev"), Path("/dev/fd"))
_LONGEST_PREFIX = 100
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TOKEN = re.compile(r"[0-9a-f]{16}")
_REMOVED_AT_A_TIME = 1_000
_BUFFER = 1 << 20
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_MANY_PATHS = 400
"""Number of paths from which syncing the whole file system is quicker than syncing each of them."""


def writing_failed(path: Path, error: OSError) -> StorageError:
    """Build the error for a failed write, with path and remedy."""
    remedy = _REMEDIES.get(error.errno or 0, "Check the disk and the directory's permissions.")
    return StorageError(f"cannot write {path}: {error.strerror or error}", file=str(path), remedy=remedy)


def overwrite(path: Path, data: bytes) -> None:
    """Write into a file that cannot be replaced, as one that is mounted alone; a link is not followed.

    Raises:
        OSError: The file cannot be written.
    """
    with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
        file.truncate()
        file.write(data)


def write_file(path: Path, data: bytes, *, aside: Path | None = None) -> None:
    """Write a whole file so that readers see the old content or the new, never a mixture.

    Creates missing parent directories. A symbolic link at `path` is replaced, not followed; a device
    or pipe (`/dev/stdout`) is written to directly.

    `aside` is a directory on the same file system for the partial file; by default the one of `path`.

    Raises:
        StorageError: Disk full, no permission, a directory at `path`.
    """
    with new_file(path, aside=aside) as file:
        file.write(data)


@contextmanager
def new_file(path: Path, *, aside: Path | None = None) -> Iterator[IO[bytes]]:
    """Write a file as `write_file` does, piece by piece: yields the file to write into.

    The file appears at `path` when the block ends, and is removed when the block raises.

    Raises:
        StorageError: As `write_file`, and for every OSError within the block.
    """
    path = Path(path)
    try:
        if _is_stream(path):
            own = {"/dev/stdout": 1, "/dev/stderr": 2}.get(str(path))
            # A file that stdout is redirected to: opened anew, it would not share the position with what
            # writes there before and after, and "wb" would truncate it.
            with open(path, "ab") if own is None else os.fdopen(os.dup(own), "wb") as stream:
                yield stream
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial, descriptor = _new_partial((aside or path.parent) / path.name)
        with open(descriptor, "wb") as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(partial, path)
            except BaseException:
                with suppress(OSError):
                    partial.unlink()
                raise
        sync_directory(path.parent)
    except OSError as error:
        raise writing_failed(path, error) from error


def write_private(path: Path, data: bytes) -> None:
    """Write a new file with mode 0600. An existing file is never replaced, nor is a link followed.

    Raises:
        UsageError: Something is at `path` already.
        StorageError: Disk full, no permission.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileExistsError:
            raise UsageError(
                f"{path} exists and is not overwritten",
                remedy="Choose another name, or remove it if nothing needs it any more.",
                file=str(path),
            ) from None
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            sync_directory(path.parent)
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
    except OSError as error:
        raise writing_failed(path, error) from error


def append_file(path: Path, data: bytes) -> None:
    """Append `data` to a file, which is created if missing.

    Not atomic: the file is a log that other programs append to as well.

    Raises:
        StorageError: The file cannot be written; names path and remedy.
    """
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise writing_failed(path, error) from error


@contextmanager
def new_directory(final: Path, *, replace: bool = False) -> Iterator[Path]:
    """Build a directory aside and rename it to `final` when it is complete, as `new_directories` does.

    Yields an empty directory to write into. An empty `final` is always replaced, another only with `replace`.

    Raises:
        UsageError: `final` is a file, a symbolic link, or a directory that must not be replaced.
        StorageError: Disk full, no permission; also for every OSError within the block.
    """
    with new_directories([final], may_replace=lambda _: replace) as [root]:
        root.mkdir()
        yield root


@contextmanager
def new_directories(finals: Sequence[Path], *, may_replace: Callable[[Path], bool]) -> Iterator[list[Path]]:
    """Build several directories aside and rename them to `finals` when all are complete.

    Yields an unused path for each, in a directory beside the first of `finals`. Missing parents are created.
    When the block ends, all is synced and put in place; when it raises, it is removed and `finals` stay.

    The `finals` are on one file system, none within another. `may_replace` says whether an existing directory
    that is not empty may be replaced.

    Raises:
        UsageError: One of `finals` is a file, a symbolic link, or a directory that must not be replaced.
        StorageError: Disk full, no permission.
    """
    finals = [Path(os.path.abspath(final)) for final in finals]
    for final in finals:
        _check_replaceable(final, may_replace(final))
    first = finals[0]
    with without_new_directories(first):
        try:
            first.parent.mkdir(parents=True, exist_ok=True)
            partial, descriptor = _new_partial(first, is_directory=True)
        except OSError as error:
            raise writing_failed(first, error) from error
        try:
            places = [partial / str(number) for number in range(len(finals))]
            yield places
            _sync_tree(partial)
            for place, final in zip(places, finals, strict=True):
                _check_replaceable(final, may_replace(final))
                _put_in_place(place, final)
                sync_directory(final.parent)
        except OSError as error:
            raise writing_failed(first, error) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            os.close(descriptor)


@contextmanager
def without_new_directories(path: Path) -> Iterator[None]:
    """If the block fails, remove the directories above `path` that it made, as far as they are empty."""
    missing = [parent for parent in path.absolute().parents if not parent.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the first that is in use, or was never made, ends it
            for parent in missing:
                parent.rmdir()
        raise


class HashedFile:
    """A new file that is written piece by piece and hashed. A context manager.

    The file's directory must exist; that it is a new one (`new_directory`) makes the file durable.

    Raises:
        OSError: The file exists already, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=_BUFFER)  # noqa: SIM115
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._digest.update(data)
        self.size += len(data)
        self._file.write(data)

    @property
    def sha256(self) -> str:
        """Lower-case hexadecimal digest of all bytes written so far."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Close the file; closing it again has no effect."""
        self._file.close()

    def discard(self) -> None:
        """Close the file whether or not all of it can be written, because its content is not needed."""
        with suppress(OSError):
            self._file.close()

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (self.close if kind is None else self.discard)()


def write_unsynced(path: Path, data: bytes) -> None:
    """Write a small file, which `sync_file_system` later makes durable together with many others.

    Raises:
        OSError: The file cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, data[written:])
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Make renames and new names in a directory durable, if the file system supports that."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def sync_file_system(directory: Path) -> bool:
    """Make everything on the directory's file system durable in one step (`syncfs`).

    For thousands of small files this takes a fraction of the time of syncing each. Returns False if the
    system does not support it.

    Raises:
        OSError: The disk failed; written data may be lost.
    """
    sync = _c_function("syncfs")
    if sync is None:
        return False
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if sync(ctypes.c_int(descriptor)) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(directory))
    finally:
        os.close(descriptor)
    return True


def exchange(first: Path, second: Path) -> bool:
    """Swap two existing paths atomically (`renameat2` with RENAME_EXCHANGE).

    Returns False, with nothing changed, if the system or the file system does not support it.
    """
    rename = _c_function("renameat2")
    if rename is None:
        return False
    rename.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    rename.restype = ctypes.c_int
    code = rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    return bool(code == 0)


def _is_stream(path: Path) -> bool:
    """Whether `path` passes bytes on, such as a pipe, so that replacing it would lose them."""
    # By the parent as well: /dev/stdout and /proc/self/fd/1 are links, even to files. But not all of /dev:
    # /dev/shm holds files like any other directory.
    if path.parent in _STREAM_DIRECTORIES or path.is_relative_to("/proc"):
        return True
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _new_partial(final: Path, *, is_directory: bool = False) -> tuple[Path, int]:
    """Create a file or directory beside `final`; return it with the descriptor that locks it until closed."""
    _sweep(final.parent, _prefix(final, "partial"))
    flags = os.O_DIRECTORY | os.O_NOFOLLOW if is_directory else os.O_WRONLY | os.O_CREAT | os.O_EXCL
    while True:
        partial = _sibling(final, "partial")
        if is_directory:
            partial.mkdir()
        try:
            descriptor = os.open(partial, flags | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            if is_directory:
                continue  # another process removed it as a leftover before it was opened
            raise
        is_ours = True
        with suppress(OSError):  # without locks nothing is removed
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                is_ours = False
        if is_ours and is_open_as(partial, descriptor):
            return partial, descriptor
        os.close(descriptor)  # it was removed before it was locked


def _check_replaceable(final: Path, replace: bool) -> None:
    if final.is_symlink():
        remedy = "Give the directory that the link points to."
        raise UsageError(f"{final}: is a symbolic link", file=str(final), remedy=remedy)
    try:
        with os.scandir(final) as entries:
            occupied = any(True for _ in entries)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        if final.parent.is_dir():
            remedy = "Choose another directory or remove the file."
            raise UsageError(f"{final}: is a file", file=str(final), remedy=remedy) from None
        return  # a parent is a file, which mkdir reports
    except OSError as error:
        raise writing_failed(final, error) from error
    if occupied and not replace:
        remedy = "Choose another directory or empty this one."
        raise UsageError(f"{final}: directory is not empty", file=str(final), remedy=remedy)


def _put_in_place(partial: Path, final: Path) -> None:
    """Rename `partial` to `final`, then remove the directory that was there; a failure leaves it in place."""
    if not final.exists():
        os.rename(partial, final)
        return
    if exchange(partial, final):
        shutil.rmtree(partial, ignore_errors=True)
        return
    old = _sibling(final, "replaced")
    os.rename(final, old)
    try:
        os.rename(partial, final)
    except BaseException:
        os.rename(old, final)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sibling(path: Path, role: str) -> Path:
    return path.with_name(f"{_prefix(path, role)}{secrets.token_hex(8)}")


def _prefix(path: Path, role: str) -> str:
    return f".{path.name[:_LONGEST_PREFIX]}.{role}-"


def _sync_tree(root: Path) -> None:
    """Make files and directories durable: each by itself, or all at once if there are many."""
    paths: list[tuple[Path, bool]] = []
    for directory, _, names in os.walk(root):
        paths.append((Path(directory), True))
        paths += [(Path(directory, name), False) for name in names]
        if len(paths) > _MANY_PATHS and sync_file_system(root):
            return
    for path, is_directory in paths:
        if is_directory:
            sync_directory(path)
            continue
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            os.fsync(file.fileno())


def _c_function(name: str) -> Any:
    """Return a function of the C library; None if it has none of that name."""
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None


def _sweep(directory: Path, prefix: str) -> None:
    """Remove the leftovers of killed writers from a directory.

    A directory that cannot be read is left as it is. Sixteen hexadecimal digits follow the `prefix` of a
    leftover's name.
    """
    try:
        with os.scandir(directory) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.name.startswith(prefix) and _TOKEN.fullmatch(entry.name, len(prefix))
            ]
    except OSError:
        return
    for name in names[:_REMOVED_AT_A_TIME]:
        partial = directory / name
        with suppress(OSError):
            descriptor = os.open(partial, _FLAGS)
            try:
                # Fails if the writer is alive and has locked it.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_open_as(partial, descriptor):
                    mode = os.fstat(descriptor).st_mode
                    if stat.S_ISDIR(mode):
                        shutil.rmtree(partial, ignore_errors=True)
                    elif stat.S_ISREG(mode):
                        partial.unlink()
            finally:
                os.close(descriptor)


def is_open_as(path: Path, descriptor: int) -> bool:
    """Tell whether a path, which is not followed, is the file or directory that a descriptor has open."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False
