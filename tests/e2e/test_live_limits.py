"""What a run buys stays within its limits of money, time and requests, at a server that misbehaves."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import write_suite
from tests.e2e.program import TIMEOUT, Ended, agent_eval, tree
from tests.fakes.aui import KEY, FakeAui, Fault
from tests.fakes.json_server import JsonServer
from tests.fakes.models import FakeOpenAi, Step
from tests.fakes.server import send, serve

REPLIES = {
    "agent": "It is refunded.",
    "judge": json.dumps({"reasoning": "It is so.", "evidence": [], "verdict": "passed"}),
    "user": json.dumps({"message": "Go on.", "done": False, "reason": "continue"}),
}


class Provider:
    """Chat completions for an agent, a judge and a simulated user, each known by what it asks for.

    Attributes:
        costs: What an answer costs, by who asks; those that are missing report no cost.
        hangs: Who is not answered at all.
        waits: Who is answered after a second.
        a_second: Requests that are answered in each second; None for all of them.
    """

    def __init__(self) -> None:
        self.costs: dict[str, float] = {}
        self.hangs: set[str] = set()
        self.waits: set[str] = set()
        self.a_second: int | None = None
        self.answered: Counter[str] = Counter()
        self.refused = 0
        self._second, self._in_second = 0, 0
        self._lock = threading.Lock()
        self._server = serve(self._handle)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def sold(self) -> float:
        """What was bought of it, in US dollars."""
        return sum(self.costs.get(who, 0.0) * number for who, number in self.answered.items())

    def _handle(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        schema = json.loads(data).get("response_format", {}).get("json_schema", {}).get("name")
        who = {"ruling": "judge", "user_message": "user"}.get(schema, "agent")
        if who in self.hangs:
            time.sleep(10 * TIMEOUT)
        if who in self.waits:
            time.sleep(1)
        with self._lock:
            if int(now := time.time()) != self._second:
                self._second, self._in_second = int(now), 0
            self._in_second += 1
            is_refused = self.a_second is not None and self._in_second > self.a_second
            self.refused += is_refused
            self.answered[who] += not is_refused
        if is_refused:
            refusal = b'{"error": {"message": "Rate limit reached for requests per second."}}'
            return send(handler, 429, refusal, {"Retry-After": "1", "Content-Type": "application/json"})
        usage: dict[str, Any] = {"prompt_tokens": 1000, "completion_tokens": 100}
        if who in self.costs:
            usage["cost"] = self.costs[who]
        message = {"role": "assistant", "content": REPLIES[who]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"id": f"x{len(data)}", "model": "small", "usage": usage, "choices": [choice]}
        return send(handler, 200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def __enter__(self) -> Provider:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


def conversations(place: Path, number: int, **more: Any) -> None:
    """Write a suite of conversations, each with a simulated user and a criterion."""
    user = {"guidelines": "You want a refund.", "max_turns": 2}
    criteria = {"metadata": {"llm": [{"criterion": "The agent is friendly."}]}}
    fields = {"conversation": user, **criteria}
    for_each = {f"c{each}": [{"input": f"Hello {each}"}] for each in range(number)}
    write_suite(place, *({"case_id": at, "turns": turns, **fields, **more} for at, turns in for_each.items()))


def run(place: Path, provider: Provider, *more: str, agent: str = "openai:small") -> Ended:
    return agent_eval(
        "run", "suite.json", "--out", "out", "--format", "json", "--judge", "llm", "--llm-key", "k" * 9,
        "--provider", "openai", "--set", "judge_model.model=small", "--agent", agent,
        "--set", f"judge_model.base_url={provider.url}", "--set", f"agent.base_url={provider.url}", *more,
        cwd=place,
    )  # fmt: skip


def printed(ended: Ended) -> dict[str, Any]:
    return dict(json.loads(ended.out))


@pytest.mark.parametrize(("parallel", "most"), [(1, 0.60), (4, 0.60 + 4 * 0.19)])
def test_a_limit_of_cost_counts_agent_judge_and_simulated_user(
    tmp_path: Path, provider: Provider, parallel: int, most: float
) -> None:
    # A conversation of two turns: two answers of the agent, one of the user, one ruling.
    provider.costs = {"agent": 0.02, "judge": 0.10, "user": 0.05}
    conversations(tmp_path, 16)
    ended = run(tmp_path, provider, "--max-run-cost", "0.60", "--parallel", str(parallel))
    assert ended.code == 4, ended.err
    assert 0.19 * 3 <= provider.sold <= most + 1e-9
    result, trials = printed(ended), provider.answered["judge"]
    assert result["cost_usd"] == pytest.approx(provider.sold)
    of_trials = {"agent": 0.04 * trials, "judges": 0.10 * trials, "simulated_users": 0.05 * trials}
    assert result["costs"] == pytest.approx(of_trials)
    assert result["summary"]["judging"]["cost_usd"] == pytest.approx(0.10 * trials)
    assert result["summary"]["simulating"]["cost_usd"] == pytest.approx(0.05 * trials)
    assert "the run's cost limit of 0.6 US dollars is reached" in ended.err
    assert agent_eval("pack", "verify", "--run", "out", cwd=tmp_path).code == 0


def test_the_summary_of_a_run_shows_the_three_who_spend_apart(tmp_path: Path, provider: Provider) -> None:
    provider.costs = {"agent": 0.02, "judge": 0.10, "user": 0.05}
    conversations(tmp_path, 2)
    ended = run(tmp_path, provider, "--format", "text")
    assert "Spent: $0.3800 (agent $0.0800, LLM judges $0.2000, simulated users $0.1000)." in ended.out
    assert "Simulated users: 2 calls for 0.1 USD." in ended.out


def test_a_limit_on_a_case_counts_what_judge_and_user_cost(tmp_path: Path, provider: Provider) -> None:
    provider.costs = {"agent": 0.02, "judge": 0.10, "user": 0.05}
    conversations(tmp_path, 1)
    ended = run(tmp_path, provider, "--set", "limits.case.cost_usd=0.15")
    row = next(json.loads(path.read_text()) for path in tmp_path.glob("out/cases/*/verdicts.json"))
    of_execution = next(each for each in row["verdicts"] if each["judge_id"] == "execution")
    assert (row["outcome"], of_execution["failure"]) == ("error", "budget_exceeded"), ended.err
    assert "used 0.19 US dollars, more than the 0.15" in of_execution["reason"]
    assert provider.answered["judge"] == 1


def test_a_limit_of_cost_without_a_price_is_refused(tmp_path: Path, provider: Provider) -> None:
    conversations(tmp_path, 8)
    ended = run(tmp_path, provider, "--max-run-cost", "1")
    error = ended.error
    assert (ended.code, error["code"]) == (2, "usage_error")
    assert "'small'" in error["message"]
    assert "prices: MODEL=INPUT/OUTPUT" in error["details"]["remedy"]
    assert provider.answered["judge"] == 1, "the first trial says so"
    priced = run(tmp_path, provider, "--max-run-cost", "0.25", "--fresh", "--set", "prices=small=10/100")
    # 0.02 for each answer.
    assert printed(priced)["cost_usd"] == pytest.approx(0.24), priced.err


def test_a_limit_that_misses_what_somebody_costs_is_told(tmp_path: Path, provider: Provider) -> None:
    provider.costs = {"agent": 0.02, "judge": 0.10}
    conversations(tmp_path, 2)
    ended = run(tmp_path, provider, "--max-run-cost", "10")
    assert "The limit of cost leaves out what the simulated users cost ('small'" in ended.err
    assert printed(ended)["notes"]


def test_a_limit_of_requests_is_shared_by_all_that_run_at_once(tmp_path: Path, provider: Provider) -> None:
    provider.a_second = 12
    cases = [{"case_id": f"c{each}", "input": "Hello", "regex_patterns": ["refunded"]} for each in range(120)]
    write_suite(tmp_path, *cases)
    words = ("run", "suite.json", "--out", "out", "--agent", "openai:small", "--parallel", "50")
    ended = agent_eval(*words, "--format", "json", "--set", f"agent.base_url={provider.url}", cwd=tmp_path)
    assert printed(ended)["summary"]["passed_cases"] == 120, ended.err
    assert provider.refused < 120 / 2  # each on its own, they are refused over twice for every answer


def test_a_limit_of_requests_is_named_with_what_adapts_to_it(tmp_path: Path, provider: Provider) -> None:
    provider.a_second = 0
    conversations(tmp_path, 12)
    ended = run(tmp_path, provider, "--parallel", "4", "--set", "limits.run.seconds=8")
    assert ended.code == 4
    assert "HTTP 429: Rate limit reached for requests per second" in ended.err
    assert "--parallel auto" in ended.err


@pytest.mark.parametrize("who", ["agent", "judge", "user"])
def test_a_limit_of_time_ends_a_run_whoever_hangs(tmp_path: Path, provider: Provider, who: str) -> None:
    provider.hangs = {who}
    conversations(tmp_path, 3)
    ended = run(tmp_path, provider, "--set", "limits.run.seconds=2")
    assert ended.code in (2, 4), ended.err
    assert "the run's time limit of 2 s is reached" in ended.err


@pytest.mark.parametrize("who", ["agent", "user"])
def test_a_turn_bounds_who_answers_and_who_writes(tmp_path: Path, provider: Provider, who: str) -> None:
    provider.hangs = {who}
    turns: list[dict[str, Any]] = [{"input": "Hello"}, {"auto": True}]
    turns[who == "user"]["timeout"] = 2
    conversations(tmp_path, 1, turns=turns)
    ended = run(tmp_path, provider)
    (stored,) = tmp_path.glob("out/cases/*/trajectory.json")
    end = json.loads(stored.read_text())["trace"][-1]["output"]
    assert end["reason"] == {"agent": "agent-error", "user": "simulator-error"}[who], ended.err
    (row,) = (json.loads(path.read_text()) for path in tmp_path.glob("out/cases/*/verdicts.json"))
    assert row.get("fault") == {"agent": None, "user": "environment"}[who]


def test_a_tool_that_the_time_of_its_turn_stops_is_said_to_have_had_that_time(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = {"id": "1", "choices": [{"message": message, "finish_reason": "tool_calls"}]}
    case = {"case_id": "c", "turns": [{"input": "hi", "timeout": 4}], "regex_patterns": ["ok"]}
    case["metadata"] = {"tools": [{"name": "lookup"}]}
    write_suite(tmp_path, case)
    server = serve(lambda *_: time.sleep(10 * TIMEOUT))
    with FakeOpenAi(Step(body=json.dumps(body).encode())) as model:
        ended = agent_eval(
            "run", "suite.json", "--out", "out", "--agent", "openai:small",
            "--set", f"agent.base_url={model.base_url}", "--cassette", "calls.json",
            "--cassette-mode", "record", "--tools", f"http://127.0.0.1:{server.server_address[1]}/",
            cwd=tmp_path,
        )  # fmt: skip
    server.shutdown()
    server.server_close()
    assert "in turn 1: called lookup, and the tool server did not end within 4 s" in ended.err


USER = {"user_info": {"name": "Jane"}, "max_turns": 2}


def held(place: Path, server: FakeAui) -> tuple[dict[str, Any], list[Any]]:
    """Hold one conversation of two turns; return its end and what the agent got, by task."""
    case = {"case_id": "c", "turns": [{"input": "hi"}, {"input": "thanks"}], "conversation": USER}
    write_suite(place, case)
    words = ("run", "suite.json", "--out", "out", "--agent", "aui:a", "--set", f"agent.base_url={server.url}")
    agent_eval(*words, cwd=place, environ={"AUI_API_KEY": KEY})
    (stored,) = place.glob("out/cases/*/trajectory.json")
    trace = json.loads(stored.read_text())["trace"]
    messages = [(body["task_id"], body["text"]) for body in server.bodies("/message")]
    return {"first": trace[0], "end": trace[-1]["output"]}, messages


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 503}, {"cut": True}])
def test_what_may_have_arrived_is_not_posted_but_begun_anew(tmp_path: Path, fault: dict[str, Any]) -> None:
    with FakeAui() as server:
        server.faults = [Fault("/message", after=1, **fault)]
        trace, messages = held(tmp_path, server)
    assert messages == [("task-1", "hi"), ("task-1", "thanks"), ("task-2", "hi"), ("task-2", "thanks")]
    assert trace["end"]["reason"] == "turn-limit"
    first = trace["first"]
    assert (first["type"], first["output"]["turn"]) == ("conversation_restart", 2)
    assert first["output"]["problem"].startswith("in turn 2: ")


def test_a_conversation_is_begun_anew_once(tmp_path: Path) -> None:
    with FakeAui() as server:
        server.faults = [Fault("/message", 500, after=1), Fault("/message", 500, after=3)]
        trace, messages = held(tmp_path, server)
    assert [task for task, _ in messages] == ["task-1", "task-1", "task-2", "task-2"]
    assert trace["end"]["reason"] == "agent-infrastructure"


def test_a_message_that_was_refused_before_it_was_read_is_posted_again(tmp_path: Path) -> None:
    with FakeAui() as server:
        server.faults = [Fault("/message", 429, headers={"Retry-After": "0"}, after=1)]
        trace, messages = held(tmp_path, server)
    assert [text for _, text in messages] == ["hi", "thanks", "thanks"]
    assert {task for task, _ in messages} == {"task-1"}
    assert trace["first"]["type"] == "message"


PROGRAM = """import json, sys, time
usage = {"input_tokens": 5000, "output_tokens": 900}
print(json.dumps({"output": "ok", "usage": usage, "cost_usd": 0.25}), flush=True)
time.sleep(float(sys.argv[1]))
"""


def run_program(place: Path, seconds: float, *more: str, **how: Any) -> Ended:
    (place / "agent.py").write_text(PROGRAM)
    cases = [{"case_id": f"c{each}", "input": "Hello", "regex_patterns": ["ok"]} for each in range(2)]
    write_suite(place, *cases)
    command = f"{sys.executable} agent.py {seconds}"
    return agent_eval(
        "run", "suite.json", "--out", "out", "--agent-command", command, *more, cwd=place, **how
    )


def test_the_tokens_that_a_program_reports_count_towards_the_limit_of_an_attempt(tmp_path: Path) -> None:
    ended = run_program(tmp_path, 0, "--set", "limits.attempt.tokens=100", "--format", "json")
    assert ended.unjudged()["summary"]["error_cases"] == 2
    assert "used 5900 tokens, more than 100" in ended.err


def test_a_program_that_has_answered_and_does_not_end_is_told_so(tmp_path: Path) -> None:
    ended = run_program(tmp_path, 60, "--set", "limits.attempt.seconds=2", "--parallel", "2")
    assert "did not end within 2 s, though it had given its answer" in ended.err


@pytest.mark.parametrize("key", [("--llm-key", "abc12"), ("--llm-key=abc12",)])
def test_a_short_key_is_not_in_the_command_that_resumes(tmp_path: Path, key: tuple[str, ...]) -> None:
    ended = run_program(tmp_path, 0, "--max-run-cost", "0.25", "--provider", "openai", *key)
    assert ended.code == 4
    assert "the same command with --resume" in ended.err
    assert "abc12" not in ended.out + ended.err


def test_variables_that_look_like_the_agents_and_do_not_reach_it_are_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("export SHOP_TIER=gold\nUNSET_TIER=1\n")
    environ = {"SUPPORT_MODEL": "small", "SHOP_TIER": "gold", "SEEN_KEY": "k" * 9, "LLM_API_KEY": "k" * 9}
    ended = run_program(tmp_path, 0, "--agent-env", "SEEN_KEY", environ=environ)
    assert ended.code == 0
    note = (
        "The agent's program does not see SHOP_TIER, SUPPORT_MODEL, which are set here. If it needs them: "
        "--agent-env SHOP_TIER,SUPPORT_MODEL"
    )
    assert note in ended.err.splitlines()
    passed = run_program(
        *(tmp_path, 0, "--fresh", "--agent-env", "SHOP_TIER,SUPPORT_MODEL,SEEN_KEY"), environ=environ
    )
    assert (passed.code, passed.err) == (0, "")


def test_a_traceback_of_the_agent_is_shown_below_its_case_and_by_show(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def order(number):\n    raise ValueError('no ' + number)\n\norder('7')\n"
    )
    write_suite(tmp_path, {"case_id": "a", "input": "Hello", "regex_patterns": ["ok"]})
    command = f"{sys.executable} agent.py"
    ended = agent_eval("run", "suite.json", "--out", "out", "--agent-command", command, cwd=tmp_path)
    shown = agent_eval("show", "out", "a", cwd=tmp_path)
    for text in (ended.out, shown.out):
        lines = [line.strip() for line in text.splitlines()]
        begin = lines.index("Traceback (most recent call last):")
        assert "order('7')" in lines[begin:]
        assert "ValueError: no 7" in lines[begin:]


@pytest.mark.parametrize("lost", [(503, {}, b"busy"), (0, {}, b"")], ids=["busy", "broken"])
def test_a_session_behind_a_gateway_is_begun_anew_where_a_message_may_have_arrived(
    tmp_path: Path, lost: tuple[int, dict[str, str], bytes]
) -> None:
    case = {"case_id": "c", "turns": [{"input": "hi"}, {"input": "thanks"}], "regex_patterns": ["ok"]}
    write_suite(tmp_path, case)
    with JsonServer() as server:
        answer = (200, {}, b'{"output": "ok"}')
        server.answers = [answer, lost, answer]
        agent = ("--agent", f"{server.origin}/agent", "--set", "agent.gateway=true")
        ended = agent_eval("run", "suite.json", "--out", "out", *agent, cwd=tmp_path)
        asked = [(each["input"], each["session_id"]) for each in server.requests]
    assert ended.code == 0, ended.err
    assert [message for message, _ in asked] == ["hi", "thanks", "hi", "thanks"]
    assert [len({own for _, own in part}) for part in (asked[:2], asked[2:], asked)] == [1, 1, 2]
    (stored,) = tmp_path.glob("out/cases/*/trajectory.json")
    trace = json.loads(stored.read_text())["trace"]
    assert (trace[0]["type"], trace[0]["output"]["turn"]) == ("conversation_restart", 2)


def test_resumed_run_asks_judges_nothing_again_for_the_same_pack(tmp_path: Path, provider: Provider) -> None:
    provider.costs = {"agent": 0.01, "judge": 0.01, "user": 0.01}
    conversations(tmp_path, 3)
    trials = ("--trials", "2", "--run-id", "r")  # of one case both give the judge the same to read
    assert run(tmp_path, provider, *trials).code == 0
    whole, asked = tree(tmp_path / "out"), dict(provider.answered)
    shutil.rmtree(tmp_path / "out")
    provider.answered.clear()
    assert run(tmp_path, provider, *trials, "--max-run-cost", "0.13").code == 4
    stopped = provider.answered["judge"]
    assert run(tmp_path, provider, *trials, "--resume").code == 0
    assert dict(provider.answered) == asked, stopped
    assert tree(tmp_path / "out") == whole


def test_trials_that_ask_a_judge_the_same_at_once_buy_one_ruling(tmp_path: Path, provider: Provider) -> None:
    provider.costs, provider.waits = {"agent": 0.01, "judge": 0.01, "user": 0.01}, {"judge"}
    conversations(tmp_path, 1)
    assert run(tmp_path, provider, "--trials", "2", "--parallel", "2").code == 0
    assert (provider.answered["agent"], provider.answered["judge"]) == (4, 1)


def test_only_what_a_stopped_run_recorded_is_added_to(tmp_path: Path, provider: Provider) -> None:
    provider.costs = {"agent": 0.01, "judge": 0.01, "user": 0.01}
    conversations(tmp_path, 3)
    recording = ("--cassette", "replies.json", "--cassette-mode", "record")
    assert run(tmp_path, provider, *recording, "--max-run-cost", "0.05").code == 4
    assert run(tmp_path, provider, *recording, "--resume").code == 0
    recorded = (tmp_path / "replies.json").read_bytes()
    shutil.rmtree(tmp_path / "out")
    provider.answered.clear()
    refused = run(tmp_path, provider, *recording, "--resume")  # there is nothing to resume
    assert (refused.code, refused.error["code"]) == (2, "usage_error")
    assert "replies.json exists already" in refused.error["message"]
    assert (provider.answered, (tmp_path / "replies.json").read_bytes()) == ({}, recorded)
