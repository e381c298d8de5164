"""Whole files into memory, bounded, with errors that say what to do."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from agent_eval.errors import AgentEvalError, InvalidInput, StorageError

_CHUNK = 1 << 20
_BAD_PATH = (errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ENXIO, errno.EINVAL)


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """The bytes of a regular file or pipe.

    Args:
        path: File to read; symbolic links are followed.
        max_bytes: Refuse more than this, without reading it.

    Raises:
        InvalidInput: Missing, a directory or device, not readable, too large.
        StorageError: The disk failed.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
                raise InvalidInput(
                    f"{path}: not a regular file", file=str(path), remedy="Give the path of a file."
                )
            if status.st_size > max_bytes:
                raise _too_large(path, status.st_size, max_bytes)
            return _read_all(file.fileno(), path, status.st_size, max_bytes)
    except (OSError, ValueError) as error:
        raise reading_failed(path, error) from error


def _read_all(descriptor: int, path: Path, size: int, max_bytes: int) -> bytes:
    chunks = []
    total = 0
    # One byte more than expected, so that the usual file takes two reads: all of it, then its end.
    while chunk := os.read(descriptor, max(_CHUNK, size - total + 1)):
        chunks.append(chunk)
        total += len(chunk)
        if total > max_bytes:
            raise _too_large(path, total, max_bytes)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(path: Path, size: int, max_bytes: int) -> InvalidInput:
    message = f"{path}: at least {size:,} bytes, more than the {max_bytes:,} that are read"
    return InvalidInput(message, file=str(path), remedy="Split the file or give another one.")


def reading_failed(path: Path, error: OSError | ValueError) -> AgentEvalError:
    """The project's error for a file that could not be opened or read."""
    place = str(path)
    if isinstance(error, FileNotFoundError):
        return InvalidInput(f"{place}: no such file", file=place, remedy="Check the path.")
    if isinstance(error, IsADirectoryError):
        return InvalidInput(
            f"{place}: is a directory", file=place, remedy="Give the path of a file, not of a directory."
        )
    if isinstance(error, PermissionError):
        return InvalidInput(f"{place}: not readable", file=place, remedy="Check the file's permissions.")
    if not isinstance(error, OSError) or error.errno in _BAD_PATH:
        reason = getattr(error, "strerror", None) or str(error)
        return InvalidInput(f"{place}: {reason}", file=place, remedy="Check the path.")
    return StorageError(
        f"{place}: {error.strerror or error}", file=place, remedy="Check the disk and try again."
    )
