"""What running an agent costs beside the agent: many at once, one process each, durable trials, memory.

    python benchmarks/execution.py              # everything, writes results/execution.json
    python benchmarks/execution.py --only durable

Each figure is a ratio to the same work done by hand, timed again beside it, so that a busy machine slows both
sides down.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

AGENT_EVAL = Path(sys.executable).with_name("agent-eval")

AGENTS = """
import time
CALLS = [{"tool": name, "arguments": {"order": 7}} for name in ("find", "check", "refund")]

def slow(task):
    time.sleep(0.1)
    return {"assistant_output": "done", "tool_calls": []}

def mock(task):
    return {"assistant_output": "Refunded order " + task["case_id"], "tool_calls": CALLS}
"""

PROGRAM = """
import json, sys
json.dump({"assistant_output": "done", "tool_calls": []}, sys.stdout)
"""


def write_suite(path: Path, cases: int) -> Path:
    with path.open("w") as file:
        file.write('{"dataset_id": "bench"}\n')
        for number in range(cases):
            metadata = {"tool_responses": {"find": {"order": 7}, "check": "fine", "refund": {"ok": True}}}
            case = {
                "case_id": f"case-{number}",
                "input": "Refund it.",
                "regex_patterns": ["."],
                "metadata": metadata,
            }
            file.write(json.dumps(case) + "\n")
    return path


def agent_eval(place: Path, suite: Path, agent: str, *more: str) -> tuple[float, float]:
    """Seconds of a run, and the peak of its memory in MB."""
    shutil.rmtree(place / "out", ignore_errors=True)
    command = [AGENT_EVAL, "run", "--suite", suite, "--out", place / "out", "--agent", agent, *more]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return time.perf_counter() - began, usage.ru_maxrss / 1000


def start_up(place: Path, agent: str = "python:agents:mock") -> float:
    """Seconds of a run of one case."""
    return agent_eval(place, write_suite(place / "one.jsonl", 1), agent)[0]


def concurrent(place: Path) -> dict[str, Any]:
    """1,000 cases of 100 ms, 50 at once: 2 s, and what starting takes. The agent is a Python function.

    The evidence is written after the last trial: 3,000 files and directories, whose creation alone takes a
    second on some file systems and a tenth of it on others. So the same tree is also written by hand.
    """
    agent = "python:agents:slow"
    suite = write_suite(place / "suite.jsonl", 1000)
    start = start_up(place, agent) - 0.1  # the agent's own time
    wall, _ = agent_eval(place, suite, agent, "--parallel", "50")
    by_hand = _copied(place / "out", place / "by-hand")
    return {
        "wall_s": wall,
        "start_up_s": start,
        "ideal_s": 2.0,
        "ratio": wall / (2.0 + start),
        "limit": 1.15,
        "evidence_by_hand_s": by_hand,
        "ratio_with_evidence_by_hand": wall / (2.0 + start + by_hand),
    }


def concurrent_in_memory(_: Path) -> dict[str, Any]:
    """`concurrent` on a file system in memory, where creating files costs next to nothing."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        (Path(directory) / "agents.py").write_text(AGENTS)
        return concurrent(Path(directory))


def _copied(source: Path, target: Path) -> float:
    """Seconds to write the files of a directory again, by hand; reading them is not counted."""
    shutil.rmtree(target, ignore_errors=True)
    files = {file.relative_to(source): file.read_bytes() for file in source.rglob("*") if file.is_file()}
    began = time.perf_counter()
    for name, data in files.items():
        path = target / name
        os.makedirs(path.parent, exist_ok=True)
        with open(path, "xb", buffering=0) as file:
            file.write(data)
    return time.perf_counter() - began


