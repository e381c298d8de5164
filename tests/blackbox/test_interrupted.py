"""A run that is killed goes on where it stopped: what was finished is neither lost nor done again."""

import json
import shlex
import signal
import subprocess
import time
from pathlib import Path

from tests.blackbox.installed import TIMEOUT, Program

AGENT = """
import json, pathlib, sys, time
task = json.load(sys.stdin)
with open("asked.txt", "a") as log:
    log.write(task["case_id"] + "\\n")
while task["case_id"] == "d" and not pathlib.Path("go").exists():
    time.sleep(0.05)
print(json.dumps({"assistant_output": "Done.", "tool_calls": []}))
"""
CASES = ("a", "b", "c", "d", "e", "f")
LINE = 'agent-eval run-loop --suite suite.json --out pack --propose-command "python agent.py" --max-repairs 0'


def test_a_killed_run_goes_on_where_it_stopped(program: Program, tmp_path: Path) -> None:
    cases = [{"case_id": name, "input": name, "regex_patterns": ["Done"]} for name in CASES]
    (tmp_path / "suite.json").write_text(json.dumps({"dataset_id": "long", "cases": cases}))
    (tmp_path / "agent.py").write_text(AGENT)
    running = start(program, LINE, tmp_path)
    wait_until_asked(tmp_path, running, "d")
    running.kill()
    assert running.wait(TIMEOUT) == -signal.SIGKILL
    (tmp_path / "go").touch()
    refused = program.run(shlex.split("agent-eval compare --baseline pack --candidate pack"), tmp_path)
    assert refused.code == 2, refused
    ended = program.run(shlex.split(f"{LINE} --resume"), tmp_path)
    assert ended.code == 0, ended
    summary = json.loads((tmp_path / "pack/run/summary.json").read_text())
    assert (summary["total_cases"], summary["passed_cases"]) == (6, 6)
    assert (tmp_path / "asked.txt").read_text().split() == ["a", "b", "c", "d", "d", "e", "f"]
    assert program.run(["agent-eval", "verify", "pack"], tmp_path).code == 0


def start(program: Program, line: str, directory: Path) -> subprocess.Popen[bytes]:
    first, *rest = shlex.split(line)
    return subprocess.Popen(
        [str(program.place / "bin" / first), *rest], cwd=directory, env=program.environ(),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def wait_until_asked(directory: Path, running: subprocess.Popen[bytes], case: str) -> None:
    """Wait until the agent was asked for a case, however slow the machine is."""
    asked = directory / "asked.txt"
    end = time.monotonic() + TIMEOUT
    while not (asked.is_file() and case in asked.read_text().split()):
        assert running.poll() is None, "the run ended before it was killed"
        assert time.monotonic() < end
        time.sleep(0.02)
