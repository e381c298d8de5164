"""File names from identifiers that anyone may have chosen."""

from __future__ import annotations

import hashlib
import re

_HASH_LENGTH = 32
_MAX_LENGTH = 92
_SAFE = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{_MAX_LENGTH - 1}}}", re.ASCII)
_ENDS_LIKE_A_HASH = re.compile(rf"-[0-9a-f]{{{_HASH_LENGTH}}}\Z")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|\Z)")
_NOT_ALLOWED = re.compile(r"[^a-z0-9_]+")


def safe_name(identifier: str) -> str:
    """A name for a file or directory that stands for `identifier` on every file system.

    The identifier itself where it is a plain lower-case name; otherwise its readable part and a hash of
    all of it. Deterministic; different identifiers get names that differ, also where case is ignored.
    At most 92 ASCII characters of `a-z 0-9 . _ -`, beginning with a letter or digit, never `.`, `..`
    or a device name of Windows.
    """
    if _SAFE.fullmatch(identifier) and not _is_taken(identifier):
        return identifier
    digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    readable = _NOT_ALLOWED.sub("-", identifier[:400].lower()).strip("-_")[: _MAX_LENGTH - _HASH_LENGTH - 1]
    return f"{readable or 'id'}-{digest}"


def _is_taken(name: str) -> bool:
    """Whether a plain name means something else: a device, or another identifier's hashed name."""
    return name.endswith(".") or bool(_RESERVED.match(name)) or bool(_ENDS_LIKE_A_HASH.search(name))
