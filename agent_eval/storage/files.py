"""Open and read files from outside, with bounds and with errors that say what to do; names and digests.

`open_regular` and `read_bytes` refuse everything that could block or exhaust the reader. `safe_name` turns an
identifier into a file name, `sha256_file` and `sha256_bytes` compute digests.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import unicodedata
from io import BufferedReader
from pathlib import Path

from agent_eval.errors import AgentEvalError, InvalidInput, StorageError

_CHUNK = 1 << 20
_OPEN_FILES = (Path("/dev/fd"), Path("/proc/self/fd"))
_STDIN = Path("/dev/stdin")
_BAD_PATH = (errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ENXIO, errno.EINVAL)
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_NAME = 1024


def open_regular(path: Path, *, pipes: bool = False) -> BufferedReader:
    """Open a file for reading, and refuse everything that could make its reader wait.

    Symbolic links are followed. `pipes` accepts a pipe that this process inherited, such as `<(command)` of a
    shell.

    Raises:
        InvalidInput: Missing, a directory, a device, a named pipe, not readable.
        StorageError: The disk failed.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise reading_failed(path, error) from error
    mode = os.fstat(descriptor).st_mode
    # The other end of a pipe that the path names as an open file of this process is open, or was.
    if stat.S_ISFIFO(mode) and pipes and (path.parent in _OPEN_FILES or path == _STDIN):
        os.set_blocking(descriptor, True)
    elif not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise reading_failed(path, IsADirectoryError())
        problem = "is a pipe" if stat.S_ISFIFO(mode) else "not a regular file"
        raise InvalidInput(f"{path}: {problem}", file=str(path), remedy="Give the path of a file.")
    return open(descriptor, "rb")


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """Read a whole regular file, or a pipe that this process inherited.

    Symbolic links are followed. A file larger than `max_bytes` is refused without reading it.

    Raises:
        InvalidInput: Missing, a directory or device, not readable, too large.
        StorageError: The disk failed.
    """
    with open_regular(path, pipes=True) as file:
        chunks: list[bytes] = []
        total = 0
        try:
            size = os.fstat(file.fileno()).st_size
            # Asking for one byte more than expected, the usual file takes two reads: all of it, then its end.
            while max(size, total) <= max_bytes:
                if not (chunk := os.read(file.fileno(), max(_CHUNK, size - total + 1))):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
                chunks.append(chunk)
                total += len(chunk)
        except OSError as error:
            raise reading_failed(path, error) from error
    message = f"{path}: at least {max(size, total):,} bytes, more than the {max_bytes:,} that are read"
    raise InvalidInput(message, file=str(path), remedy="Split the file or give another one.")


def reading_failed(path: Path, error: OSError | ValueError) -> AgentEvalError:
    """Build the error for a file that could not be opened or read, with path and remedy."""
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


_HASH_LENGTH = 32
_MAX_LENGTH = 92
_SAFE = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{_MAX_LENGTH - 1}}}", re.ASCII)
_ENDS_LIKE_A_HASH = re.compile(rf"-[0-9a-f]{{{_HASH_LENGTH}}}\Z")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|\Z)")
_NOT_ALLOWED = re.compile(r"[^a-z0-9_]+")


def safe_name(identifier: str) -> str:
    """Turn an identifier into a name for a file or directory that is valid on every file system.

    A plain lower-case name stays as it is; any other becomes its readable part and a hash of the whole
    identifier. Deterministic; different identifiers get different names, also on file systems that ignore
    case. At most 92 ASCII characters of `a-z 0-9 . _ -`, beginning with a letter or digit, never `.`, `..`
    or a device name of Windows.

    Example:
        >>> safe_name("refund-1"), safe_name("../Refund 1")
        ('refund-1', 'refund-1-3c7ba9b8608089908dcfd078a5906637')
    """
    if _SAFE.fullmatch(identifier) and not _is_reserved(identifier):
        return identifier
    digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    readable = _NOT_ALLOWED.sub("-", identifier[:400].lower()).strip("-_")[: _MAX_LENGTH - _HASH_LENGTH - 1]
    return f"{readable or 'id'}-{digest}"


def readable_name(text: str) -> str:
    """Turn a text into a readable name for a file or directory; different texts may get the same name.

    At most 100 characters: letters and digits of any script, `.`, `_` and `-`, beginning with a letter or
    digit.

    Example:
        >>> readable_name("HR Assistant"), readable_name("../a: b?"), readable_name("_summary")
        ('HR-Assistant', 'a-b', 'summary')
    """
    plain = "".join(char if char.isalnum() or char in "._" else "-" for char in text)
    name = re.sub("-+", "-", plain).strip("-._")[:100].rstrip("-._")
    return f"{name}-" if _is_reserved(name.lower()) else name or "unnamed"


def _is_reserved(name: str) -> bool:
    """Whether a plain name has another meaning: a device, or the hashed name of another identifier."""
    return name.endswith(".") or bool(_RESERVED.match(name)) or bool(_ENDS_LIKE_A_HASH.search(name))


def check_member_name(name: str) -> str | None:
    """Say what is wrong with a name as a relative POSIX path that is valid on every system; None if nothing.

    Example:
        >>> check_member_name("cases/refund.json"), check_member_name("../secret")
        (None, "has an empty part, '.' or '..'")
    """
    if not name or len(name) > _LONGEST_NAME:
        return "is empty or too long"
    if name.startswith("/") or _DRIVE.match(name):
        return "is absolute"
    if "\\" in name:
        return "has a backslash"
    if _CONTROL.search(name) or not name.isprintable():
        return "has characters that cannot be printed"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "has an empty part, '.' or '..'"
    return None


def same_place(name: str) -> str:
    """Return a key that is equal for names of the same file where case or Unicode composition is ignored."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def sha256_bytes(data: bytes) -> str:
    """Return the sha256 digest of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> tuple[str, int]:
    """Return the sha256 digest of a file in hexadecimal, and its size; takes constant memory.

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
