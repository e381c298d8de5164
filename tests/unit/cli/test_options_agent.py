"""Options of the commands that run an agent: what contradicts itself or is no number is refused at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.factories import make_case, make_suite
from tests.unit.cli.shell import Shell

AGENT = ["--agent", "recorded"]


@pytest.fixture(autouse=True)
def suite(here: Path) -> None:
    Path("suite.json").write_text(json.dumps(make_suite(make_case("a", policy={"forbidden_tools": ["x"]}))))


RUN = ("--suite", "suite.json", "--out", "out")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([*AGENT, "--set", "limits.case.seconds=nan"], "'nan' is not a number"),
        ([*AGENT, "--max-run-cost", "0"], "'0' is not a number above 0"),
        ([*AGENT, "--parallel", "many"], "'many' is not auto or a number from 1 to 256"),
        ([*AGENT, "--parallel", "257"], "not auto or a number"),
        ([*AGENT, "--agent-header", "Authorization"], "is not of the form NAME=VARIABLE"),
        ([*AGENT, "--agent-header", "Authorization=NOT_SET_AT_ALL"], "NOT_SET_AT_ALL, which is not set"),
        ([*AGENT, "--replay", "b"], "--replay is gone"),
        ([*AGENT, "--max-steps", "3"], "--max-steps is now the key `limits.attempt.steps`"),
        ([*AGENT, "--propose-command", "x"], "Several agents are named: by --agent-command and --agent"),
        (
            ["--agent-command", "x", "--set", "agent.base_url=http://h"],
            "by --agent-command and --set agent.base_url",
        ),
        (["--set", "agent.url=localhost"], "'localhost' is not an address such as https://host/path"),
        ([*AGENT, "--repair-command", "x"], "--repair-command goes with an agent that is a program"),
        ([*AGENT, "--workers", "2"], "--workers is gone"),
        ([], "--max-repairs is for running an agent, and none is named"),
    ],
)
def test_it_is_refused_before_anything_is_run(flags: list[str], said: str, cli: Shell) -> None:
    error = cli.error("run-loop", *RUN, *flags)
    assert error["code"] == "usage_error"
    assert said in error["message"]
    assert not Path("out").exists()
    assert not Path("out.journal").exists()


def test_limits_and_headers_reach_the_run(monkeypatch: pytest.MonkeyPatch, cli: Shell) -> None:
    monkeypatch.setenv("KEY_OF_AGENT", "s3cr3t-value")
    values = ("attempt.output_bytes=1000", "attempt.steps=3", "attempt.tool_calls=4")
    values += ("case.seconds=9", "case.tokens=8", "case.cost_usd=7")
    limits = [word for value in values for word in ("--set", f"limits.{value}")]
    header = ["--agent-header", "Authorization=KEY_OF_AGENT"]
    cli.out("run", *RUN, *AGENT, *limits, *header, "--parallel", "auto")
    config = Path("out/run/config.json").read_text()
    assert "s3cr3t-value" not in config
    stated = json.loads(config)["execution_config"]
    assert stated["attempt_limits"] == {
        "seconds": 30.0, "output_bytes": 1000, "steps": 3, "tool_calls": 4, "tokens": None
    }  # fmt: skip
    assert stated["case_limits"] == {"seconds": 9.0, "tokens": 8, "cost_usd": 7.0}
