"""What can be done with the evidence of conversations, by command line: the same as with any other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.demo.aui_server import DemoAgents, DemoServer
from agent_eval.suites.paths import bundled_suite

STOPS = {"purpose": "simulate", "object": {"message": "", "done": True, "reason": "goal"}}
PASSES = {"purpose": "judge", "object": {"reasoning": "It is so.", "evidence": [], "verdict": "passed"}}
SCRIPTED = ("--provider", "scripted", "--set", "judge_model.script=script.json")
TESTS = 9


@pytest.fixture(scope="module")
def served() -> Iterator[DemoServer]:
    with DemoServer(DemoAgents()) as server:
        yield server


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUI_API_KEY", "any")
    script = {"kind": "model_script", "schema_version": "1.2.0", "replies": [STOPS, PASSES]}
    Path("script.json").write_text(json.dumps(script))
    return tmp_path


def done(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--format", "json"]) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return dict(json.loads(captured.out or captured.err.splitlines()[-1]))


def run(
    capsys: pytest.CaptureFixture[str], server: DemoServer, out: str, *more: str, code: int = 0
) -> dict[str, Any]:
    arguments = (
        *("run", "demo:hr", "--set", f"agent.base_url={server.url}", *SCRIPTED, "--parallel", "8"),
        *("--out", out),
    )
    return done(capsys, *arguments, *more, code=code)


def unchanged(capsys: pytest.CaptureFixture[str], before: str, now: str) -> None:
    overview = done(capsys, "compare", "--baseline", before, "--candidate", now)["overview"]
    assert (overview["compared_cases"], overview["regressed_cases"]) == (TESTS, 0)


def test_rejudge_takes_the_judges_of_conversations_by_itself(
    here: Path, served: DemoServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, served, "pack")
    judged = done(capsys, "rejudge", "--run", "pack", "--out", "again", *SCRIPTED)["summary"]
    assert judged["passed_cases"] == TESTS
    assert {"strict", "llm", "execution"} <= judged["judge_counts"].keys()
    assert judged["judging"] == {"reused": 15, "scripted": TESTS}
    unchanged(capsys, "pack", "again")


def test_a_replay_asks_no_model_and_a_run_of_the_same_agent_is_the_same(
    here: Path, served: DemoServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, served, "pack")
    assert done(capsys, "replay", "--run", "pack")["replay_passed"] is True
    again = ("replay-exec", "--run", "pack", "--set", f"agent.base_url={served.url}", *SCRIPTED)
    assert done(capsys, *again)["replay_passed"] is True
    with DemoServer(DemoAgents(["never-escalates"])) as worse:
        changed = done(capsys, *again[:3], "--set", f"agent.base_url={worse.url}", *SCRIPTED, code=1)
    assert [each["case_id"] for each in changed["case_mismatches"]] == [
        "A harassment complaint goes to a human at once"
    ]


def test_shards_are_merged_to_the_run_that_was_divided(
    here: Path, served: DemoServer, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = run(capsys, served, "whole")
    for number in "123":
        run(capsys, served, number, "--shard", f"{number}/3")
    merged = done(capsys, "merge", "3", "1", "2", "--out", "merged")
    assert merged["summary"]["judge_counts"] == whole["summary"]["judge_counts"]
    unchanged(capsys, "whole", "merged")


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(
    here: Path, served: DemoServer, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (
        *("run", "demo:hr", "--set", f"agent.base_url={served.url}", *SCRIPTED, "--out", "pack"),
        *("--parallel", "1"),
    )
    program = subprocess.Popen([sys.executable, "-m", "agent_eval", *command], stderr=subprocess.DEVNULL)
    journal = Path("pack.journal")
    while program.poll() is None and not (journal.exists() and journal.stat().st_size > 20_000):
        time.sleep(0.005)
    program.send_signal(signal.SIGKILL)
    program.wait()
    result = done(capsys, *command, "--resume")
    assert result["summary"]["passed_cases"] == TESTS
    assert 0 < result["resumed_cases"] <= TESTS
    run(capsys, served, "whole")
    unchanged(capsys, "whole", "pack")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--provider", "scripted"), "the scripted model has no script"),
        (("--provider", "openai"), "there is no key for the openai model"),
        ((*SCRIPTED, "--test", "nothing like it"), "has no case with a name with"),
        ((*SCRIPTED, "--loops", "0"), "Invalid value for '--loops': '0'"),
    ],
)
def test_a_run_that_is_refused_leaves_no_directory(
    here: Path,
    served: DemoServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.delenv("LLM_API_KEY", raising=False)
    refused = done(capsys, "run", "demo:hr", "--set", f"agent.base_url={served.url}", *arguments, code=2)
    assert message in refused["error"]["message"]
    assert sorted(path.name for path in here.iterdir()) == ["script.json"]


def test_what_the_later_api_does_not_record_cannot_be_judged_and_the_rest_can(
    here: Path, served: DemoServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = json.loads(bundled_suite("demo:hr").read_text())
    kinds = ("rule_triggered", "rule_not_triggered", "escalated_due_to_error", None)
    for test in suite["tests"]:
        test["evaluations"] = [each for each in test["evaluations"] if each.get("strict") in kinds]
    suite["tests"] = [test for test in suite["tests"] if test["evaluations"]]
    Path("later.json").write_text(json.dumps(suite))
    monkeypatch.setenv("AUI_API_KEY", f"pk_network_{suite['agentId']}")
    agent = ("--agent", f"aui-v3:{suite['agentId']}", "--set", f"agent.base_url={served.url}")
    assert done(capsys, "validate", "later.json")["warnings"] == []
    result = done(capsys, "run", "later.json", *agent, *SCRIPTED, "--out", "later")
    assert result["pass_rate"] == 1.0
    assert main(["run", "demo:hr", *agent, *SCRIPTED, "--out", "all"]) == 4
    assert "does not record executed_workflows" in capsys.readouterr().err
