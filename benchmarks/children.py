"""What a safe child costs beside a plain one, and what a flood of output takes.

    python benchmarks/children.py            # writes results/children.json

Five hundred attempts of a `command` agent are set against as many processes started with `subprocess.run`.
The two take turns in blocks, so that a busy machine slows both of them down.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from agent_eval.agents.base import Surroundings, Task  # noqa: E402
from agent_eval.agents.command import CommandAgent  # noqa: E402
from agent_eval.agents.tools import CaseTools  # noqa: E402
from agent_eval.contracts import Case  # noqa: E402
from agent_eval.processes.child import ChildLimits, run_child  # noqa: E402
from agent_eval.storage.json import dumps  # noqa: E402

BLOCKS, PER_BLOCK = 10, 50
MIB = 1 << 20
AGENT = """import json, sys
task = json.load(sys.stdin)
print(json.dumps({"assistant_output": task["input"]}))
"""
FLOOD = "import sys\nfor _ in range(1024): sys.stdout.buffer.write(b'x' * (1 << 20))"


def ratios(program: list[str], parallel: int) -> dict[str, Any]:
    """Wall time of attempts through that of other ways to run the same processes, block by block."""
    task = Task(Case(case_id="c", input="hello"))
    agent, body = CommandAgent(program), dumps(task.payload())

    def safe(_: int) -> None:
        result = agent.attempt(task, Surroundings(CaseTools(task.case)))
        assert result.failure is None, result.problem

    def plain(_: int) -> None:
        subprocess.run(program, input=body, capture_output=True, check=True)

    with ThreadPoolExecutor(parallel) as pool:
        safe(0)
        blocks = [tuple(timed(pool, way) for way in (safe, plain)) for _ in range(BLOCKS)]
    to_plain = [safe / plain for safe, plain in blocks]
    medians = [round(statistics.median(way) * 1000 / PER_BLOCK, 2) for way in zip(*blocks, strict=True)]
    return {
        "parallel": parallel,
        "ratio": round(statistics.median(to_plain), 3),
        "ratios": [round(ratio, 3) for ratio in to_plain],
        **dict(zip(("safe_ms", "plain_ms"), medians, strict=True)),
    }


def timed(pool: ThreadPoolExecutor, work: Callable[[int], None]) -> float:
    """Seconds that a block takes."""
    began = time.perf_counter()
    list(pool.map(work, range(PER_BLOCK)))
    return time.perf_counter() - began


def flood() -> dict[str, Any]:
    """A child that writes 1 GiB, against the usual cap of 8 MiB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    began = time.perf_counter()
    result = run_child([sys.executable, "-c", FLOOD], env=dict(os.environ), limits=ChildLimits(seconds=60))
    seconds = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    assert result.failure is not None
    return {"failure": result.failure.value, "seconds": round(seconds, 3), "mib": round(grown / MIB, 1)}


def main() -> None:
    """Measure, print, and write the results."""
    run_child(["true"], env=dict(os.environ))
    results: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()},
        "flood": flood(),
    }
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "agent.py"
        script.write_text(AGENT)
        for parallel in (1, 4):
            results[f"python_agent_{parallel}"] = ratios([sys.executable, str(script)], parallel)
        quick = ["sh", "-c", "read task; echo '{\"assistant_output\": 1}'"]
        results["shell_agent_1"] = ratios(quick, 1)
    text = json.dumps(results, indent=2, sort_keys=True) + "\n"
    (HERE / "results" / "children.json").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
