"""Pins of the agent under test that can be read from where the run starts: its tree, lock and prompt.

Nothing that names a person or a machine is recorded: no path, host name, user name or working directory.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_eval.config.spec import Identity, RunSpec
from agent_eval.errors import AgentEvalError
from agent_eval.operations.environment import git_commit
from agent_eval.storage.files import read_bytes, sha256_bytes, sha256_file

LOCKS = (
    *("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "conda-lock.yml"),
    *("package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "Cargo.lock", "go.sum"),
)
"""Files in which package managers lock dependencies."""

_MAX_PROMPT = 1 << 20
_SECONDS = 5.0

# A status asked for by a program must not write the index, nor start what a configuration names as a monitor.
_STATUS = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"),
    *("status", "--porcelain=v1", "--untracked-files=no", "--ignore-submodules=none"),
)


def agent_pins(spec: RunSpec, start: Path) -> dict[str, Any]:
    """Return the fields of `RunConfig` that pin the agent, by name.

    Args:
        spec: Specification of the run; what its identity states comes first.
        start: The directory in which the run starts.
    """
    identity = spec.identity
    commit = git_commit(start)
    return {
        "git_commit": identity.git_commit or commit,
        "git_dirty": is_dirty(start) if commit is not None else None,
        "dependency_lock_hash": identity.dependency_lock_hash or lock_digest(start),
        "container_image": identity.container_image,
        "prompt_hash": identity.prompt_hash or _prompt_digest(spec),
        "policy_hash": identity.policy_hash,
        **_stated(identity),
    }


def _stated(identity: Identity) -> Mapping[str, Any]:
    return {"agent_version": identity.agent_version, "model": identity.model, "seed": identity.seed}


def is_dirty(start: Path) -> bool | None:
    """Tell whether files that git knows differ from the commit; None where git is missing or cannot say.

    Files that git does not know do not count: runs write their evidence beside the code.
    """
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    try:
        done = subprocess.run(
            _STATUS,
            cwd=start,
            env={**environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(done.stdout) if done.returncode == 0 else None


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


def _prompt_digest(spec: RunSpec) -> str | None:
    prompt = spec.agent.system_prompt if spec.agent is not None else None
    if prompt is None:
        return None
    try:
        return sha256_bytes(read_bytes(prompt, max_bytes=_MAX_PROMPT))
    except AgentEvalError:
        return None
