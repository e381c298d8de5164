"""`agent-eval ci` where trials are lost: an error is a failure, and an outage is no decision."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.deployed import Behaviour, Deployed
from tests.e2e.runner import PULL, Runner, Step, live_order
from tests.e2e.scenarios.repository import Evaluated
from tests.e2e.test_ci_agent import write
from tests.extent import WHOLE_JOB
from tests.fakes.github import FakeGitHub
from tests.fakes.models import FakeOpenAi
from tests.fakes.models import Step as Said

DOWN = (503, b"the gateway cannot reach the agent", {"Retry-After": "3600"})
"""The answer of a gateway; nothing waits for an hour, so the request is not sent again."""
PASSES = {"assistant_output": "It is on its way.", "tool_calls": [{"tool": "lookup_order", "arguments": {}}]}
ESCALATES = {**PASSES, "tool_calls": [{"tool": "escalate", "arguments": {}}]}


@pytest.fixture
def agent() -> Iterator[Deployed]:
    with Deployed(lambda case_id, number: PASSES) as agent:
        yield agent


mains = agent
"""The base's agent, which passes everything."""


def baseline(runner: Runner, agent: Deployed, *, total: int = 10, **inputs: str) -> None:
    """The suite, and a run of main in which every case passes."""
    write(runner, total=total)
    first = runner.push(agent_url=agent.url, agent_gateway="true", **inputs)
    assert (first.code, first.outputs["pass-rate"]) == (0, "1"), first.log
    runner.upload(first, 400)
    agent.asked.clear()


def changed(runner: Runner, agent: Deployed, **inputs: str) -> Step:
    return runner.pull_request(agent_url=agent.url, **{"agent_gateway": "true", **inputs})


def down_for(*numbers: int, times: int = 99) -> Behaviour:
    cases = {f"order-{number}" for number in numbers}
    return lambda case_id, number: DOWN if case_id in cases and number <= times else PASSES


def test_trials_that_stay_lost_are_never_green(runner: Runner, github: FakeGitHub, agent: Deployed) -> None:
    baseline(runner, agent)
    agent.behave = down_for(2, 5, 8)
    step = changed(runner, agent)
    assert (step.code, step.outcome) == (3, "inconclusive"), step.log
    assert "3 cases never passed again here" in github.bodies(PULL)[0]


def test_what_is_lost_once_passes_again_and_blocks_nothing(runner: Runner, agent: Deployed) -> None:
    baseline(runner, agent)
    agent.behave = down_for(2, 5, 8, times=1)
    step = changed(runner, agent)
    assert (step.code, step.outcome) == (0, "passed"), step.log
    assert "3 cases failed once and passed again" in runner.github.bodies(PULL)[0]
    assert set(agent.asked[10:]) == {"order-2", "order-5", "order-8"}, "after all others"


def test_a_case_that_is_new_and_lost_blocks_nothing(runner: Runner, agent: Deployed) -> None:
    baseline(runner, agent)
    write(runner, total=11)
    agent.behave = down_for(11)
    step = changed(runner, agent)
    assert (step.code, step.outcome) == (0, "passed"), step.log


def test_losses_do_not_hide_a_regression(runner: Runner, agent: Deployed, mains: Deployed) -> None:
    baseline(runner, agent)
    agent.behave = lambda case_id, number: (
        DOWN if case_id == "order-2" and number == 1 else ESCALATES if case_id == "order-3" else PASSES
    )
    step = changed(runner, agent, base_agent=mains.url)
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert "1 case broke" in runner.github.bodies(PULL)[0]


def test_an_outage_from_the_middle_on_stops_the_run(runner: Runner, agent: Deployed) -> None:
    baseline(runner, agent, total=30)
    agent.behave = lambda case_id, number: DOWN if len(agent.asked) > 15 else PASSES
    step = changed(runner, agent)
    assert (step.code, step.outcome) == (4, "error")
    assert len(agent.asked) == 20, "no trial was started after five in a row were lost"
    [comment] = runner.github.bodies(PULL)
    assert "5 trials in a row were lost to the infrastructure" in comment
    assert "10 trials were not run. This says nothing about the change." in comment
    assert (runner.workspace / "agent-eval-out" / "shop" / "manifest.json").exists(), (
        "what is there is sealed"
    )


def test_own_503_excuses_no_agent(runner: Runner, agent: Deployed, mains: Deployed) -> None:
    baseline(runner, agent)
    agent.behave = down_for(4)
    step = changed(runner, agent, agent_gateway="false", base_agent=mains.url)
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert "1 case broke" in runner.github.bodies(PULL)[0]


def test_a_gateway_that_comes_with_the_change_holds_once_merged(runner: Runner, agent: Deployed) -> None:
    """An agent that could call its own answers an outage would not be blamed for them."""
    write(runner)
    runner.github.files["agent-eval.yml"] = b"parallel: 1\n"
    runner.upload(runner.push(agent_url=agent.url), 400)
    (runner.workspace / "agent-eval.yml").write_text("parallel: 1\nagent: {gateway: true}\n")
    step = runner.pull_request(agent_url=agent.url)
    assert (step.code, step.outcome) == (0, "passed"), step.log
    assert "`agent.gateway` false → true" in runner.github.bodies(PULL)[0]


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


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(act, id=name, marks=WHOLE_JOB if place else [])
        for place, (name, act) in enumerate(HOSTILE.items())
    ],
)
def test_an_agent_that_wants_to_be_excused_is_not(evaluated: Evaluated, act: str) -> None:
    # A stopped supervisor says nothing until the limit of its attempt, and eight attempts wait for that.
    repository = evaluated(cases=2, settings={"limits.attempt.seconds": 2}, runs=1)
    repository.topic(f"if case == 'order-1':\n    {act}\n")
    job = repository.job()
    assert (job.code, job.outcome) == (1, "failed"), job.log
    assert job.sentence.startswith("1 case broke: `order-1` passed 0 of 8 times here"), job.log


RULING = json.dumps({"reasoning": "It says so.", "evidence": [], "verdict": "passed"})


def judged_case(number: int) -> dict[str, Any]:
    row = live_order(number)
    row["metadata"]["llm"] = [{"criterion": "The answer is polite."}]
    return row


@pytest.mark.parametrize("status", [429, pytest.param(503, marks=WHOLE_JOB)])
def test_a_judge_whose_model_does_not_answer_says_nothing_about_the_change(
    runner: Runner, github: FakeGitHub, agent: Deployed, status: int
) -> None:
    runner.write_suite(*(judged_case(number) for number in range(1, 4)))
    refusal = Said(status=status, headers={"Retry-After": "3600"})
    ruling = Said(text=RULING)
    inputs = {
        "agent_url": agent.url, "judge": "llm", "provider": "openai", "llm_model": "small",
        "environ": {"LLM_API_KEY": "sk-of-the-judge"},
    }  # fmt: skip
    with FakeOpenAi(ruling) as model:
        inputs["llm_base_url"] = model.base_url
        first = runner.push(**inputs)  # type: ignore[arg-type]
        assert (first.code, first.outputs["pass-rate"]) == (0, "1"), first.log
        runner.upload(first, 400)
        agent.behave = lambda case_id, _: {**PASSES, "assistant_output": f"Your parcel is near, {case_id}."}
        model.script = [ruling, refusal]
        step = runner.pull_request(**inputs)  # type: ignore[arg-type]
    assert (step.code, step.outcome) == (4, "error"), step.log
    [comment] = github.bodies(PULL)
    assert "## 🛑 Not evaluated: judge `llm` gave no verdict in " in comment
    assert "Check the judge's code, or its model's key, address and quota; then run the job again." in comment
