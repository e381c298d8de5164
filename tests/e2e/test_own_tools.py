"""Tools that the agent ran itself: the pack has what happened, and says which calls got no answer."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import events, write_suite
from tests.e2e.program import Ended, agent_eval

CASE = {"case_id": "a", "input": "Where is order 7?", "regex_patterns": ["shipped"]}


def run(place: Path, answer: dict[str, Any], *more: str, **case: Any) -> Ended:
    (place / "suite.json").write_text(json.dumps({"dataset_id": "d", "cases": [{**CASE, **case}]}))
    (place / "agent.py").write_text(f"import json\nprint(json.dumps({answer!r}))\n")
    agent = ["--agent-command", f"{sys.executable} -S -E agent.py", *more]
    return agent_eval(
        "run", "--format", "json", "--suite", "suite.json", "--out", "out", "--fresh", *agent, cwd=place
    )


CALL = {"tool": "lookup", "arguments": {"id": 7}}


@pytest.mark.parametrize(
    ("reported", "output", "error", "latency"),
    [
        ({"output": {"status": "shipped"}, "latency_ms": 120}, {"status": "shipped"}, None, 120),
        ({"error": "no such order"}, None, "no such order", None),
        ({"output": None, "latency_ms": "soon"}, None, None, None),
    ],
)
def test_a_result_that_the_agent_reports_is_recorded_as_it_was(
    reported: dict[str, Any], output: Any, error: Any, latency: float | None, tmp_path: Path
) -> None:
    answer = {"assistant_output": "It is shipped.", "tool_calls": [{**CALL, **reported}]}
    said = run(tmp_path, answer, "--strict-side-effects").json()
    assert (said["summary"]["passed_cases"], said["unanswered_calls"]) == (1, 0)
    result = events(tmp_path)[2]
    assert (result["type"], result["tool"], result.get("call_id")) == ("tool_result", "lookup", "call-0-0")
    assert (result.get("output"), result.get("error"), result.get("latency_ms")) == (output, error, latency)


EVENTS = [
    {"type": "message", "output": "Let me look.", "ts": "2026-01-01T00:00:00Z", "latency_ms": 3},
    {
        "type": "tool_call", "tool": "lookup", "input": {"id": 7}, "call_id": "x",
        "span_id": "00f067aa0ba902b7",
    },
    {"actor": "tool", "type": "tool_result", "tool": "lookup", "output": "shipped", "call_id": "x"},
    {"type": "message", "output": "It is shipped.", "attributes": {"gen_ai.usage.input_tokens": 7}, "own": 1},
]  # fmt: skip


def test_events_that_the_agent_reports_are_recorded_as_they_were(tmp_path: Path) -> None:
    said = run(tmp_path, {"events": EVENTS}).json()
    assert (said["summary"]["passed_cases"], said["unanswered_calls"]) == (1, 0)
    user, *recorded = events(tmp_path)
    assert user["input"] == CASE["input"]
    assert [event["idx"] for event in recorded] == [1, 2, 3, 4]
    for event, reported in zip(recorded, EVENTS, strict=True):
        assert reported.items() <= event.items()
    assert agent_eval("pack", "verify", "--run", "out", cwd=tmp_path).code == 0


def test_an_agent_does_not_choose_the_turn_of_what_it_did(tmp_path: Path) -> None:
    hidden = [{**event, "turn": 0} for event in EVENTS]
    forbidding = {"metadata": {"strict": [{"strict": "tool_not_used", "toolName": "lookup"}]}}
    ended = run(tmp_path, {"events": hidden}, "--judge", "strict", **forbidding)
    assert ended.json()["summary"]["passed_cases"] == 0
    assert not any("turn" in event for event in events(tmp_path))


def test_bytes_of_parts_are_not_recorded(tmp_path: Path) -> None:
    image = {"type": "image", "media_type": "image/png"}
    parts = [{**image, "data": "aGVsbG8="}, {"type": "text", "text": "See."}]
    run(tmp_path, {"events": [{"type": "message", "output": "It is shipped.", "parts": parts}]})
    assert events(tmp_path)[-1]["parts"] == [image, {"type": "text", "text": "See."}]


def test_an_answer_by_a_tool_call_is_the_output_of_a_program(tmp_path: Path) -> None:
    answer = {"tool_calls": [{"tool": "submit", "arguments": {"total": 7}}]}
    expecting = {"final_output_tool": "submit", "expected_output": {"total": 7}, "regex_patterns": []}
    ended = run(tmp_path, answer, **expecting).json()
    assert (ended["summary"]["passed_cases"], ended["unanswered_calls"]) == (1, 0)
    wrong = run(tmp_path, answer, **{**expecting, "expected_output": {"total": 8}}).json()
    assert wrong["summary"]["passed_cases"] == 0


def test_an_output_beside_the_events_is_the_final_one(tmp_path: Path) -> None:
    said = run(tmp_path, {"events": EVENTS[:3], "assistant_output": "shipped", "cost_usd": 0.5}).json()
    assert (said["summary"]["passed_cases"], said["cost_usd"]) == (1, 0.5)
    assert events(tmp_path)[-1]["output"] == "shipped"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"type": "message"}, "no list"),
        ([{"type": "message", "latency_ms": "slow"}], "events[0].latency_ms"),
        ([{"type": "tool_call", "tool": 7}], "events[0].tool"),
    ],
)
def test_events_of_another_form_are_no_answer(wrong: Any, named: str, tmp_path: Path) -> None:
    said = run(tmp_path, {"events": wrong, "assistant_output": "shipped"}).unjudged()
    assert said["summary"]["failures"].get("type_error") == 1
    assert named in events(tmp_path)[-1]["error"]


def test_reported_events_keep_to_the_limit_of_calls(tmp_path: Path) -> None:
    said = run(
        tmp_path, {"events": [EVENTS[1], EVENTS[1]]}, "--set", "limits.attempt.tool_calls=1"
    ).unjudged()
    assert said["summary"]["failures"].get("budget_exceeded") == 1


def test_calls_without_any_answer_are_said_in_the_last_line(tmp_path: Path) -> None:
    answer = {"assistant_output": "It is shipped.", "tool_calls": [CALL, CALL, {**CALL, "output": "x"}]}
    text = run(tmp_path, answer, "--format", "text").out
    assert text.rstrip().splitlines()[-1] == "2 tool calls got no answer."
    unanswered = {"events": [EVENTS[1], EVENTS[3]]}
    assert run(tmp_path, unanswered).json()["unanswered_calls"] == 1
    several = run(tmp_path, unanswered, "--trials", "3", "--set", "limits.run.seconds=1000").json()
    assert several["unanswered_calls"] == 3


def test_a_resumed_run_counts_the_unanswered_calls_of_its_first_start(tmp_path: Path) -> None:
    answer = {"assistant_output": "shipped", "tool_calls": [CALL], "cost_usd": 1}
    several = ["--trials", "3", "--max-run-cost", "1"]
    assert json.loads(run(tmp_path, answer, *several).out)["unanswered_calls"] == 1
    command = ["--agent-command", f"{sys.executable} -S -E agent.py", "--trials", "3", "--resume"]
    resumed = agent_eval(
        "run", "--format", "json", "--suite", "suite.json", "--out", "out", *command, cwd=tmp_path
    ).json()
    assert resumed["unanswered_calls"] == 3


HELPER = """
import json, os, sys, urllib.error, urllib.request
task = json.load(sys.stdin)
def call_tool(tool, arguments):
    body = json.dumps({"tool": tool, "arguments": arguments}).encode()
    with urllib.request.urlopen(os.environ["AGENT_EVAL_TOOLS"], data=body) as response:
        return json.load(response)