def commands(place: Path) -> dict[str, Any]:
    """1,000 processes, beside spawning the same ones by hand with as many at once."""
    suite = write_suite(place / "suite.jsonl", 1000)
    program = f"{sys.executable} -S -E {place / 'program.py'}"
    start = start_up(place)
    wall, _ = agent_eval(place, suite, f"command:{program}", "--parallel", "2")

    def spawn() -> None:
        for _ in range(500):
            subprocess.run(program.split(), input=b"{}", capture_output=True, check=True, cwd=place)

    threads = [threading.Thread(target=spawn) for _ in range(2)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_hand = time.perf_counter() - began
    return {
        "wall_s": wall,
        "start_up_s": start,
        "by_hand_s": by_hand,
        "ratio": (wall - start) / by_hand,
        "limit": 1.2,
    }


def durable(place: Path) -> dict[str, Any]:
    """Trials a second of an agent that costs nothing, beside a loop that writes and syncs the same bytes."""
    from agent_eval.storage.journal import encode

    cases = 4000
    suite = write_suite(place / "suite.jsonl", cases)
    rate, records = _execution_rate(place, suite, parallel=4)
    lines = [encode(record) for record in records]
    bare = cases / _written(place / "bare", lines)
    return {
        "trials_per_s": rate,
        "bare_per_s": bare,
        "share": rate / bare,
        "least_share": 0.5,
        "least_per_s": 2000,
    }


def _written(path: Path, lines: list[bytes]) -> float:
    """Seconds to write and sync line by line."""
    began = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for line in lines:
        os.write(descriptor, line)
        os.fsync(descriptor)
    os.close(descriptor)
    return time.perf_counter() - began


def _execution_rate(place: Path, suite: Path, parallel: int) -> tuple[float, list[Any]]:
    """Trials a second while the agent is run, and the journal's records."""
    from agent_eval.agents.catalog import open_agent
    from agent_eval.agents.tools import CaseTools
    from agent_eval.engine.agent_run import ExecutionPlan, execute
    from agent_eval.engine.shard import JudgePlan
    from agent_eval.engine.trial import TrialPlan
    from agent_eval.storage.journal import Journal
    from agent_eval.suites.reader import open_suite

    sys.path.insert(0, str(place))
    source = open_suite(suite)
    names = ("tool_contract", "policy", "trajectory_step", "regex", "json_schema", "execution")
    trial = TrialPlan(agent=open_agent("python:agents:mock"), judges=JudgePlan(names).load(), tools=CaseTools)
    with Journal.create(place / "journal", {}) as journal:
        began = time.perf_counter()
        execute(source, ExecutionPlan(trial=trial, parallel=parallel), journal)
        rate = source.case_count / (time.perf_counter() - began)
        records = [entry.record for entry in journal.entries()]
        journal.remove()
    return rate, records


def memory(place: Path) -> dict[str, Any]:
    """Peak memory of a run of many cases, beside that of a run of a hundredth of them."""
    few = agent_eval(place, write_suite(place / "few.jsonl", 1000), "python:agents:mock", "--parallel", "4")
    many = agent_eval(
        place, write_suite(place / "many.jsonl", 100_000), "python:agents:mock", "--parallel", "4"
    )
    return {
        "mb_1000": few[1],
        "mb_100000": many[1],
        "ratio": many[1] / few[1],
        "seconds_100000": many[0],
        "trials_per_s_whole_command": 100_000 / many[0],
    }


FIGURES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "concurrent": concurrent,
    "concurrent-in-memory": concurrent_in_memory,
    "commands": commands,
    "durable": durable,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FIGURES))
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    results_file = HERE / "results" / "execution.json"
    results = json.loads(results_file.read_text()) if results_file.exists() else {}
    for name in chosen.only.split(","):
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            (place / "agents.py").write_text(AGENTS)
            (place / "program.py").write_text(PROGRAM)
            repeat = 1 if name == "memory" else chosen.repeat
            rows = [FIGURES[name](place) for _ in range(repeat)]
        middle = {key: round(statistics.median(row[key] for row in rows), 3) for key in rows[0]}
        load = round(os.getloadavg()[0], 1)
        results[name] = {**middle, "runs": repeat, "load_average": load, "processors": os.cpu_count()}
        results[name]["measured"] = datetime.now(UTC).date().isoformat()
        print(name, json.dumps(results[name]))
        results_file.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
