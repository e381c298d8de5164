"""Running an agent from the command line: the example first fails, is repaired, and passes the gate."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import REPOSITORY, Ended, agent_eval, tree
from tests.extent import WHOLE_JOB
from tests.fakes.models import FakeOpenAi
from tests.fakes.models import Step as Said

EXAMPLES = REPOSITORY / "examples"
SUITE = EXAMPLES / "suite_agent.json"
AGENT = f"{sys.executable} {EXAMPLES / 'order_agent.py'}"


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
    return agent_eval("run-loop", *arguments, cwd=place, **how)


def trajectory(place: Path, case_id: str, out: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / out / "cases" / case_id / "trajectory.json").read_text())
    return found


def test_the_example_fails_is_repaired_and_gated(tmp_path: Path) -> None:
    once = ["run", "--suite", SUITE, "--out", "once", "--agent-command", AGENT]
    assert agent_eval(*once, cwd=tmp_path).json()["summary"]["passed_cases"] == 1
    strict = ["--strict-side-effects", "--max-repairs", "2"]
    loop = run_loop(tmp_path, SUITE, AGENT, *strict, out="loop").json()
    assert loop["summary"]["pass_rate"] == 1
    assert loop["complete"] is True
    metadata = trajectory(tmp_path, "refund-damaged", "loop")["metadata"]
    assert [attempt["passed"] for attempt in metadata["attempt_history"]] == [False, True]
    assert metadata["selected_attempt"] == 1
    assert "never called" in metadata["attempt_history"][1]["artifacts"]["stderr.txt"]
    # Repairs are no improvement of the agent; without them it is worse.
    for baseline, candidate, rules, code, said in (
        ("once", "loop", ("--preset", "pull-request"), 0, "The agent was given more help than the base's"),
        ("loop", "once", ("--max-regressed-cases", "0"), 1, "1 case regressed"),
    ):
        compared = agent_eval("compare", "--baseline", baseline, "--candidate", candidate, cwd=tmp_path)
        assert compared.code == 0
        delta = tmp_path / candidate / "compare" / "baseline_delta.json"
        sides = ("--baseline", baseline, "--candidate", candidate)
        gate = agent_eval("gate", "--compare", delta, *sides, *rules, cwd=tmp_path)
        assert (gate.code, gate.json()["passed"]) == (code, False)
        assert gate.json()["sentence"].startswith(said)
    config = json.loads((tmp_path / "loop" / "run" / "config.json").read_text())
    assert config["execution_mode"] == "propose_execute_repair"
    assert config["execution_config"]["max_repairs"] == 2


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
    assert task["previous_attempts"] == []
    assert task["policy"]["required_tools"] == ["t"]
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
def test_an_agent_that_fails_is_an_error_of_its_kind_and_costs_no_other_case(
    tmp_path: Path, body: str, kind: str
) -> None:
    cases = [{"case_id": name, "regex_patterns": ["fine"]} for name in ("a", "b", "c")]
    lines = f"if task['case_id'] == 'b':\n    {body}\nelse:\n    {say(repr('fine'))}"
    limits = ["--command-timeout-seconds", "2", "--max-output-bytes", "100000", "--max-repairs", "0"]
    command = program(tmp_path / "a.py", lines)
    summary = run_loop(tmp_path, suite_of(tmp_path / "s.json", *cases), command, *limits).json()["summary"]
    assert (summary["passed_cases"], summary["error_cases"]) == (2, 1)
    assert kind in summary["failures"]


def test_a_program_that_does_not_exist_is_not_evaluable(tmp_path: Path) -> None:
    ended = run_loop(tmp_path, SUITE, "no-such-program-anywhere")
    assert ended.code == 4
    assert "no-such-program-anywhere" in ended.error["message"]
    assert not (tmp_path / "out").exists()


@WHOLE_JOB
def test_resuming_another_run_shows_the_difference(tmp_path: Path) -> None:
    cases = [{"case_id": name} for name in ("a", "b", "c")]
    suite = suite_of(tmp_path / "s.json", *cases)
    command = program(tmp_path / "a.py", f"time.sleep(0.4)\n{say('1')}")
    stopped = run_loop(tmp_path, suite, command, "--max-run-seconds", "0.1")
    assert stopped.code == 4
    assert "time limit of 0.1 s is reached" in stopped.err
    assert stopped.err.splitlines()[-2].endswith(" --resume")
    assert json.loads(stopped.out)["complete"] is False
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["complete"] is False
    assert 1 <= manifest["case_count"] < 3
    refused = run_loop(tmp_path, suite, command, "--resume", "--max-repairs", "7", "--seed", "3")
    assert refused.code == 2
    assert "execution_config.max_repairs was 2, now 7" in refused.error["message"]
    assert "seed was 0, now 3" in refused.error["message"]
    again = run_loop(tmp_path, suite, command)
    assert again.code == 2
    assert "--resume" in again.error["details"]["remedy"]
    finished = run_loop(tmp_path, suite, command, "--resume").json()
    assert finished["complete"] is True
    assert finished["resumed_cases"] == manifest["case_count"]
    assert finished["summary"]["total_cases"] == 3


def test_four_shards_merged_are_one_run(tmp_path: Path) -> None:
    cases = [{"case_id": f"c{number}", "regex_patterns": ["[02468]"]} for number in range(24)]
    suite = suite_of(tmp_path / "s.json", *cases)
    command = program(tmp_path / "a.py", say("task['case_id']"))
    more = ["--run-id", "r", "--parallel", "4", "--max-repairs", "0", "--git-commit", "0" * 40]
    assert run_loop(tmp_path, suite, command, *more, out="whole").code == 0
    names = [f"s{number}" for number in range(1, 5)]
    for number, name in enumerate(names, start=1):
        assert run_loop(tmp_path, suite, command, *more, "--shard", f"{number}/4", out=name).code == 0
    merged = agent_eval("merge", *names, "--out", "merged", cwd=tmp_path)
    assert merged.json()["summary"]["total_cases"] == 24
    assert tree(tmp_path / "merged") == tree(tmp_path / "whole")
    gap = agent_eval("merge", *names[1:], "--out", "m", cwd=tmp_path)
    assert gap.code == 2
    assert "missing" in gap.error["message"]


def test_trials_of_a_case_decide_together(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "s.json", {"case_id": "a", "regex_patterns": ["1"]})
    count = "open('n', 'a').write('x')\nn = os.path.getsize('n')\n" + say("int(n != 2)")
    command = program(tmp_path / "a.py", count)
    more = ["--trials", "3", "--max-repairs", "0"]
    summary = run_loop(tmp_path, suite, command, *more).json()["summary"]
    assert (summary["total_cases"], summary["passed_cases"], summary["flaky_cases"]) == (1, 0, 1)


def test_strict_side_effects_fail_what_the_case_does_not_answer(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "s.json", {"case_id": "a", "policy": {"required_tools": ["pay"]}})
    calls = "json.dump({'assistant_output': 1, 'tool_calls': [{'tool': 'pay', 'arguments': {}}]}, sys.stdout)"
    command = program(tmp_path / "a.py", calls)
    lenient = run_loop(tmp_path, suite, command, out="lenient").json()["summary"]
    strict = run_loop(tmp_path, suite, command, "--strict-side-effects", out="strict").unjudged()["summary"]
    assert (lenient["passed_cases"], strict["passed_cases"]) == (1, 0)
    assert "contract_violation" in strict["failures"]


def test_tools_are_recorded_once_and_played_back(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "def tools(name, arguments):\n    return {'stock': arguments['n'] * 2}\n"
    )
    suite = suite_of(tmp_path / "s.json", {"case_id": "a", "input": 4})
    calls = "[{'tool': 't', 'arguments': {'n': task['input']}}]"
    body = f"json.dump({{'assistant_output': 1, 'tool_calls': {calls}}}, sys.stdout)"
    command = program(tmp_path / "a.py", body)
    assert run_loop(tmp_path, suite, command, "--tools", "shop:tools", "--record", "c.json").code == 0
    (tmp_path / "shop.py").unlink()
    assert run_loop(tmp_path, suite, command, "--replay", "c.json", out="played").code == 0
    trace = trajectory(tmp_path, "a", "played")["trace"]
    assert [event["output"] for event in trace if event["type"] == "tool_result"] == [{"stock": 8}]
    missed = suite_of(tmp_path / "m.json", {"case_id": "a", "input": 5})
    summary = run_loop(tmp_path, missed, command, "--replay", "c.json", out="missed").unjudged()["summary"]
    assert summary["error_cases"] == 1
    verdicts = json.loads((tmp_path / "missed" / "cases" / "a" / "verdicts.json").read_text())["verdicts"]
    reason = next(verdict["reason"] for verdict in verdicts if verdict["judge_id"] == "execution")
    assert 'nearest recorded call is t with {"n":4}' in reason


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ([], "--agent-command"),
        (["--agent", "python:x:y", "--propose-command", "x"], "--agent-command"),
        (["--agent", "python:x:y", "--repair-command", "x"], "--repair-command"),
        (["--propose-command", "x", "--parallel", "0"], "--parallel"),
        (["--propose-command", "x", "--parallel", "many"], "--parallel"),
        (["--propose-command", "x", "--shard", "9/8"], "shard"),
        (["--propose-command", "x", "--max-run-cost", "nan"], "--max-run-cost"),
        (["--propose-command", "x", "--record", "a", "--replay", "b"], "--record"),
        (["--propose-command", "x", "--record", "a"], "tool"),
        (["--agent", "http://localhost:1", "--agent-header", "Authorization=NOT_SET_ANYWHERE"], "NOT_SET"),
        (["--agent", "http://localhost:1", "--agent-header", "Authorization"], "--agent-header"),
        (["--agent", "comand:x"], "command"),
    ],
)
def test_wrong_requests_are_told(tmp_path: Path, flags: list[str], named: str) -> None:
    ended = agent_eval("run-loop", "--suite", SUITE, "--out", "out", *flags, cwd=tmp_path)
    assert ended.code == 2
    assert named in json.dumps(ended.error)
    assert not (tmp_path / "out").exists()


def test_flags_for_agents_mean_nothing_without_one(tmp_path: Path) -> None:
    ended = agent_eval("run", "--suite", SUITE, "--out", "out", "--max-steps", "3", cwd=tmp_path)
    assert ended.code == 2
    assert "--max-steps is for running an agent" in ended.error["message"]


@WHOLE_JOB
def test_a_hosted_model_is_run_with_a_prompt_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Be brief.")
    suite = suite_of(tmp_path / "s.json", {"case_id": "a", "input": "Hello?"})
    with FakeOpenAi(Said(text="Hello.")) as model:
        flags = ["--agent", "openai:small", "--base-url", model.base_url, "--system-prompt", "prompt.txt"]
        done = agent_eval("run", "--suite", suite, "--out", "out", *flags, cwd=tmp_path).json()
    assert done["summary"]["total_cases"] == 1
    assert model.requests[0]["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_header_comes_from_the_environment(tmp_path: Path) -> None:
    seen: list[str | None] = []

    class Agent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"assistant_output": "hello"}')

        def log_message(self, *_: object) -> None:
            """Silence."""

    suite = suite_of(tmp_path / "s.json", {"case_id": "a", "regex_patterns": ["hello"]})
    with ThreadingHTTPServer(("127.0.0.1", 0), Agent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        flags = ["--agent", address, "--agent-header", "Authorization=MY_HEADER"]
        arguments = ["run", "--suite", suite, "--out", "out", *flags]
        done = agent_eval(*arguments, cwd=tmp_path, environ={"MY_HEADER": "Bearer abcdefgh"}).json()
        server.shutdown()
    assert done["summary"]["total_cases"] == 1
    assert seen == ["Bearer abcdefgh"]
