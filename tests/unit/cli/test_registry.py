"""`registry`: what each subcommand prints, as JSON and as prose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from tests.factories import make_case, make_pack, make_suite


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-06-01T00:00:00+00:00")
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "starter_suite.json").write_text(
        json.dumps(make_suite(make_case("a"), dataset_id="starter-suite"))
    )
    make_pack(tmp_path / "runs" / "baseline")
    return tmp_path


class Shell:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def text(self, *words: str, code: int = 0) -> str:
        assert main(["registry", *words, "--format", "text"]) == code
        return self.capsys.readouterr().out

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        assert main(["registry", *words]) == code
        return dict(json.loads(self.capsys.readouterr().out))

    def error(self, *words: str, code: int = 2) -> dict[str, Any]:
        assert main(["registry", *words]) == code
        return dict(json.loads(self.capsys.readouterr().err)["error"])


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


WAIVER = (
    *("waiver-add", "--baseline-name", "main", "--case-id", "case-42"),
    *("--approved-by", "qa@company", "--reason", "known issue"),
)


def test_the_commands_of_the_specification(shell: Shell, here: Path) -> None:
    suite = "suites/starter_suite.json"
    added = shell.json("dataset-add", "--suite", suite, "--dataset-id", "starter-suite", "--tag", "x")
    assert added["dataset_registered"]["case_count"] == 1
    assert added["registry_path"] == ".agent_eval/registry.json"
    assert (
        shell.json("baseline-set", "--name", "main", "--run", "runs/baseline")["baseline_set"]["run_id"]
        == "run-1"
    )
    promoted = shell.json(
        *("baseline-promote", "--name", "main", "--run", "runs/baseline"),
        *("--approved-by", "qa@company", "--rationale", "release baseline"),
    )["promotion"]
    assert promoted["baseline"]["approval_id"] == promoted["approval"]["approval_id"]
    assert shell.json(*WAIVER)["waiver"]["case_id"] == "case-42"
    for words, name in (
        ("dataset-list", "datasets"),
        ("baseline-list", "baselines"),
        ("approval-list", "approvals"),
        ("waiver-list", "waivers"),
    ):
        listed = shell.json(words)
        assert (listed["count"], len(listed[name])) == (1, 1), words
    assert shell.json("audit-log", "--limit", "2")["count"] == 2
    assert shell.json("baseline-show", "--name", "main")["baseline"]["run_path"] == "../runs/baseline"
    assert shell.json("verify")["passed"] is True
    assert (here / ".agent_eval" / "registry.audit.jsonl").read_bytes().count(b"\n") == 4


def test_prose(shell: Shell) -> None:
    assert shell.text("baseline-list") == "None.\n"
    assert shell.text("dataset-add", "--suite", "suites/starter_suite.json") == "Registered starter-suite\n"
    assert shell.text("dataset-list") == "starter-suite  ../suites/starter_suite.json\n"
    assert shell.text("baseline-set", "--name", "main", "--run", "runs/baseline") == "main is now run run-1\n"
    promoted = shell.text(
        *("baseline-promote", "--name", "main", "--run", "runs/baseline"),
        *("--approved-by", "qa", "--rationale", "why"),
    )
    assert promoted.startswith("main is now run run-1, a-")
    assert shell.text("approval-list").endswith("main  run-1  qa  why\n")
    assert "run_path: ../runs/baseline" in shell.text("baseline-show", "--name", "main").splitlines()
    assert shell.text("audit-log", "--limit", "1").startswith(
        "2  2026-06-01T00:00:00+00:00  baseline-promote"
    )
    assert shell.text("verify") == "3 changes, all in order.\n"


def test_a_waiver_is_revoked_and_no_longer_active(shell: Shell) -> None:
    waiver_id = shell.json(*WAIVER, "--expires-at", "2026-12-01T00:00:00+00:00")["waiver"]["waiver_id"]
    assert shell.text("waiver-list", "--active-only", "--baseline-name", "main").startswith(waiver_id)
    revoked = shell.text("waiver-revoke", "--waiver-id", waiver_id, "--revoked-by", "lead")
    assert revoked == f"Revoked {waiver_id}\n"
    assert shell.json("waiver-list", "--active-only")["count"] == 0
    assert shell.json("waiver-list")["waivers"][0]["revoked_by"] == "lead"
    assert shell.text(*WAIVER).startswith("Added w-")


def test_what_cannot_be_accepted_is_an_error_with_a_remedy(shell: Shell) -> None:
    error = shell.error(*WAIVER, "--expires-at", "2026-12-01")
    assert "offset" in error["details"]["remedy"]
    assert shell.error("baseline-show", "--name", "nope")["code"] == "validation_error"
    shell.error("baseline-set", "--name", "main", "--run", "runs/none")


def test_verify_says_no_when_something_pinned_changed(shell: Shell, here: Path) -> None:
    shell.json("dataset-add", "--suite", "suites/starter_suite.json")
    (here / "suites" / "starter_suite.json").write_text("{}")
    assert "is not what was registered" in shell.text("verify", code=1)


def test_another_registry_may_be_named(shell: Shell, here: Path) -> None:
    shell.json(*WAIVER, "--registry-path", "elsewhere/r.json")
    assert (here / "elsewhere" / "r.json").exists()
    assert shell.json("waiver-list")["count"] == 0


def test_hostile_words_do_not_reach_the_terminal(shell: Shell) -> None:
    words = [word if word != "case-42" else "\x1b[31mred" for word in WAIVER]
    shell.json(*words)
    assert "\x1b" not in shell.text("waiver-list")
