"""What killed processes leave behind: partial files and directories that nobody will finish.

Who writes one holds a lock on it, which the kernel lets go when the process ends, however it ends. So
one that can be locked has no writer any more. Where a file system has no locks nothing is removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TOKEN = re.compile(r"[0-9a-f]{16}")
_MOST = 1_000
"""Leftovers removed at a time."""


def hold(partial: Path, descriptor: int) -> bool:
    """Lock what was just created, for as long as the descriptor is open.

    Returns:
        False where somebody else was quicker and is removing it: make another one.
    """
    with suppress(OSError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return _is_still(partial, descriptor)


def sweep(directory: Path, prefix: str) -> None:
    """Remove what killed writers left in a directory under `prefix` and sixteen hexadecimal digits.

    Args:
        directory: Where to look; nothing happens where it cannot be read.
        prefix: What the names of partial files or directories start with.
    """
    try:
        with os.scandir(directory) as entries:
            found = [
                entry.name
                for entry in entries
                if entry.name.startswith(prefix) and _TOKEN.fullmatch(entry.name, len(prefix))
            ]
    except OSError:
        return
    for name in found[:_MOST]:
        with suppress(OSError):
            _remove(directory / name)


def _remove(partial: Path) -> None:
    descriptor = os.open(partial, _FLAGS)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_still(partial, descriptor):
            return
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(partial, ignore_errors=True)
        elif stat.S_ISREG(mode):
            partial.unlink()
    finally:
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        now, held = os.stat(path, follow_symlinks=False), os.fstat(descriptor)
    except OSError:
        return False
    return (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino)
