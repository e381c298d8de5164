"""Running the real command line as a process."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]

CLOCK = "2026-01-14T10:00:00+00:00"


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Stdout as JSON; stderr must be silent."""
        assert self.err == "", self.err
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The one error on stderr; stdout must be silent."""
        assert self.out == "", self.out
        assert self.err.count("\n") == 1, self.err
        error = json.loads(self.err)
        assert set(error) == {"error"}
        assert set(error["error"]) == {"code", "message", "details"}
        return dict(error["error"])


def agent_eval(
    *arguments: str | Path,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    largest_file: int | None = None,
) -> Ended:
    """Run `agent-eval` in a directory, with the clock pinned.

    Args:
        largest_file: Bytes beyond which the kernel refuses to let a file grow: a disk that is full.
    """

    def limit() -> None:
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    # What measures coverage could not write its file either, and would say so on stderr.
    measured = largest_file is None
    done = subprocess.run(
        [sys.executable, "-m", "agent_eval", *map(str, arguments)],
        cwd=cwd,
        env={
            name: value
            for name, value in environment(environ).items()
            if measured or not name.startswith("COVERAGE_")
        },
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the tests without what CI adds to it, the clock pinned."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GITHUB_", "INPUT_", "AGENT_EVAL_", "SOURCE_DATE"))
    }
    # Bytecode of agent_eval would be written under the file size limit of some tests.
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    return {**kept, "AGENT_EVAL_CLOCK": CLOCK, **(more or {})}


def tree(root: Path) -> dict[str, str]:
    """Everything below a directory: path to digest, or to what it is."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(".coverage."):
            continue  # Where the tests are measured, some of the processes leave their figures here.
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_dir():
            found[name] = "directory"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "neither file, directory nor link"
    return found
