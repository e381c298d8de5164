"""`agent-eval demo`: what a newcomer sees first."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.program import Ended, agent_eval, tree

REGRESSED = ("refund-damaged-item", "refund-outside-window", "refund-within-window")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(place: Path) -> Ended:
    return agent_eval("demo", cwd=place)


def test_it_works_and_says_what_would_happen_in_ci(shown: Ended) -> None:
    assert (shown.code, shown.err) == (0, "")
    closing = shown.out.split("Decision: ")[1]
    assert "The gate blocks this change (exit code 1 in CI)." in closing
    assert "runs/demo/evidence" in closing


def test_it_shows_the_comment_with_every_kind_of_change(shown: Ended) -> None:
    comment = shown.out.split("The comment, as it would be posted:\n")[1]
    for case_id in REGRESSED:
        assert f"#### `{case_id}`" in comment
    assert "`lookup_order → refund` became `lookup_order → refund → escalate`" in comment
    assert "`12.5` became `" in comment
    assert "cancel-before-shipping" in comment
    assert "The model changed from example-large-2025-11 to example-small-2026-01" in comment
    assert "Cost fell by" in comment
    assert "Latency fell by" in comment


def test_every_command_in_the_comment_runs(shown: Ended, place: Path) -> None:
    commands = re.findall(r"^agent-eval (run .*)$", shown.out, re.MULTILINE)
    assert len(commands) == len(REGRESSED)
    for command in commands:
        summary = agent_eval(*shlex.split(command), cwd=place).json()["summary"]
        assert (summary["total_cases"], summary["passed_cases"]) == (1, 0)


def test_the_evidence_is_where_it_says(shown: Ended, place: Path) -> None:
    evidence = place / "runs/demo/evidence"
    assert (evidence / "report.md").is_file()
    for pack in (
        evidence / "support-agent",
        evidence / "evidence.zip",
        place / "runs/demo/baseline/evidence",
    ):
        assert agent_eval("pack", "verify", "--run", pack, cwd=place).json()["cases"] == 12


def test_the_archive_of_a_run_serves_as_a_baseline(shown: Ended, place: Path) -> None:
    ended = agent_eval(
        *("compare", "--baseline", "runs/demo/baseline/evidence"),
        *("--candidate", "runs/demo/evidence/evidence.zip", "--out", "delta.json"),
        cwd=place,
    )
    assert ended.json()["overview"]["regressed_cases"] == 3
    refused = agent_eval(
        *("compare", "--baseline", "runs/demo/baseline/evidence"),
        *("--candidate", "runs/demo/evidence/evidence.zip"),
        cwd=place,
    )
    assert refused.code == 2
    assert "--out" in refused.error["details"]["remedy"]


def test_it_shows_the_same_again_whatever_the_machine_is(shown: Ended, place: Path, tmp_path: Path) -> None:
    (tmp_path / "agent-eval.yml").write_text("judges: [no_such_judge]\n")
    again = agent_eval(
        "demo",
        cwd=tmp_path,
        environ={"GITHUB_ACTIONS": "true", "INPUT_SUITE": "other.json", "AGENT_EVAL_FAIL-ON": "never"},
    )
    assert again == shown
    made = tree(tmp_path / "runs/demo")
    # The commit of the checkout it runs in stands in the evidence; there is none in either place.
    assert made == tree(place / "runs/demo")


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
    assert "That is what this demonstration shows" not in ended.out
    assert mine.read_text() == "years of work"
