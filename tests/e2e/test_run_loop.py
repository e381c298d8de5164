"""Running an agent from the command line: the example first fails, is repaired, and passes the gate."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import trajectory
from tests.e2e.program import Ended, agent_eval, resuming
from tests.extent import WHOLE_JOB


def program(path: Path, body: str) -> str:
    """A command that runs Python code with the task in `task`."""
    path.write_text(f"import json, os, sys, time\ntask = json.load(sys.stdin)\n{body}\n")
    return f"{sys.executable} -S -E {path}"


def say(what: str) -> str:
    return f"json.dump({{'assistant_output': {what}}}, sys.stdout)"


def suite_of(path: Path, *cases: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"dataset_id": "d", "cases": list(cases)}))
    return path


def run_loop(place: Path, suite: Path, command: str, *more: str, out: str = "out", **how: Any) -> Ended:
    arguments = ["--suite", suite, "--out", out, "--propose-command", command, *more]
    return agent_eval("run-loop", "--format", "json", *arguments, cwd=place, **how)


def test_the_agent_gets_what_it_needs_and_no_more(tmp_path: Path) -> None:
    case = {"case_id": "a", "input": {"q": 1}, "expected_output": "42", "policy": {"required_tools": ["t"]}}
    shared = {**case, "case_id": "b", "metadata": {"share_expected_output": True}}
    suite = suite_of(tmp_path / "s.json", case, shared)
    command = program(tmp_path / "a.py", say("{'task': task, 'environ': dict(os.environ)}"))
    environ = {"MY_TOKEN": "tttttttttttt", "MY_SETTING": "on", "OTHER": "off"}
    done = run_loop(
        tmp_path, suite, command, "--agent-env", "MY_SETTING", "--max-repairs", "0", environ=environ
    )
    assert done.code == 0
    said = trajectory(tmp_path, "a")["trace"][-1]["output"]
    task = said["task"]
    assert task["mode"] == "propose"
    assert (task["case_id"], task["input"], task["attempt"]) == ("a", {"q": 1}, 0)
    assert (task["previous_attempts"], task["policy"]["required_tools"]) == ([], ["t"])
    assert "expected_output" in task
    assert task["expected_output"] is None
    assert trajectory(tmp_path, "b")["trace"][-1]["output"]["task"]["expected_output"] == "42"
    assert said["environ"]["MY_SETTING"] == "on"
    assert not {"MY_TOKEN", "OTHER", "AGENT_EVAL_CLOCK"} & set(said["environ"])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("sys.exit(3)", "agent_error"),
        ("os.kill(os.getpid(), 9)", "agent_error"),
        ("time.sleep(60)", "timeout"),
        ("os.write(1, b'x' * 200_000)", "output_limit"),
        ("pass", "missing_output"),
        ("print('{')", "parse_error"),
        ("print('[]')", "type_error"),
        ('print(\'{"assistant_output": null, "tool_calls": 3}\')', "type_error"),
    ],
)
@WHOLE_JOB
def test_agent_that_fails_is_an_error_and_costs_no_other_case(tmp_path: Path, body: str, kind: str) -> None:
    cases = [{"case_id": name, "regex_patterns": ["fine"]} for name in ("a", "b", "c")]
    lines = f"if task['case_id'] == 'b':\n    {body}\nelse:\n    {say(repr('fine'))}"
    limits = [
        *("--set", "limits.attempt.seconds=2", "--set", "limits.attempt.output_bytes=100000"),
        *("--max-repairs", "0"),
    ]
    command = program(tmp_path / "a.py", lines)
    summary = run_loop(tmp_path, suite_of(tmp_path / "s.json", *cases), command, *limits).json()["summary"]
    assert (summary["passed_cases"], summary["error_cases"]) == (2, 1)
    assert kind in summary["failures"]


@WHOLE_JOB
def test_resuming_another_run_shows_the_difference(tmp_path: Path) -> None:
    cases = [{"case_id": name} for name in ("a", "b", "c")]
    suite = suite_of(tmp_path / "s.json", *cases)
    waits = f"task['case_id'] == 'b' and not os.path.exists({str(tmp_path / 'goes on')!r})"
    command = program(tmp_path / "a.py", f"time.sleep(60 if {waits} else 0)\n{say('1')}")
    stopped = run_loop(tmp_path, suite, command, "--set", "limits.run.seconds=5")
    assert stopped.code == 4
    assert "time limit of 5 s is reached" in stopped.err
    assert resuming(stopped.err).endswith(" --resume")
    assert json.loads(stopped.out)["complete"] is False
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["complete"] is False
    assert manifest["case_count"] == 1
    refused = run_loop(tmp_path, suite, command, "--resume", "--max-repairs", "7", "--seed", "3")
    assert refused.code == 2
    assert "execution_config.max_repairs was 2, now 7" in refused.error["message"]
    assert "seed was 0, now 3" in refused.error["message"]
    again = run_loop(tmp_path, suite, command)
    assert again.code == 2
    assert "--resume" in again.error["details"]["remedy"]
    (tmp_path / "goes on").touch()
    finished = run_loop(tmp_path, suite, command, "--resume").json()
    assert finished["complete"] is True
    assert (finished["resumed_cases"], finished["summary"]["total_cases"]) == (1, 3)
