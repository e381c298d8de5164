"""No command ends well where no case could be judged: exit 4, the reason first, and the evidence is kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Ended, agent_eval
from tests.factories import make_case, make_suite

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
    assert error["code"] == "not_evaluable"
    assert error["message"] == said


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
