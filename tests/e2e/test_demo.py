"""`agent-eval demo`: what a newcomer sees first."""

import json
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_eval.contracts.conversation import EndReason, conversation_end
from agent_eval.evidence.reader import open_pack
from tests.e2e import program
from tests.e2e.program import Ended, Process, agent_eval, tree

REGRESSED = ("refund-damaged-item", "refund-outside-window", "refund-within-window")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(place: Path) -> Ended:
    return agent_eval("demo", cwd=place)


@pytest.fixture(scope="module")
def comment(shown: Ended, place: Path) -> str:
    return (place / "runs/demo/evidence/comment.md").read_text()


def test_it_works_and_says_what_would_happen_in_ci(shown: Ended) -> None:
    assert (shown.code, shown.err) == (0, "")
    assert "the gate blocks the change (exit code 1 in CI)" in shown.out
    assert "3 of 12 cases flipped" in " ".join(shown.out.split())
    for case_id in REGRESSED:
        assert f"  {case_id}: " in shown.out


def test_it_fits_one_screen(shown: Ended) -> None:
    lines = shown.out.splitlines()
    assert len(lines) <= 22, "the shell's own lines come on top"
    assert max(map(len, lines)) < 80


def test_every_file_and_command_that_it_names_works(shown: Ended, place: Path) -> None:
    named = re.findall(r"^  (runs/\S+)", shown.out, re.MULTILINE)
    assert len(named) == 5
    assert all((place / name).is_file() for name in named)
    (command,) = re.findall(r"^  agent-eval (show .*)$", shown.out, re.MULTILINE)
    ended = agent_eval(*shlex.split(command), "--format", "text", cwd=place)
    assert ended.out.startswith("refund-damaged-item: failed")
    assert "The comment, as it would be posted:" in (place / "runs/demo/job.log").read_text()


def test_its_comment_has_every_kind_of_change(comment: str) -> None:
    for case_id in REGRESSED:
        assert f"#### `{case_id}`" in comment
    assert "`lookup_order → refund` became `lookup_order → refund → escalate`" in comment
    assert "`12.5` became `" in comment
    assert "cancel-before-shipping" in comment
    assert "The model changed from example-large-2025-11 to example-small-2026-01" in comment
    assert "· cost " in comment


def test_every_command_in_the_comment_runs(comment: str, place: Path) -> None:
    commands = re.findall(r"^agent-eval (run .*)$", comment, re.MULTILINE)
    assert len(commands) == len(REGRESSED)
    for command in commands:
        summary = agent_eval(*shlex.split(command), "--format", "json", cwd=place).json()["summary"]
        assert (summary["total_cases"], summary["passed_cases"]) == (1, 0)


def test_the_evidence_is_where_it_says(shown: Ended, place: Path) -> None:
    evidence = place / "runs/demo/evidence"
    assert (evidence / "report.md").is_file()
    packs = (evidence / "support-agent", evidence / "evidence.zip", place / "runs/demo/baseline/evidence")
    for pack in packs:
        verified = agent_eval("pack", "verify", "--format", "json", "--run", pack, cwd=place)
        assert verified.json()["cases"] == 12


def test_the_archive_of_a_run_serves_as_a_baseline(shown: Ended, place: Path) -> None:
    archive = "runs/demo/evidence/evidence.zip"
    compare = ("compare", "--baseline", "runs/demo/baseline/evidence", "--candidate", archive)
    ended = agent_eval(*compare, "--format", "json", "--out", "delta.json", cwd=place)
    assert ended.json()["overview"]["regressed_cases"] == 3
    refused = agent_eval(*compare, cwd=place)
    assert refused.code == 2
    assert "--out" in refused.error["details"]["remedy"]


def test_it_shows_the_same_again_whatever_the_machine_is(shown: Ended, place: Path, tmp_path: Path) -> None:
    (tmp_path / "agent-eval.yml").write_text("judges: [no_such_judge]\n")
    environ = {"GITHUB_ACTIONS": "true", "INPUT_SUITE": "other.json", "AGENT_EVAL_FAIL-ON": "never"}
    assert agent_eval("demo", cwd=tmp_path, environ=environ) == shown
    # The commit of the checkout it runs in stands in the evidence; there is none in either place.
    assert tree(tmp_path / "runs/demo") == tree(place / "runs/demo")


def test_an_output_that_cannot_be_written_is_said_in_prose(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = agent_eval("demo", "--out", "file/demo", cwd=tmp_path)
    assert ended.code == 4
    assert ended.err.startswith("Error: cannot write file/demo")


def test_what_lies_where_the_evidence_should_go_is_not_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "runs/demo/evidence/support-agent/thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    ended = agent_eval("demo", cwd=tmp_path)
    assert ended.code == 2
    assert "is not an evidence pack" in ended.out
    assert "Where to look" not in ended.out
    assert mine.read_text() == "years of work"


# The demonstration's agents as a process of their own, and a bundled suite that is run against them

KEY = "API_KEY_canary_5b1f0c77"
DONE = {"message": "Zzz again.", "done": True, "reason": "goal"}
REPLIES = [
    {"purpose": "judge", "object": {"reasoning": "It does.", "evidence": [], "verdict": "passed"}},
    {"purpose": "simulate", "contains": "Zzz?", "object": DONE},
    {"purpose": "simulate", "text": "Zzz?"},
]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Process, str]]:
    words = ["demo-agent", "--port", "0", "--defect", "integrations-down"]
    process = program.start(*words, cwd=tmp_path, own_group=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        yield process, line.split(" at ")[1].split(". ")[0]
    finally:
        process.kill()
        process.communicate()


def test_a_bundled_suite_finds_the_defect_of_its_agent(tmp_path: Path, served: tuple[Process, str]) -> None:
    process, url = served
    script = {"kind": "model_script", "schema_version": "1.2.0", "replies": REPLIES}
    (tmp_path / "script.json").write_text(json.dumps(script))
    words = [
        "run", "demo:hr", "--set", f"agent.base_url={url}", "--judge-model", "scripted:script.json",
        "--out", "out", "--parallel", "4",
    ]  # fmt: skip
    ran = program.start(*words, cwd=tmp_path, environ={"AUI_API_KEY": KEY})
    out, err = ran.communicate(timeout=120)
    assert ran.returncode == 0, err
    pack = open_pack(next(path.parent for path in (tmp_path / "out").rglob("manifest.json")))
    failed = {
        evaluation["strict"]
        for result in pack.results()
        for verdict in result["verdicts"]
        for evaluation in verdict["evidence"].get("evaluations", [])
        if verdict["judge_id"] == "strict" and evaluation["outcome"] == "failed"
    }
    assert failed == {"integration_called"}
    ends = [conversation_end(pack.trajectory(case_id).trace) for case_id in pack.case_ids()]
    reasons = {EndReason.GOAL, EndReason.ESCALATION, EndReason.AGENT_ERROR}
    assert {end.reason for end in ends if end} == reasons
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in data for data in [*written, out, err])
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