"""


def run_program(place: Path, body: str, *more: str) -> Ended:
    metadata = {"tool_responses": {"lookup": {"status": "shipped"}, "pay": {"error": "declined"}}}
    write_suite(place, *({**CASE, "case_id": name, "metadata": metadata} for name in ("a", "b", "c")))
    (place / "agent.py").write_text(HELPER + body)
    agent = ["--agent-command", f"{sys.executable} -S -E agent.py", "--parallel", "3", *more]
    return agent_eval("run", "--format", "json", "--suite", "suite.json", "--out", "out", *agent, cwd=place)


def test_a_program_calls_its_tools_while_it_runs(tmp_path: Path) -> None:
    body = (
        "order, paid = call_tool('lookup', {'id': 7}), call_tool('pay', {'sum': 10**30})\n"
        "print(json.dumps({'assistant_output': order['output']['status'] + paid['error']}))\n"
    )
    said = run_program(tmp_path, body).json()
    assert (said["summary"]["passed_cases"], said["unanswered_calls"]) == (3, 0)
    for case_id in ("a", "b", "c"):
        path = tmp_path / "out/cases" / case_id / "trajectory.json"
        trace = json.loads(path.read_text())["trace"]
        kinds = [event["type"] for event in trace]
        assert kinds == ["message", "tool_call", "tool_result", "tool_call", "tool_result", "message"]
        assert (trace[3]["input"], trace[4]["error"]) == ({"sum": str(10**30)}, "declined")
        assert trace[-1]["output"] == "shippeddeclined"


@pytest.mark.parametrize(
    ("call", "flag", "kind"),
    [
        ("call_tool('steal', {})", ["--strict-side-effects"], "contract_violation"),
        (
            "[call_tool('lookup', {}) for _ in range(9)]",
            ["--set", "limits.attempt.tool_calls=2"],
            "budget_exceeded",
        ),
    ],
)
def test_no_answer_undoes_an_end_by_a_call(call: str, flag: list[str], kind: str, tmp_path: Path) -> None:
    body = (
        f"try:\n    {call}\nexcept urllib.error.HTTPError as error:\n    assert error.code == 410\n"
        "print(json.dumps({'assistant_output': 'shipped'}))\n"
    )
    summary = run_program(tmp_path, body, *flag).unjudged()["summary"]
    assert (summary["passed_cases"], summary["failures"][kind]) == (0, 3)


def test_an_odd_request_to_the_address_of_the_tools_harms_nothing(tmp_path: Path) -> None:
    body = """
import socket
url = os.environ["AGENT_EVAL_TOOLS"]
codes = []
for address, data in ((url, b"{"), (url, b"[]"), (url, b'{"tool": 7}'), (url + "x", b'{"tool": "lookup"}')):
    try:
        urllib.request.urlopen(address, data=data)
    except urllib.error.HTTPError as error:
        codes.append(error.code)
host, port = url.split("/")[2].split(":")
with socket.create_connection((host, int(port))) as raw:
    raw.sendall(b"POST / HTTP/1.1\\r\\nContent-Length: 99999999999\\r\\n\\r\\n")
socket.create_connection((host, int(port))).close()
print(json.dumps({"assistant_output": "shipped", "tool_calls": [], "model": str(codes)}))
"""
    assert run_program(tmp_path, body).json()["summary"]["passed_cases"] == 3
    assert events(tmp_path)[-1]["model"] == "[400, 400, 400, 404]"
