"""`registry`: what each subcommand prints, as JSON and as prose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.factories import make_case, make_pack, make_suite
from tests.unit.cli.shell import Shell


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-06-01T00:00:00+00:00")
    (tmp_path / "suites").mkdir()
    suite = make_suite(make_case("a"), dataset_id="starter-suite")
    (tmp_path / "suites" / "starter_suite.json").write_text(json.dumps(suite))
    make_pack(tmp_path / "runs" / "baseline")


WAIVER = (
    *("waiver-add", "--baseline-name", "main", "--case-id", "case-42"),
    *("--approved-by", "qa@company", "--reason", "known issue"),
)


DATASET = ("registry", "dataset-add", "--suite", "suites/starter_suite.json")
BASELINE = ("--name", "main", "--run", "runs/baseline")
PROMOTED = (*("registry", "baseline-promote", *BASELINE), *("--approved-by", "qa", "--rationale", "why"))


def test_the_commands_of_the_specification(cli: Shell, here: Path) -> None:
    added = cli.json(*DATASET, "--dataset-id", "starter-suite", "--tag", "x")
    assert added["dataset_registered"]["case_count"] == 1
    assert added["registry_path"] == ".agent_eval/registry.json"
    assert cli.json("registry", "baseline-set", *BASELINE)["baseline_set"]["run_id"] == "run-1"
    promoted = cli.json(*PROMOTED)["promotion"]
    assert promoted["baseline"]["approval_id"] == promoted["approval"]["approval_id"]
    assert cli.json("registry", *WAIVER)["waiver"]["case_id"] == "case-42"
    names = ("datasets", "baselines", "approvals", "waivers")
    for name in names:
        listed = cli.json("registry", f"{name[:-1]}-list")
        assert (listed["count"], len(listed[name])) == (1, 1), name
    assert cli.json("registry", "audit-log")["count"] == 4
    whole = cli.json("registry", "list")
    assert [len(whole[name]) for name in names] == [1, 1, 1, 1]
    assert cli.json("registry", "list", "main")["datasets"] == []
    shown = cli.json("registry", "baseline-show", "--name", "main")
    assert shown["baseline"]["run_path"] == "../runs/baseline"
    assert cli.json("registry", "verify")["passed"] is True
    assert (here / ".agent_eval" / "registry.audit.jsonl").read_bytes().count(b"\n") == 4


def test_prose(cli: Shell) -> None:
    for words, said in (
        (("registry", "baseline-list"), "None.\n"),
        (DATASET, "Registered starter-suite\n"),
        (("registry", "dataset-list"), "starter-suite  ../suites/starter_suite.json\n"),
        (("registry", "baseline-set", *BASELINE), "main is now run run-1\n"),
        (PROMOTED, "main is now run run-1, a-"),
        (("registry", "log"), "2  2026-06-01T00:00:00+00:00  baseline-promote"),
        (("registry", "list", "main"), "baselines:\n  main  run-1  ../runs/baseline\napprovals:"),
        (("registry", "verify"), "3 changes, all in order.\n"),
    ):
        assert cli.out(*words).startswith(said)
    assert cli.out("registry", "approval-list").endswith("main  run-1  qa  why\n")
    assert "run_path: ../runs/baseline" in cli.out("registry", "baseline-show", "--name", "main").splitlines()


def test_a_waiver_is_revoked_and_no_longer_active(cli: Shell) -> None:
    until = "2026-12-01T00:00:00+00:00"
    waiver_id = cli.json("registry", *WAIVER, "--expires-at", until)["waiver"]["waiver_id"]
    assert cli.out("registry", "waiver-list", "--baseline-name", "main").startswith(waiver_id)
    revoked = cli.out("registry", "waiver-revoke", waiver_id, "--approved-by", "lead")
    assert revoked == f"Revoked {waiver_id}\n"
    assert cli.json("registry", "list")["waivers"] == []
    assert cli.json("registry", "list", "--all")["waivers"][0]["waiver_id"] == waiver_id
    assert "Name the waiver" in cli.error("registry", "waiver-revoke", "--approved-by", "lead")["message"]
    assert cli.json("registry", "waiver-list")["waivers"][0]["revoked_by"] == "lead"
    assert cli.out("registry", *WAIVER).startswith("Added w-")


def test_what_cannot_be_accepted_is_an_error_with_a_remedy(cli: Shell) -> None:
    error = cli.error("registry", *WAIVER, "--expires-at", "2026-12-01T10:00:00")
    assert "offset" in error["details"]["remedy"]
    assert cli.error("registry", "baseline-show", "--name", "nope")["code"] == "validation_error"
    cli.error("registry", "baseline-set", "--name", "main", "--run", "runs/none")


def test_verify_says_no_when_something_pinned_changed(cli: Shell, here: Path) -> None:
    cli.json(*DATASET)
    (here / "suites" / "starter_suite.json").write_text("{}")
    assert "is not what was registered" in cli.out("registry", "verify", code=1)


def test_hostile_words_do_not_reach_the_terminal(cli: Shell) -> None:
    words = [word if word != "case-42" else "\x1b[31mred\nw-2  forged" for word in WAIVER]
    cli.json("registry", *words)
    shown = cli.out("registry", "waiver-list")
    assert ("\x1b" in shown, shown.count("\n")) == (False, 1)
