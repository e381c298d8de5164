"""What providers, programs and tools really answer is found again, kept, and not asked for in vain."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import events, write_suite
from tests.e2e.program import Ended, agent_eval
from tests.extent import crossed
from tests.fakes.json_server import JsonServer
from tests.fakes.models import FakeAnthropic, FakeOpenAi, Step

HOSTED = {"openai": FakeOpenAi, "anthropic": FakeAnthropic}
SECRET = "s3cr3t-of-the-customer"


def run(place: Path, *arguments: str, case: dict[str, Any] | None = None, **how: Any) -> Ended:
    write_suite(place, {"case_id": "a", "input": "hi", "regex_patterns": ["."], **(case or {})})
    out = () if "--out" in arguments else ("--out", "out")
    return agent_eval("run", "--format", "json", "--suite", "suite.json", *out, *arguments, cwd=place, **how)


TOOLS = "def call(tool, arguments):\n    return 'shipped'\n"
CALLING = """
import os
def agent(task, call_tool):
    return str(call_tool("lookup", {"token": os.environ["SHOP_TOKEN"], "id": 7}))
"""


def test_a_call_with_a_secret_is_found_in_the_recording_and_in_the_pack(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "calling.py").write_text(CALLING)
    environ = {"SHOP_TOKEN": SECRET}
    agent = ["--agent", "python:calling:agent"]
    recorded = run(
        *(tmp_path, *agent, "--tools", "tools:call", "--cassette", "tools.json"),
        *("--cassette-mode", "record"),
        environ=environ,
    )
    assert recorded.json()["summary"]["passed_cases"] == 1
    assert SECRET not in (tmp_path / "tools.json").read_text()
    again = ["--out", "again", "--cassette", "tools.json"]
    assert run(tmp_path, *agent, *again, environ=environ).json()["summary"]["passed_cases"] == 1
    answers = {
        "tool_response_cassette": [
            {"tool": "lookup", "arguments": {"token": SECRET, "id": 7}, "response": "lost"}
        ]
    }
    case = {"metadata": answers}
    done = run(tmp_path, *agent, "--out", "own", case=case, environ=environ)
    assert done.json()["summary"]["passed_cases"] == 1
    assert SECRET not in (tmp_path / "own/cases/a/trajectory.json").read_text()
    replayed = agent_eval("replay-exec", "--run", "own", *agent, cwd=tmp_path, environ=environ)
    assert replayed.code == 0, replayed.out


ODD = {
    "no JSON": (b"<html>bad gateway</html>", "gave no JSON"),
    "no answer": (b'{"error": {"message": "the model is loading", "code": 7}}', "the model is loading"),
    "a list": (b"[1, 2]", "something else than an object"),
}


@crossed(kind=sorted(HOSTED), what=sorted(ODD))
def test_an_unreadable_answer_is_kept_with_the_providers_words(kind: str, what: str, tmp_path: Path) -> None:
    body, words = ODD[what]
    with HOSTED[kind](Step(body=body)) as model:
        ended = run(tmp_path, "--agent", f"{kind}:small", "--set", f"agent.base_url={model.base_url}")
    assert ended.unjudged()["summary"]["error_cases"] == 1
    assert words in events(tmp_path)[-1]["error"]
    kept = (tmp_path / "out/cases/a/artifacts/attempt-0-answer.txt").read_bytes()
    assert kept == body if what == "no JSON" else json.loads(kept) == json.loads(body)


def test_reasoning_and_cached_tokens_are_recorded(tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 100, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 80},
        "completion_tokens_details": {"reasoning_tokens": 40},
    }  # fmt: skip
    expected = {"input_tokens": 100, "output_tokens": 50, "cached_tokens": 80, "reasoning_tokens": 40}
    choice = {"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
    body = json.dumps({"id": "1", "model": "m", "choices": [choice], "usage": usage}).encode()
    with FakeOpenAi(Step(body=body)) as model:
        run(tmp_path, "--agent", "openai:small", "--set", f"agent.base_url={model.base_url}")
    assert expected.items() <= events(tmp_path)[-1]["usage"].items()
    answer = json.dumps({"assistant_output": "hello", "usage": usage})
    (tmp_path / "agent.py").write_text(f"print({answer!r})")
    command = f"{sys.executable} -S -E agent.py"
    run(tmp_path, "--agent-command", command, "--out", "program")
    assert expected.items() <= events(tmp_path, out="program")[-1]["usage"].items()


def test_call_ids_that_a_model_repeats_are_made_unique_in_the_evidence(tmp_path: Path) -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    asking = {"message": message, "finish_reason": "tool_calls"}
    answering = {"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}
    first, last = (json.dumps({"id": "1", "choices": [choice]}).encode() for choice in (asking, answering))
    case = {"metadata": {"tool_responses": {"lookup": "shipped"}}}
    with FakeOpenAi(Step(body=first), Step(body=first), Step(body=last)) as model:
        ended = run(
            tmp_path, "--agent", "openai:small", "--set", f"agent.base_url={model.base_url}", case=case
        )
        sent = model.requests[-1]["messages"] if len(model.requests) == 3 else []
    assert ended.json()["summary"]["passed_cases"] == 1
    ids = [event["call_id"] for event in events(tmp_path) if event["type"] == "tool_call"]
    assert ids == ["call_0", "call_0-2"]
    answered = [event["call_id"] for event in events(tmp_path) if event["type"] == "tool_result"]
    assert answered == ids
    assert {message.get("tool_call_id") for message in sent} <= {"call_0", None}, "the model gets its own"


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
def test_an_account_without_credit_is_not_asked_again(code: str, tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": "You exceeded your quota.", "code": code}}).encode()
    with FakeOpenAi(Step(status=429, body=body)) as model:
        ended = run(tmp_path, "--agent", "openai:small", "--set", f"agent.base_url={model.base_url}")
        assert len(model.requests) == 1
    assert (ended.code, ended.error["code"]) == (4, "not_evaluable")
    assert "You exceeded your quota." in ended.error["message"]
    assert "bill" in ended.error["details"]["remedy"]


@pytest.mark.parametrize("status", [303, 307])
def test_a_redirected_post_is_not_sent_again(status: int, tmp_path: Path) -> None:
    with JsonServer() as server:
        server.answers = [(status, {"Location": "http://127.0.0.1:9/elsewhere"}, b"")]
        ended = run(tmp_path, "--agent", server.url)
        assert len(server.requests) == 1
    assert json.loads(ended.out)["retries"] == 0
    assert "answered with a redirect" in events(tmp_path)[-1]["error"]


def test_a_log_before_the_answer_is_sent_to_stderr(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("print('loading the model'); print('{\"assistant_output\": 1}')")
    run(tmp_path, "--agent-command", f"{sys.executable} -S -E agent.py")
    assert "logs belong on stderr" in events(tmp_path)[-1]["error"]
