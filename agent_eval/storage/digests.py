"""sha256 of bytes and files, as lower-case hexadecimal."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agent_eval.storage.bytes_reader import open_regular, reading_failed


def sha256_bytes(data: bytes) -> str:
    """The digest of `data`."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> tuple[str, int]:
    """The digest of a file's bytes, and how many there are; constant memory.

    Raises:
        InvalidInput: Missing, not a regular file, not readable.
        StorageError: The disk failed.
    """
    with open_regular(path) as file:
        try:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return digest, file.tell()
        except OSError as error:
            raise reading_failed(path, error) from error
