"""Runs commands in forked processes in which one call that writes fails. Started by `faults.py`; see there.

Reads requests on standard input, one JSON object a line, and answers each with one on standard output.
"""

import ctypes
import gc
import json
import mmap
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

SECONDS = 60


def main() -> None:
    faults = ctypes.CDLL(os.environ["LD_PRELOAD"])
    faults.faults_calls.restype = ctypes.c_long
    faults.faults_kinds.restype = ctypes.c_char_p
    front = import_module("agent_eval.cli.main")
    for entry in front.COMMANDS.values():
        import_module(entry.target.partition(":")[0])
    for name in ("agent_eval.operations.trust", "agent_eval.operations.run_agent", "agent_eval.ci.job"):
        import_module(name)
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), faults, front)), flush=True)


def answer(request: Mapping[str, Any], faults: ctypes.CDLL, front: Any) -> dict[str, Any]:
    """Run one command in a child process, and say how it ended and what calls it made."""
    shared = mmap.mmap(-1, 1 << 13)
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if not child:
            run(request, faults, front, shared, printed.fileno())
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.alarm(SECONDS)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        signal.alarm(0)
        printed.seek(0)
        said = printed.read().decode("utf-8", "replace")
    calls = shared[:].rstrip(b"\0").decode()
    return {"code": status, "calls": calls, "said": said[-3000:]}


def run(request: Mapping[str, Any], faults: ctypes.CDLL, front: Any, shared: mmap.mmap, out: int) -> None:
    """Be the child process; does not return."""
    code = 70
    try:
        pipe, end = os.pipe()
        printer = os.fork()
        if not printer:
            # Another process writes the output, so that what is printed is no file of this one.
            os.close(end)
            while data := os.read(pipe, 1 << 16):
                os.write(out, data)
            os._exit(0)
        os.close(pipe)
        os.dup2(end, 1)
        os.dup2(end, 2)
        os.close(end)
        os.chdir(request["cwd"])
        os.environ.update(request["environ"])
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        faults.faults_arm(ctypes.c_long(request["at"]), ctypes.c_int(request["mode"]))
        code = front.main(request["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        kinds = faults.faults_kinds()
        assert faults.faults_calls() == len(kinds)
        shared[: len(kinds)] = kinds
        faults.faults_arm(ctypes.c_long(0), ctypes.c_int(0))
        sys.stdout.flush()
        sys.stderr.flush()
        os.close(1)
        os.close(2)
        os.waitpid(printer, 0)
        os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
