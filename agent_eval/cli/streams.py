"""The process's own stdout and stderr."""

from __future__ import annotations

import errno
import io
import os
import sys

from agent_eval.errors import StorageError

UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
"""What writing to a full or broken disk raises."""


def replace_unprintable() -> None:
    """Print a replacement for what the locale's encoding cannot hold, instead of failing half-way."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_stdout() -> None:
    """Point stdout at nothing, so that flushing it at exit does not fail a second time."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(nowhere)


def unwritable_stdout(error: OSError) -> StorageError:
    """The error for a result that could not be printed."""
    return StorageError(
        f"the result cannot be printed: {error.strerror}",
        remedy="Free space where standard output goes, or send it elsewhere.",
    )
