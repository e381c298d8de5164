"""The environment that a run records, with the pins of its agent, and the secrets that are kept out of it.

Nothing that names a person or a machine is recorded: no path, host name, user name or working directory.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_eval import __version__
from agent_eval.contracts import Contract, GateStatus, Outcome
from agent_eval.errors import AgentEvalError, FailureKind
from agent_eval.judges.catalog import JUDGES, VERSIONS
from agent_eval.storage.files import read_bytes, sha256_bytes, sha256_file
from agent_eval.storage.redaction import Redactor
from agent_eval.storage.redaction_rules import NO_RULES, RedactionRules

if TYPE_CHECKING:
    from agent_eval.config.spec import RunSpec

JUDGING_PACKAGES = ("google-re2", "jsonschema", "orjson", "pydantic", "referencing")
"""Packages whose version can change a verdict or its bytes."""

# Forty hexadecimal digits, or sixty-four in a repository that uses sha256.
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_VERSION_LINE = re.compile(r"^Version: (\S+)$", re.MULTILINE)


LOCKS = (
    *("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "conda-lock.yml"),
    *("package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "Cargo.lock", "go.sum"),
)
"""Files in which package managers lock dependencies."""

_MAX_PROMPT = 1 << 20

_SECONDS = 5.0

_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")
"""Git, which writes no index for a program that asks, and starts no monitor that a configuration names."""

_OF_ANYBODY = ("-c", "safe.directory=*")
"""Also in a checkout of another user, as a container sees it: only for what runs no filter of that."""


def pinned_environment() -> dict[str, Any]:
    """Return the interpreter, the machine and the versions of judges and judging packages, as JSON values."""
    return {
        "agent_eval": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.system().lower(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in JUDGING_PACKAGES},
        "judges": {name: VERSIONS.get(name, 1) for name in JUDGES},
    }


def _version(package: str) -> str | None:
    try:
        description = metadata.distribution(package).read_text("METADATA") or ""
    except metadata.PackageNotFoundError:
        return None
    # `metadata.version` also parses the package's README, which takes six times as long.
    version = _VERSION_LINE.search(description)
    return version[1] if version else metadata.version(package)


def git_commit(start: Path) -> str | None:
    """Return the commit that is checked out at or above `start`; None where there is none, or no git."""
    commit = _git(start, *_OF_ANYBODY, "rev-parse", "--verify", "HEAD")
    return commit if commit is not None and _COMMIT.fullmatch(commit) else None


def git_origin(start: Path) -> tuple[str | None, str | None]:
    """Return the address of `origin`, and the default branch, at or above `start`; each None if unknown."""
    address = _git(start, *_OF_ANYBODY, "config", "--local", "--get", "remote.origin.url")
    of_origin = _git(start, *_OF_ANYBODY, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    if of_origin is not None:
        return address, of_origin.removeprefix("origin/")
    branch = _git(start, *_OF_ANYBODY, "symbolic-ref", "--short", "HEAD")
    return address, branch if branch in ("main", "master", "trunk") else None


def _git(start: Path, *words: str) -> str | None:
    """Return what git prints in the nearest directory that exists; None where it is missing or fails."""
    place = start.resolve()
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    try:
        done = subprocess.run(
            (*_GIT, *words),
            cwd=next(folder for folder in (place, *place.parents) if folder.is_dir()),
            env={**environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


def redactor_for(environ: Mapping[str, str], *more: str, rules: RedactionRules = NO_RULES) -> Redactor:
    """Make the redactor for everything that a command writes.

    `more` are further secrets, such as a token passed as a flag.

    Raises:
        UsageError: A rule is not valid.
    """
    # The words of every pack and comment: a password that equals a field's name would remove the field.
    vocabulary = ["agent-eval", "trace_score", "message", "tool_call", "tool_result", *JUDGES]
    vocabulary += ["propose_execute_repair", "propose", "repair", "attempt_history", "selected_attempt"]
    for words in (Outcome, FailureKind, GateStatus):
        vocabulary += [word.value for word in words]
    waiting: list[type[Contract]] = [Contract]
    while waiting:
        kind = waiting.pop()
        vocabulary += kind.model_fields
        waiting += kind.__subclasses__()
    return Redactor.from_environment(environ, *more, vocabulary=vocabulary, rules=rules)


def agent_pins(spec: RunSpec, start: Path) -> dict[str, Any]:
    """Return the fields of `RunConfig` that pin the agent; what the identity of `spec` states comes first."""
    identity, commit = spec.identity, git_commit(start)
    prompt, prompt_hash = spec.agent.system_prompt if spec.agent is not None else None, identity.prompt_hash
    if prompt is not None and prompt_hash is None:
        with suppress(AgentEvalError):
            prompt_hash = sha256_bytes(read_bytes(prompt, max_bytes=_MAX_PROMPT))
    return {
        "git_commit": identity.git_commit or commit,
        "git_dirty": is_dirty(start) if commit is not None else None,
        "dependency_lock_hash": identity.dependency_lock_hash or lock_digest(start),
        "container_image": identity.container_image,
        "prompt_hash": prompt_hash,
        "policy_hash": identity.policy_hash,
        "agent_version": identity.agent_version,
        "model": identity.model,
        "seed": identity.seed,
    }


def is_dirty(start: Path) -> bool | None:
    """Tell whether files that git knows differ from the commit; None where git is missing or cannot say.

    Files that git does not know do not count: runs write their evidence beside the code.
    """
    changed = _git(start, "status", "--porcelain=v1", "--untracked-files=no", "--ignore-submodules=none")
    return None if changed is None else bool(changed)


def lock_digest(directory: Path) -> str | None:
    """Return the sha256 of the lock file in a directory; None without one.

    Several locks have the digest of their names and digests, one a line as `sha256sum` prints them.
    """
    digests = []
    for name in LOCKS:
        path = directory / name
        try:
            if path.is_file() and not path.is_symlink():
                digests.append((sha256_file(path)[0], name))
        except (AgentEvalError, OSError):
            return None
    if len(digests) <= 1:
        return digests[0][0] if digests else None
    return sha256_bytes("".join(f"{digest}  {name}\n" for digest, name in digests).encode())
