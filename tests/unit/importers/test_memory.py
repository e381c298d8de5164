"""An import's memory does not grow with its input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import unmeasured

MEASURE = """
import resource, sys
from pathlib import Path
from agent_eval.operations.import_traces import ImportRequest, import_traces
imported = import_traces(ImportRequest((Path(sys.argv[1]),), Path(sys.argv[2]), "provider"))
print(imported.totals.cases, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def write(path: Path, size: int) -> int:
    """Write exchanges of Chat Completions until the file has `size` bytes; returns how many."""
    number = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            messages = [{"role": "user", "content": f"{number} {'where is my order? ' * 200}"}]
            answer = {"role": "assistant", "content": "No." * 400}
            choice = {"index": 0, "finish_reason": "stop", "message": answer}
            response = {"object": "chat.completion", "choices": [choice]}
            file.write(json.dumps({"request": {"messages": messages}, "response": response}) + "\n")
            number += 1
    return number


def peak_kib(home: Path, size: int) -> int:
    source = home / "dump.jsonl"
    number = write(source, size)
    command = [sys.executable, "-c", MEASURE, str(source), str(home / "out.jsonl")]
    done = subprocess.run(command, env=unmeasured(os.environ), capture_output=True, text=True, check=True)
    cases, peak = map(int, done.stdout.split())
    assert cases == number
    return peak


@pytest.mark.parametrize("mebibytes", [9, pytest.param(65, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_file(mebibytes: int, tmp_path: Path) -> None:
    small, large = peak_kib(tmp_path, 1 << 20), peak_kib(tmp_path, mebibytes << 20)
    assert large - small < 4 << 10, f"{mebibytes - 1} MiB more took more than 4"
