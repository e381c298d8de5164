"""`agent-eval ci` where trials are lost: whose fault it was, what is tried again, and what is no decision."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import agent_eval, start
from tests.e2e.runner import PULL, Runner, Step, unzipped
from tests.e2e.test_ci_agent import COMMAND, at, case, write
from tests.extent import WHOLE_JOB
from tests.fakes.github import FakeGitHub
from tests.fakes.models import FakeOpenAi
from tests.fakes.models import Step as Said

DOWN = (503, {"Retry-After": "3600"}, b"the gateway cannot reach the agent")
"""The answer of a gateway; nothing waits for an hour, so the request is not sent again."""
PASSES = {"assistant_output": "It is on its way.", "tool_calls": [{"tool": "lookup_order", "arguments": {}}]}
ESCALATES = {**PASSES, "tool_calls": [{"tool": "escalate", "arguments": {}}]}

Behaviour = Callable[[str, int], Any]
"""What the agent does: by case and number of the request for it, from 1. `DOWN`, or its answer."""


class Agent:
    """An agent behind an address, and the gateway before it. Remembers which cases it was asked for."""

    def __init__(self, behave: Behaviour = lambda case_id, number: PASSES) -> None:
        self.behave, self.asked = behave, list[str]()
        lock, owner = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16

            def do_POST(self) -> None:
                task = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    owner.asked.append(task["case_id"])
                    number = owner.asked.count(task["case_id"])
                answer = owner.behave(task["case_id"], number)
                status, headers, body = (
                    answer if isinstance(answer, tuple) else (200, {}, json.dumps(answer).encode())
                )
                with suppress(OSError):
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(body)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/ask"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.close()


def baseline(runner: Runner, agent: Agent, *, total: int = 10, **inputs: str) -> None:
    """The suite, and a run of main in which every case passes."""
    write(runner, total=total)
    first = runner.push(agent_url=agent.url, agent_gateway="true", **inputs)
    assert (first.code, first.outputs["pass-rate"]) == (0, "1"), first.log
    runner.upload(first, 400)
    agent.asked.clear()


def changed(runner: Runner, agent: Agent, **inputs: str) -> Step:
    return runner.pull_request(agent_url=agent.url, **{"agent_gateway": "true", **inputs})


def first_lines(github: FakeGitHub, number: int = 8) -> str:
    [comment] = github.bodies(PULL)
    return "\n".join(comment.splitlines()[:number])


def metadata_of(step: Step, case_id: str) -> dict[str, Any]:
    for name, data in unzipped(step.archive).items():
        if name.endswith("trajectory.json") and json.loads(data)["case_id"] == case_id:
            return dict(json.loads(data)["metadata"])
    raise AssertionError(case_id)


def down_for(*numbers: int, times: int = 99) -> Behaviour:
    cases = {f"order-{number}" for number in numbers}
    return lambda case_id, number: DOWN if case_id in cases and number <= times else PASSES


def test_three_of_ten_trials_lost_say_nothing_about_the_change(
    runner: Runner, github: FakeGitHub, agent: Agent
) -> None:
    baseline(runner, agent)
    agent.behave = down_for(2, 5, 8)
    step = changed(runner, agent)
    assert (step.code, step.outcome, step.outputs["regressed-cases"]) == (4, "error", "0")
    assert Counter(agent.asked) == {
        f"order-{number}": 3 if number in (2, 5, 8) else 1 for number in range(1, 11)
    }
    first = first_lines(github)
    assert "not evaluated" in first.splitlines()[2]
    assert "3 of 10 trials (30.0%) were lost to the infrastructure, above max_lost_share 20%." in first
    assert "order-2, order-5, order-8" in first
    assert "Check that the agent's address and its model's provider answer, then run again." in first
    assert "This says nothing about the change." in first
    [comment] = github.bodies(PULL)
    assert "regressed" not in comment
    assert "Scored trials that passed" not in comment
    assert "this change first" not in comment


@WHOLE_JOB
def test_a_single_case_of_the_baseline_without_a_score_is_no_decision(
    runner: Runner, github: FakeGitHub, agent: Agent
) -> None:
    baseline(runner, agent)
    agent.behave = down_for(4)
    step = changed(runner, agent)
    assert (step.code, step.outcome) == (4, "error")
    assert "1 case (order-4) of the baseline has no scored trial. Lost to the infrastructure." in first_lines(
        github
    )


def test_a_case_that_is_new_and_lost_blocks_nothing(runner: Runner, github: FakeGitHub, agent: Agent) -> None:
    baseline(runner, agent)
    write(runner, total=11)
    agent.behave = down_for(11)
    step = changed(runner, agent)
    assert step.code == 0, step.log
    assert step.outcome == "passed"


@WHOLE_JOB
def test_a_policy_that_allows_more_losses_does_not_excuse_a_case_without_a_score(
    runner: Runner, github: FakeGitHub, agent: Agent
) -> None:
    (runner.workspace / "gate.yml").write_text("max_lost_share: 0.5\n")
    baseline(runner, agent, policy="gate.yml")
    agent.behave = down_for(2, 5, 8)
    step = changed(runner, agent, policy="gate.yml")
    assert step.code == 4
    assert "above max" not in first_lines(github)
    assert "3 cases (order-2, order-5, order-8) of the baseline have no scored trial." in first_lines(github)


def test_what_is_lost_once_is_run_again_and_on_record(
    runner: Runner, github: FakeGitHub, agent: Agent
) -> None:
    baseline(runner, agent)
    agent.behave = down_for(2, 5, 8, times=1)
    step = changed(runner, agent)
    assert (step.code, step.outcome) == (0, "passed"), step.log
    assert sorted(agent.asked[10:]) == ["order-2", "order-5", "order-8"], "after all others"
    [lost] = metadata_of(step, "order-5")["lost_tries"]
    assert (lost["fault"], "HTTP 503" in lost["reason"]) == ("infrastructure", True)
    assert "lost_tries" not in metadata_of(step, "order-1")


def test_losses_do_not_hide_a_regression(runner: Runner, github: FakeGitHub, agent: Agent) -> None:
    baseline(runner, agent)
    agent.behave = lambda case_id, number: (
        DOWN if case_id == "order-2" and number == 1 else ESCALATES if case_id == "order-3" else PASSES
    )
    step = changed(runner, agent)
    assert (step.code, step.outcome, step.outputs["regressed-cases"]) == (1, "failed", "1")
    assert agent.asked.count("order-3") == 1


def test_an_outage_from_the_middle_on_stops_the_run(runner: Runner, github: FakeGitHub, agent: Agent) -> None:
    baseline(runner, agent, total=30)
    agent.behave = lambda case_id, number: DOWN if len(agent.asked) > 15 else PASSES
    step = changed(runner, agent)
    assert (step.code, step.outcome) == (4, "error")
    assert len(agent.asked) == 20, "no trial was started after five in a row were lost"
    [comment] = github.bodies(PULL)
    assert "5 trials in a row were lost to the infrastructure" in comment
    assert "10 trials were not run. This says nothing about the change." in comment
    assert (runner.workspace / "agent-eval-out" / "shop" / "manifest.json").exists(), (
        "what is there is sealed"
    )


def test_an_outage_in_a_later_look_ends_as_one_of_a_fixed_run_does(
    runner: Runner, github: FakeGitHub, agent: Agent
) -> None:
    baseline(runner, agent, trials="4")

    def behave(case_id: str, number: int) -> Any:
        if number > 1:
            return DOWN
        return ESCALATES if case_id == "order-3" else PASSES

    agent.behave = behave
    limits = {"max_regressed_cases": "", "max_new_hard_fail_cases": "", "confirm_pairs": "0"}
    step = changed(runner, agent, trials="auto", **limits)
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert len(agent.asked) == 15, "no trial was started after five in a row were lost"
    [comment] = github.bodies(PULL)
    assert "A further look was cut short: 5 trials in a row were lost to the infrastructure" in comment
    assert "This says nothing about the change." in comment


def test_an_agent_that_answers_503_itself_is_not_excused(
    runner: Runner, github: FakeGitHub, agent: Agent
) -> None:
    baseline(runner, agent)
    agent.behave = down_for(4)
    step = changed(runner, agent, agent_gateway="false")
    assert (step.code, step.outcome, step.outputs["regressed-cases"]) == (1, "failed", "1")
    assert agent.asked.count("order-4") == 1


def test_a_gateway_that_comes_with_the_change_is_not_reviewed(
    runner: Runner, github: FakeGitHub, agent: Agent
) -> None:
    """An agent that could declare its own answers infrastructure would be asked again until it passes."""
    write(runner)
    runner.upload(runner.push(agent_url=agent.url), 400)
    github.files["agent-eval.yml"] = b"parallel: 1\n"
    (runner.workspace / "agent-eval.yml").write_text("agent-gateway: true\n")
    step = runner.pull_request(agent_url=agent.url)
    assert step.outcome != "passed"
    assert "`agent-gateway` was `false` and is now `true`." in github.bodies(PULL)[0]


HOSTILE = {
    "exits as sysexits.h calls a temporary failure": "sys.exit(75)",
    "says that it was the infrastructure": (
        "print('HTTP 503: infrastructure', file=sys.stderr); sys.exit('{\"failure\": \"infrastructure\"}')"
    ),
    "answers with a failure of its own": (
        "json.dump({'error': {'failure': 'infrastructure', 'fault': 'judge'}}, sys.stdout); sys.exit()"
    ),
    "kills itself": "os.kill(os.getpid(), 9)",
    "kills its supervisor": "os.kill(os.getppid(), 9); import time; time.sleep(60)",
    "kills its supervisor and answers": "os.kill(os.getppid(), 9)",
    "stops its supervisor": "os.kill(os.getppid(), 19); sys.exit(75)",
}


@pytest.mark.parametrize("act", HOSTILE.values(), ids=HOSTILE)
@WHOLE_JOB
def test_an_agent_that_wants_to_be_excused_is_not(runner: Runner, github: FakeGitHub, act: str) -> None:
    write(runner)
    runner.upload(runner.push(agent_command=COMMAND), 400)
    counted = runner.workspace / "ran"
    write(runner, at(2, f"open({str(counted)!r}, 'a').write('x')", act))
    step = runner.pull_request(agent_command=COMMAND, confirm_pairs="0")
    assert (step.code, step.outcome, step.outputs["regressed-cases"]) == (1, "failed", "1"), step.log
    assert counted.read_text() == "x", "it was run once"


@WHOLE_JOB
def test_a_judge_of_the_branch_that_refuses_to_judge_makes_nothing_green(
    runner: Runner, github: FakeGitHub
) -> None:
    """It kills its supervisor for the case that it should fail."""
    judge = runner.workspace / "judge.py"
    judge.write_text("import json, sys\njson.load(sys.stdin)\nprint(json.dumps({'passed': True}))\n")
    config = {"command": {"command": [sys.executable, "-S", "-E", str(judge)]}}
    (runner.workspace / "judges.json").write_text(json.dumps(config))
    judging = {"judge": "command", "judge_config": "judges.json", "agent_command": COMMAND}
    write(runner)
    first = runner.push(**judging)
    assert first.code == 0, first.log
    runner.upload(first, 400)
    judge.write_text(
        "import json, os, sys\n"
        "if json.load(sys.stdin)['case']['case_id'] == 'order-2': os.kill(os.getppid(), 9)\n"
        "print(json.dumps({'passed': True}))\n"
    )
    step = runner.pull_request(**judging, confirm_pairs="0")
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert "order-2" in first_lines(github)
    assert "Mend the judge, or check that its model answers, then run again." in first_lines(github)


RULING = json.dumps({"reasoning": "It says so.", "evidence": [], "verdict": "passed"})


def judged_case(number: int) -> dict[str, Any]:
    row = case(number)
    row["metadata"]["llm"] = [{"criterion": "The answer is polite."}]
    return row


@pytest.mark.parametrize("status", [429, 503])
@WHOLE_JOB
def test_a_judge_whose_model_does_not_answer_is_asked_again_about_what_the_agent_did(
    runner: Runner, github: FakeGitHub, agent: Agent, status: int
) -> None:
    runner.write_suite(*(judged_case(number) for number in range(1, 4)))
    refusal = Said(status=status, headers={"Retry-After": "3600"})
    ruling = Said(text=RULING)
    inputs = {
        "agent_url": agent.url,
        "judge": "llm",
        "provider": "openai",
        "llm_model": "small",
        "environ": {"LLM_API_KEY": "sk-of-the-judge"},
    }
    with FakeOpenAi(ruling) as model:
        inputs["llm_base_url"] = model.base_url
        first = runner.push(**inputs)  # type: ignore[arg-type]
        assert (first.code, first.outputs["pass-rate"]) == (0, "1"), first.log
        runner.upload(first, 400)
        agent.asked.clear()
        agent.behave = lambda case_id, _: {**PASSES, "assistant_output": f"It is on its way, {case_id}."}
        model.script = [ruling, refusal, ruling]
        step = runner.pull_request(**inputs)  # type: ignore[arg-type]
        assert step.outputs["pass-rate"] == "1", step.log
        assert sorted(agent.asked) == ["order-1", "order-2", "order-3"], "the agent is not run again"
        assert [entry["fault"] for entry in metadata_of(step, "order-2")["lost_tries"]] == ["judge"]
        agent.behave = lambda case_id, _: {**PASSES, "assistant_output": f"Your parcel is near, {case_id}."}
        model.script = [ruling, refusal]
        step = runner.pull_request(run_id=501, **inputs)  # type: ignore[arg-type]
    assert (step.code, step.outcome, step.outputs["regressed-cases"]) == (4, "error", "0"), step.log
    assert "lost to a judge" in first_lines(github)


@WHOLE_JOB
def test_a_run_that_is_killed_amid_its_retries_goes_on_with_what_is_left_of_them(
    tmp_path: Path, agent: Agent
) -> None:
    suite = {"dataset_id": "shop", "cases": [case(number) for number in range(1, 5)]}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    words = ["run-loop", "--suite", "suite.json", "--out", "out", "--max-repairs", "0", "--agent", agent.url]
    words.append("--agent-gateway")
    again, go_on = threading.Event(), threading.Event()

    def behave(case_id: str, number: int) -> Any:
        if case_id == "order-2" and number == 2:
            again.set()
            go_on.wait(60)
        return DOWN if case_id == "order-2" else PASSES

    agent.behave = behave
    process = start(*words, cwd=tmp_path, measured=False)
    assert again.wait(60), "the lost trial was never run again"
    process.kill()
    process.communicate()
    go_on.set()
    assert agent.asked == ["order-1", "order-2", "order-3", "order-4", "order-2"]
    agent.asked.clear()
    ended = agent_eval(*words, "--resume", cwd=tmp_path)
    assert agent.asked == ["order-2", "order-2"], (
        "the try that was killed left no record, and counts for none"
    )
    assert ended.code == 4
    assert "1 of 4 trials (25.0%) was lost to the infrastructure" in ended.err
    assert json.loads(ended.out)["summary"]["lost_trials"] == {"infrastructure": 1}
