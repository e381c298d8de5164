"""Run the real command line as a process."""

import atexit
import hashlib
import io
import json
import os
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.fork_server import (
    OF_HOSTED_MODELS,
    PROGRAM,
    REPOSITORY,
    Command,
    ForkedProcess,
    ForkServer,
    may_fork,
)
from tests.extent import NIGHTLY

CLOCK = "2026-01-14T10:00:00+00:00"
TIMEOUT = 120
Process = subprocess.Popen[bytes] | ForkedProcess


def resuming(err: str) -> str:
    """The command that resumes, of the error that a stopped run ends in."""
    remedy = json.loads(err.splitlines()[-1])["error"]["details"]["remedy"]
    introduced = re.search(r"To go on(?:: |, raise --max-run-cost in )(.*--resume)$", remedy)
    assert introduced is not None, remedy
    return introduced[1]


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

    def unjudged(self) -> Any:
        """Stdout as JSON of a run that judged no case, which is no success."""
        assert self.code == 4, self.err
        assert "No case of `" in self.err
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
    fresh: bool = False,
) -> Ended:
    """Run `agent-eval` in a directory, with the clock pinned.

    Args:
        largest_file: Bytes beyond which the kernel refuses to let a file grow: a disk that is full.
        fresh: Start an interpreter of its own even where a fork would do: see `execute`.
    """
    kept = environment(environ) if largest_file is None else unmeasured(environment(environ))
    return execute(Command((*PROGRAM, *map(str, arguments)), str(cwd), kept, largest_file), fresh=fresh)


def start(
    *arguments: str | Path,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    own_group: bool = False,
    measured: bool = True,
) -> Process:
    """Start `agent-eval`, which runs on while the test does something to it. Its streams are pipes.

    Args:
        own_group: Run it in a process group of its own.
        measured: False for a process whose workers are killed: they leave broken coverage data behind.
    """
    kept = environment(environ) if measured else unmeasured(environment(environ))
    command = Command((*PROGRAM, *map(str, arguments)), str(cwd), kept, own_group=own_group)
    if not _starts_afresh(command):
        return _server_for(command).start(command)
    return subprocess.Popen(
        command.words, cwd=command.cwd, env=command.environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0 if own_group else None,
    )  # fmt: skip


def unmeasured(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which coverage is not measured.

    For processes whose files the kernel limits (coverage could not write its own either, and would say so on
    stderr), and for those that are killed while they write.
    """
    return {name: value for name, value in environ.items() if not name.startswith("COVERAGE_")}


_CLIENT = Path(__file__).with_name("fork_client.py")
_SERVER = ForkServer()
_SERVER_OF_HOSTED_MODELS = ForkServer(OF_HOSTED_MODELS)
_PROGRESS = re.compile(r"^[\d,]+ of [\d,]+ \w+ \(\d+ %\).*\n", re.MULTILINE)
atexit.register(_SERVER.close)
atexit.register(_SERVER_OF_HOSTED_MODELS.close)
_MEASURED = any(name.startswith("COVERAGE_") for name in os.environ)


def execute(command: Command, *, join: bool = False, fresh: bool = False) -> Ended:
    """Run a command: forked, which is quick, or started afresh where that makes a difference.

    Args:
        join: Send stderr to stdout.
        fresh: Start an interpreter of its own, as all commands have it at night.
    """
    if fresh or _starts_afresh(command):
        return _run_afresh(command, join=join)
    code, out, err = _server_for(command).run(command, timeout=TIMEOUT, join=join)
    return _ended(code, out, err)


def _starts_afresh(command: Command) -> bool:
    """Whether nothing may be shared with other commands."""
    return NIGHTLY or _MEASURED or not may_fork(command)


def _server_for(command: Command) -> ForkServer:
    named = any(word.startswith(("anthropic:", "openai:")) for word in command.words)
    hosted = named or "INPUT_AGENT-MODEL" in command.environ
    return _SERVER_OF_HOSTED_MODELS if hosted else _SERVER


def _run_afresh(command: Command, *, join: bool) -> Ended:
    def limit() -> None:
        if command.largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (command.largest_file, command.largest_file))

    done = subprocess.run(
        command.words, cwd=command.cwd, env=command.environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if join else subprocess.PIPE, timeout=TIMEOUT,
        preexec_fn=limit, check=False,
    )  # fmt: skip
    return _ended(done.returncode, done.stdout, done.stderr or b"")


def write_program(path: Path) -> tuple[int, ...]:
    """Write an executable that is this program; returns the descriptors that it must inherit."""
    if NIGHTLY or _MEASURED:
        command, inherited = shlex.join(PROGRAM), ()
    else:
        inherited = (_SERVER.requests().fileno(),)
        command = shlex.join([sys.executable, "-S", "-E", str(_CLIENT), str(inherited[0])])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)
    return inherited


def _ended(code: int, out: bytes, err: bytes) -> Ended:
    # What a run says of its progress every few seconds is there on a slow machine only.
    return Ended(code, _text(out), _PROGRESS.sub("", _text(err)))


def _text(printed: bytes) -> str:
    """As subprocess decodes it."""
    return io.TextIOWrapper(io.BytesIO(printed)).read()


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the tests without what CI adds, and what looks like an agent's; the clock pinned."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GITHUB_", "INPUT_", "AGENT_EVAL_", "SOURCE_DATE"))
        and not name.endswith(("_MODEL", "_KEY", "_URL"))
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


__all__ = [
    "CLOCK", "REPOSITORY", "Ended", "Process", "agent_eval", "environment", "execute", "resuming", "start",
    "tree", "write_program",
]  # fmt: skip
