"""What one trial reports or does, however odd, concerns that trial alone; nothing is changed on its way."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import events, write_suite
from tests.e2e.program import Ended, agent_eval
from tests.factories import make_case, make_suite
from tests.fakes.json_server import JsonServer
from tests.fakes.models import FakeAnthropic, FakeModel, FakeOpenAi, Step

WIDE = 123_456_789_012_345_678_901_234_567_890
HOSTED = {"openai": FakeOpenAi, "anthropic": FakeAnthropic}


def suite_of(place: Path, *cases: dict[str, Any]) -> list[str]:
    judged = [{"regex_patterns": ["."], **case} for case in cases]
    write_suite(place, *judged)
    return ["run", "--suite", "suite.json", "--out", "out"]


def answered(kind: str, usage: Any) -> bytes:
    """A model's answer with a usage that the real service would not send."""
    if kind == "openai":
        message = {"role": "assistant", "content": "hello"}
        body = {"id": "1", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
        names = ("prompt_tokens", "completion_tokens")
    else:
        content = [{"type": "text", "text": "hello"}]
        body = {"id": "1", "model": "m", "content": content, "stop_reason": "end_turn"}
        names = ("input_tokens", "output_tokens")
    return json.dumps({**body, "usage": {names[0]: usage, names[1]: 7}}).encode()


REPORTED = [("12", 12), *((odd, None) for odd in ("many", [12], {"n": 1}, True, -1, 10**40))]


@pytest.mark.parametrize("kind", sorted(HOSTED))
def test_a_token_count_that_is_no_number_is_read_or_unknown(kind: str, tmp_path: Path) -> None:
    cases = [{"case_id": str(number), "input": "hi"} for number in range(len(REPORTED))]
    with HOSTED[kind](*(Step(body=answered(kind, reported)) for reported, _ in REPORTED)) as model:
        agent = ["--agent", f"{kind}:small", "--set", f"agent.base_url={model.base_url}", "--parallel", "1"]
        words = [*suite_of(tmp_path, *cases), "--format", "json", *agent, "--set", "limits.case.tokens=1000"]
        ended = agent_eval(*words, cwd=tmp_path)
    assert ended.json()["summary"]["passed_cases"] == len(REPORTED)
    for number, (_, read) in enumerate(REPORTED):
        counted = events(tmp_path, str(number))[-1]["usage"]
        assert (counted.get("input_tokens"), counted["output_tokens"]) == (read, 7)


@pytest.mark.parametrize("usage", [{"input_tokens": "12", "output_tokens": 10**40}, {"input_tokens": {}}, 3])
def test_a_program_may_report_its_usage_however_it_likes(usage: Any, tmp_path: Path) -> None:
    arguments = suite_of(tmp_path, {"case_id": "a", "input": "hi"})
    answer = json.dumps({"assistant_output": "hello", "usage": usage, "cost_usd": 10**40})
    (tmp_path / "agent.py").write_text(f"print({answer!r})")
    command = f"{sys.executable} -S -E agent.py"
    ended = agent_eval(*arguments, "--format", "json", "--agent-command", command, cwd=tmp_path)
    assert ended.json()["cost_usd"] == 0


ODD = """
class Odd(dict):
    def items(self):
        raise ZeroDivisionError("odd")

def agent(task):
    answer = Odd(n=2**70) if task["case_id"] == "b" else "done"
    return {"assistant_output": answer}
"""


def test_an_answer_that_raises_when_it_is_read_is_the_agents_error_in_its_trial_alone(tmp_path: Path) -> None:
    arguments = suite_of(tmp_path, *({"case_id": name} for name in "abc"))
    (tmp_path / "odd.py").write_text(ODD)
    run = [*arguments, "--agent", "python:odd:agent", "--run-id", "r"]
    summary = agent_eval(*run, "--format", "json", cwd=tmp_path).json()["summary"]
    assert (summary["total_cases"], summary["passed_cases"], summary["error_cases"]) == (3, 2, 1)
    assert "returned something that cannot be read: ZeroDivisionError" in events(tmp_path, "b")[-1]["error"]
    kept = tmp_path / "out" / "cases" / "b" / "artifacts" / "attempt-0-stderr.txt"
    assert "ZeroDivisionError: odd" in kept.read_text()


TOOLS = """
def call(tool, arguments):
    return {"kind": type(arguments["id"]).__name__, "id": arguments["id"]}
"""
CALLING = """
def agent(task, call_tool):
    answer = call_tool("lookup", {"id": int(task["input"])})
    return {"assistant_output": f"{answer['kind']} {answer['id']}"}
"""


def test_an_integer_beyond_64_bits_reaches_a_tool_of_a_python_agent_and_comes_back(tmp_path: Path) -> None:
    arguments = suite_of(tmp_path, {"case_id": "a", "input": str(WIDE)})
    (tmp_path / "calling.py").write_text(CALLING)
    (tmp_path / "tools.py").write_text(TOOLS)
    agent = [
        *("--agent", "python:calling:agent", "--tools", "tools:call", "--cassette", "tools.json"),
        *("--cassette-mode", "record"),
    ]
    ended = agent_eval(*arguments, "--format", "json", *agent, cwd=tmp_path)
    assert ended.json()["summary"]["error_cases"] == 0
    call, answer, message = events(tmp_path)[-3:]
    assert message["output"] == f"int {WIDE}"
    assert call["input"] == {"id": str(WIDE)}, "no reader of 64 bits may change the evidence"
    assert answer["output"]["id"] == str(WIDE)
    assert agent_eval("pack", "verify", "--run", "out", cwd=tmp_path).code == 0
    replayed = [*arguments[:-1], "again", *agent[:2], "--cassette", "tools.json"]
    assert agent_eval(*replayed, "--format", "json", cwd=tmp_path).json()["summary"]["error_cases"] == 0


@pytest.mark.parametrize("kind", ["command", *sorted(HOSTED)])
def test_an_integer_beyond_64_bits_reaches_a_tool_behind_an_address(kind: str, tmp_path: Path) -> None:
    arguments = suite_of(tmp_path, {"case_id": "a", "input": "hi"})
    calls = [{"tool": "lookup", "arguments": {"id": WIDE}}]
    answer = json.dumps({"assistant_output": "done", "tool_calls": calls})
    (tmp_path / "agent.py").write_text(f"print({answer!r})")
    hosted = HOSTED.get(kind, FakeModel)
    with JsonServer() as tools, hosted(Step(calls=[("lookup", {"id": WIDE})]), Step(text="done")) as model:
        tools.answers = [(200, {}, b'{"response": {"id": %d}}' % WIDE)]
        agent = ["--agent", f"command:{sys.executable} -S -E agent.py"]
        if kind != "command":
            agent = ["--agent", f"{kind}:small", "--set", f"agent.base_url={model.base_url}"]
        live = ["--tools", tools.url, "--cassette", "tools.json", "--cassette-mode", "record"]
        ended = agent_eval(*arguments, "--format", "json", *agent, *live, cwd=tmp_path)
    assert ended.json()["summary"]["error_cases"] == 0
    assert tools.requests[0]["arguments"] == {"id": WIDE}
    if kind != "command":
        assert str(WIDE) in json.dumps(model.requests[-1]["messages"][-1])
    assert events(tmp_path)[1]["input"] == {"id": str(WIDE)}


# No command ends well where no case could be judged: exit 4, the reason first, and the evidence is kept

CRASH = f"{sys.executable} -c 'raise SystemExit(3)'"
CRASHED = "No case of `suite.json` could be judged: the agent exited with code 3."
NOTHING_RECORDED = "No case of `suite.json` could be judged: the trace has no events."


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "suite.json").write_text(json.dumps(make_suite(*untraced(3))))
    return tmp_path


