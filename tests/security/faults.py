"""Commands in which a call that writes fails: the disk is full or broken, or the process is killed at it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.program import environment, unmeasured
from tests.extent import unavailable

HERE = Path(__file__).parent
COUNTING = 4
MODES = {"kill": 1, "no space": 2, "I/O error": 3}
"""`kill` ends the process at the call, a write after half of its bytes; a disk that is full stays full."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: Its exit code, negative for a signal.
        calls: The calls it made that can fail, a letter for each kind; empty if it was killed.
        said: The end of what it printed.
    """

    code: int
    calls: str
    said: str


class FaultServer:
    """Runs commands with failing calls, each in a process of its own that is forked. A context manager."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            unavailable("a C compiler on Linux, for calls that fail")
        library = directory / "faults.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "faults.c"), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "fault_server.py")],
            env=unmeasured(environment({"LD_PRELOAD": str(library)})), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(
        self,
        *arguments: str,
        cwd: Path,
        at: int = 0,
        mode: int = COUNTING,
        environ: dict[str, str] | None = None,
    ) -> Outcome:
        """Run a command; its call number `at` fails, none for 0."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request: dict[str, Any] = {"cwd": str(cwd), "arguments": arguments, "at": at, "mode": mode}
        self._process.stdin.write(json.dumps({**request, "environ": environ or {}}) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> FaultServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)
