"""Which packs this user made on this machine, so that what they say of their agent may be run again.

A pack is data. One that comes from elsewhere could name any program as its agent; one that was made here
says what this user's own command line said. Known are digests of manifests, in a file of the user's state
directory (https://specifications.freedesktop.org/basedir-spec/latest/), never in a working directory: a
checkout could bring that along.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent_eval.errors import AgentEvalError
from agent_eval.evidence.layout import MANIFEST
from agent_eval.storage.atomic import write_file
from agent_eval.storage.bytes_reader import read_bytes
from agent_eval.storage.digests import sha256_file

MOST = 2_000
"""Digests that are kept, the newest."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 20


def own_packs_file(environ: Mapping[str, str]) -> Path | None:
    """Where the digests are; None where the user has no place for such things."""
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "agent-eval" / "own_packs"
    home = environ.get("HOME", "")
    return Path(home) / ".local" / "state" / "agent-eval" / "own_packs" if home.startswith("/") else None


def remember_pack(pack: Path, environ: Mapping[str, str]) -> None:
    """Note that a pack was made here. Where that cannot be noted, nothing happens: it is a convenience."""
    file = own_packs_file(environ)
    if file is None:
        return
    with suppress(AgentEvalError, OSError):
        digest, _ = sha256_file(pack / MANIFEST)
        known = [line for line in _digests(file) if line != digest]
        write_file(file, "".join(f"{line}\n" for line in [*known, digest][-MOST:]).encode())


def is_own(manifest_sha256: str, environ: Mapping[str, str]) -> bool:
    """Whether a pack with this manifest was made here."""
    file = own_packs_file(environ)
    return file is not None and manifest_sha256 in _digests(file)


def _digests(file: Path) -> list[str]:
    try:
        lines = read_bytes(file, max_bytes=_LARGEST).decode("ascii", "replace").splitlines()
    except (AgentEvalError, OSError):
        return []
    return [line for line in lines if _DIGEST.fullmatch(line)]
