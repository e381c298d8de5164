"""Remove partial files and directories that killed processes left behind.

A process locks each partial file it writes (`lock_partial`), and the kernel releases the lock when the
process ends, however it ends. So a partial file that can be locked has no writer any more, and `sweep`
removes it. On a file system without locks nothing is removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TOKEN = re.compile(r"[0-9a-f]{16}")
_REMOVED_AT_A_TIME = 1_000


def lock_partial(partial: Path, descriptor: int) -> bool:
    """Lock a partial file or directory that was just created, until the descriptor is closed.

    Returns False if another process took it for a leftover and removes it; create another one then.
    """
    with suppress(OSError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return _is_at(partial, descriptor)


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


def sweep(directory: Path, prefix: str) -> None:
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
        with suppress(OSError):
            _remove(directory / name)


def _remove(partial: Path) -> None:
    descriptor = os.open(partial, _FLAGS)
    try:
        # Fails if the writer is alive and has locked it.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(partial, descriptor):
            return
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(partial, ignore_errors=True)
        elif stat.S_ISREG(mode):
            partial.unlink()
    finally:
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        at_path, opened = os.stat(path, follow_symlinks=False), os.fstat(descriptor)
    except OSError:
        return False
    return (at_path.st_dev, at_path.st_ino) == (opened.st_dev, opened.st_ino)
