"""What a run records of where it ran: interpreter, machine, judging packages, commit."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from agent_eval import __version__
from agent_eval.contracts import Contract, GateStatus, Outcome
from agent_eval.errors import FailureKind
from agent_eval.judges.catalog import JUDGES
from agent_eval.storage.redaction import Redactor

JUDGING_PACKAGES = ("google-re2", "jsonschema", "orjson", "pydantic", "referencing")
"""Packages whose version can change a verdict or its bytes."""

# Forty hexadecimal digits, or sixty-four in a repository that uses sha256.
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_BYTES = 16 << 20
_STATED_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)


def pinned_environment() -> dict[str, Any]:
    """The interpreter, the machine and the versions that judged, as plain JSON."""
    return {
        "agent_eval": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.system().lower(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in JUDGING_PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        described = metadata.distribution(package).read_text("METADATA") or ""
    except metadata.PackageNotFoundError:
        return None
    # `metadata.version` parses the description as well, a whole README: six times the work.
    found = _STATED_VERSION.search(described)
    return found[1] if found else metadata.version(package)


def git_commit(start: Path) -> str | None:
    """Read which commit is checked out from `.git` at or above `start`.

    Git itself is not needed. Returns None where there is no repository, or one this cannot read.
    """
    try:
        directory = _git_directory(start.resolve())
        return _head(directory) if directory is not None else None
    except (OSError, UnicodeDecodeError):
        return None


def _git_directory(start: Path) -> Path | None:
    for folder in (start, *start.parents):
        found = folder / ".git"
        if found.is_dir():
            return found
        if found.is_file():
            # A worktree or submodule: a file that says where the directory is.
            text = _read(found)
            return folder / text.removeprefix("gitdir:").strip() if text.startswith("gitdir:") else None
    return None


def _head(directory: Path) -> str | None:
    head = _read(directory / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else None
    reference = head.removeprefix("ref:").strip()
    if ".." in reference or reference.startswith("/"):
        return None
    shared = directory / "commondir"
    places = [directory]
    if shared.is_file():
        places.append(directory / _read(shared).strip())
    for place in places:
        loose = place / reference
        if loose.is_file():
            commit = _read(loose).strip()
            return commit if _COMMIT.fullmatch(commit) else None
    for place in places:
        packed = place / "packed-refs"
        if packed.is_file():
            for line in _read(packed).splitlines():
                commit, _, name = line.partition(" ")
                if name == reference and _COMMIT.fullmatch(commit):
                    return commit
    return None


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES).decode()


def redactor_for(environ: Mapping[str, str], *more: str) -> Redactor:
    """The redactor for everything that a command writes.

    Args:
        environ: The environment variables.
        more: Further secrets, such as a token that was given as a flag.
    """
    return Redactor.from_environment(environ, *more, vocabulary=_vocabulary())


def _vocabulary() -> Iterator[str]:
    """Words that stand in every pack and comment, so that no secret is lost with them.

    A password that is called like a field of ours would otherwise take the field with it.
    """
    yield from ("agent-eval", "trace_score", "message", "tool_call", "tool_result")
    yield from ("propose_execute_repair", "propose", "repair", "attempt_history", "selected_attempt")
    yield from JUDGES
    for words in (Outcome, FailureKind, GateStatus):
        yield from (word.value for word in words)
    waiting: list[type[Contract]] = [Contract]
    while waiting:
        kind = waiting.pop()
        yield from kind.model_fields
        waiting += kind.__subclasses__()