def untraced(number: int) -> list[dict[str, Any]]:
    return [make_case(f"case-{place}", regex_patterns=["done"]) | {"trace": []} for place in range(number)]


def refused(ended: Ended, said: str) -> None:
    assert ended.code == 4
    error = json.loads(ended.err.splitlines()[-1])["error"]
    assert (error["code"], error["message"]) == ("not_evaluable", said)


@pytest.mark.parametrize("command", ["run", "run-loop"])
def test_an_agent_that_crashes_in_every_case(command: str, here: Path) -> None:
    flags = ("--suite", "suite.json", "--agent-command", CRASH, "--out", "pack")
    ended = agent_eval(command, "--format", "json", *flags, cwd=here)
    refused(ended, CRASHED)
    assert json.loads(ended.out)["summary"]["error_cases"] == 3
    assert agent_eval("pack", "verify", "--run", "pack", cwd=here).code == 0
    # Nor is it done when the same run is continued.
    refused(agent_eval(command, *flags, "--resume", cwd=here), CRASHED)


def test_traces_that_were_never_recorded(here: Path) -> None:
    ended = agent_eval("run", "--format", "json", "--suite", "suite.json", "--out", "pack", cwd=here)
    refused(ended, NOTHING_RECORDED)
    assert json.loads(ended.out)["summary"]["error_cases"] == 3


def test_a_run_that_judged_one_case_is_done(here: Path) -> None:
    (here / "suite.json").write_text(json.dumps(make_suite(make_case("well"), *untraced(3))))
    assert agent_eval("run", "--suite", "suite.json", "--out", "pack", cwd=here).code == 0


def test_nor_when_it_is_judged_again(here: Path) -> None:
    agent_eval("run", "--suite", "suite.json", "--out", "pack", cwd=here)
    ended = agent_eval("rejudge", "--run", "pack", "--judge", "regex", "--out", "again", cwd=here)
    refused(ended, "No case of `again` could be judged: the trace has no events.")


def test_nor_when_its_shards_are_joined(here: Path) -> None:
    for number in (1, 2):
        flags = ("--shard", f"{number}/2", "--out", f"part-{number}", "--run-id", "run")
        refused(agent_eval("run", "--suite", "suite.json", *flags, cwd=here), NOTHING_RECORDED)
    ended = agent_eval("merge", "part-1", "part-2", "--out", "whole", cwd=here)
    refused(ended, "No case of `whole` could be judged: the trace has no events.")


@pytest.mark.parametrize(
    ("flags", "said"), [(("--agent-command", CRASH), CRASHED), ((), NOTHING_RECORDED)], ids=["agent", "none"]
)
def test_nor_is_it_stable(flags: tuple[str, ...], said: str, here: Path) -> None:
    refused(agent_eval("stability-check", "--suite", "suite.json", *flags, cwd=here), said)
