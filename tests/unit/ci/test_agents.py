"""Which agents a job runs, and which it refuses before anything is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.ci.agents import Agents, check_agent
from agent_eval.config.spec import Output, RunSpec
from agent_eval.errors import InvalidInput, NotEvaluable, UsageError
from tests.unit.ci.jobs import make_job, settings_of


def test_agent__gets_limits_headers_and_recorded_answers() -> None:
    given = settings_of(
        agent_url="https://a.example.org",
        agent_header="Authorization=MY_AGENT",
        cassette="answers.json",
        max_steps="7",
        max_tool_calls="8",
        max_case_tokens="9",
        max_run_cost="0.5",
    )
    check_agent(make_job(given, {"MY_AGENT": "Bearer x"}))
    found = given.agent
    assert found is not None
    assert found.headers == (("Authorization", "MY_AGENT"),)
    limits = given.limits
    assert (limits.attempt.steps, limits.attempt.tool_calls, limits.trial.tokens) == (7, 8, 9)
    assert (limits.run.cost_usd, found.cassette) == (0.5, Path("answers.json"))


def test_request__needs_a_prompt_that_can_be_read(tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        check_agent(make_job(settings_of(agent="openai:m", system_prompt=str(prompt))))


IMAGE = f"registry.example.org/shop@sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("named", "is_isolated"),
    [
        ("https://base.example.org/agent", True),
        ("openai:model", True),
        (f"command:docker run --rm -i {IMAGE}", True),
        ("command:docker run --rm -i registry.example.org/shop:latest", False),
        (f"command:sh -c 'docker run {IMAGE}'", False),
        ("command:python agent.py", False),
        ("recorded", False),
    ],
)
def test_a_base_agent_is_refused_where_it_may_run_files_of_the_change(named: str, is_isolated: bool) -> None:
    job = make_job(settings_of(agent_url="https://a.example.org", base_agent=named))
    if is_isolated:
        assert Agents.prepare(job, None).describe_base().runs == "isolated"
        return
    with pytest.raises(UsageError, match="`base-agent` names a program") as caught:
        Agents.prepare(job, None)
    assert caught.value.details["field"] == "base-agent"


def test_outside_of_a_checkout_the_base_of_a_program_cannot_run() -> None:
    agents = Agents.prepare(make_job(settings_of(agent_command="true")), None)
    base = agents.build_base()
    assert (base.runs, base.can_run, base.problem) == (
        *("beside", False, "the job does not run in a git checkout"),
    )
    with pytest.raises(NotEvaluable, match=r"The base's agent cannot run: the job does not run in a git"):
        agents.run_by("base", RunSpec(suite=Path("s.json"), output=Output(pack=Path("pack"))))
