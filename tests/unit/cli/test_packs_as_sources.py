"""`gate` and `report markdown` take a pack: for the comparison in it, or for the run alone; `-` is stdout."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_eval.cli.main import main
from agent_eval.evidence.archive import write_bundle
from agent_eval.evidence.derived import STDOUT, write_output
from agent_eval.evidence.reader import open_pack
from tests.unit.cli.shell import EXAMPLES, Shell, Terminal

pytestmark = pytest.mark.usefixtures("examples")


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--baseline", "good", "--candidate"),
        ("replay", "--run"),
        ("show",),
        ("rejudge", "--out", "again", "--run"),
        ("attest", "--run"),
        ("gate-health",),
        ("history",),
        ("export-junit", "--out", "junit.xml", "--run"),
    ],
    ids=lambda words: words[0],
)
def test_a_file_of_a_pack_is_told_from_a_pack_with_which_to_give(words: tuple[str, ...], cli: Shell) -> None:
    error = cli.error(*words, "good/run/summary.json")
    assert error["message"].startswith("good/run/summary.json is not a pack, but a file of the pack ")
    assert error["details"]["remedy"] == f"Give {Path('good').resolve()}."
    if words != ("show",):  # it tells what any file is
        assert "is not a pack" in cli.error(*words, str(EXAMPLES / "suite_good.json"))["message"]


def test_a_pack_stands_for_the_comparison_in_it(cli: Shell) -> None:
    decision = cli.json("gate", "--compare", "bad", "--max-regressed-cases", "0", code=1)
    assert decision["baseline_run_id"] is not None
    assert decision["gate_report"] == "bad/compare/gate_decision.json"
    report = cli.out("report", "markdown", "--compare", "bad", "--out", "-")
    assert "quote-change" in report


@pytest.mark.parametrize("command", [("gate", "--min-pass-rate", "1"), ("report", "markdown", "--out", "-")])
def test_a_pack_without_a_comparison_says_how_to_make_one(command: tuple[str, ...], cli: Shell) -> None:
    found = cli.error(*command, "--compare", "good")
    assert "good has no comparison" in found["message"]
    assert "compare --baseline PACK --candidate good" in found["details"]["remedy"]
    assert "--run good" in found["details"]["remedy"]


def test_a_run_alone_is_decided_by_the_rules_that_need_no_baseline(cli: Shell) -> None:
    rules = ("--min-pass-rate", "0.9", "--max-regressed-cases", "0")
    assert cli.json("gate", "--run", "good", *rules)["gate_status"] == "passed"
    decision = cli.json("gate", "--run", "bad", *rules, code=1)
    assert [(rule["rule"], rule["applied"]) for rule in decision["rules"]] == [
        ("min_pass_rate", True),
        ("max_regressed_cases", False),
    ]
    assert decision["gate_report"] == "bad/compare/run_decision.json"
    open_pack(Path("bad"))  # it still verifies


def test_a_policy_has_its_absolute_rules_too(cli: Shell) -> None:
    Path("gate.yml").write_text("preset: release\nmin_pass_rate: 0.9\n")
    assert "below min_pass_rate 90%" in cli.out("gate", "--run", "bad", "--config", "gate.yml", code=1)
    assert cli.out("gate", "--run", "bad", "--config", "gate.yml", "--min-pass-rate", "0.1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--run", "good", "--preset", "release"), "no rule can be held against a run alone"),
        (("--run", "good", "--max-regressed-cases", "0"), "no rule can be held against a run alone"),
        (("--run", "good", "--compare", "bad", "--min-pass-rate", "1"), "one of the two"),
        (("--min-pass-rate", "1"), "one of the two"),
        (("--run", "good", "--baseline", "bad", "--min-pass-rate", "1"), "compared with none"),
        (("--run", "good", "--min-pass-rate", "1", "--apply-waivers"), "compared with none"),
    ],
)
def test_a_gate_without_anything_to_hold_is_refused(words: tuple[str, ...], message: str, cli: Shell) -> None:
    assert message in cli.error("gate", *words)["message"]


def test_a_report_of_one_run_says_how_many_pass_and_why_the_others_do_not(
    cli: Shell, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-01-14T10:00:00+00:00")
    pinned = ["run", str(EXAMPLES / "suite_bad.json"), "--out", "pinned", "--run-id", "now"]
    pinned += ["--git-commit", "0" * 40]
    assert main(pinned) == 0
    cli.out("gate", "--run", "pinned", "--min-pass-rate", "0.9", code=1)
    decision = "pinned/compare/run_decision.json"
    alone = cli.out("report", "markdown", "--run", "pinned", "--gate", decision, "--out", "-")
    golden("report_of_a_run.md", re.sub(r"[0-9a-f]{64}", "(a digest)", alone))
    undecided = cli.out("report", "markdown", "--run", "good", "--out", "-", "--title", "Nightly")
    assert undecided.startswith("## Nightly\n\n3 of 3 cases passed (100%)\n")
    assert "no baseline" not in undecided


def test_a_report_of_one_run_refuses_the_decision_on_another(cli: Shell) -> None:
    cli.out("gate", "--compare", "bad", "--max-regressed-cases", "0", code=1)
    cli.out("gate", "--run", "good", "--min-pass-rate", "0.9")
    for decision in ("bad/compare/gate_decision.json", "good/compare/run_decision.json"):
        words = ("report", "markdown", "--run", "bad", "--gate", decision, "--out", "r.md")
        assert "was not decided on this run alone" in cli.error(*words)["message"]
        assert not Path("r.md").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("compare", "--baseline", "good", "--candidate", "bad"), 0),
        (("gate", "--compare", "bad", "--max-regressed-cases", "0"), 1),
        (("gate", "--run", "bad", "--min-pass-rate", "1"), 1),
        (("replay", "--run", "good"), 0),
        (("stability-check", "--suite", str(EXAMPLES / "suite_good.json")), 0),
    ],
)
def test_a_dash_prints_the_file_and_nothing_else(words: tuple[str, ...], code: int, cli: Shell) -> None:
    to_stdout = json.loads(cli.out(*words, "--out", "-", code=code))
    assert not Path("-").exists()
    cli.out(*words, "--out", "file.json", code=code)
    volatile = dict.fromkeys(("generated_at", "created_at"))
    assert json.loads(Path("file.json").read_text()) | volatile == to_stdout | volatile


def test_what_a_terminal_obeys_is_not_printed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    write_output(STDOUT, b"a\x1b[2J\n  b\n")
    assert screen.getvalue() == "a[2J\n  b\n"


def test_a_config_overrides_what_a_policy_says_and_both_hold_the_same_keys(cli: Shell) -> None:
    Path("gate.yml").write_text("min_pass_rate: 0.9\nmax_hard_fail_rate: 1\n")
    Path("mine.json").write_text('{"min_pass_rate": 0.3, "max_regressed_cases": 2}')
    gate = ("gate", "--compare", "bad", "--baseline", "good")
    cli.out(*gate, "--config", "gate.yml", code=1)
    decision = cli.json(*gate, "--set", "policy=gate.yml", "--config", "mine.json")
    assert decision["decided_by"] == "policy"
    assert {name: limit for name, limit in decision["thresholds"].items() if limit is not None} == {
        "min_pass_rate": 0.3,
        "max_hard_fail_rate": 1.0,
        "max_regressed_cases": 2,
    }


def test_a_key_that_is_gone_comes_with_what_replaces_it(cli: Shell) -> None:
    Path("gate.yml").write_text("thresholds: {min_pass_rate: 0.9}\n")
    found = cli.error("gate", "--compare", "bad", "--config", "gate.yml")
    assert found["message"] == "gate.yml: thresholds is gone"
    assert "`min_pass_rate: 0.9`" in found["details"]["remedy"]


def test_a_release_is_not_decided_on_packs_that_the_comparison_alone_names(cli: Shell) -> None:
    found = cli.error("gate", "--compare", "bad", "--preset", "release")
    assert "a release is not decided on a baseline that only" in found["message"]


def test_a_report_is_printed_unless_a_file_is_named(cli: Shell) -> None:
    assert cli.out("report", "markdown", "--run", "good").startswith("## Agent Eval Report\n")


@pytest.mark.parametrize("command", ["export-junit", "export-csv", "export-otel"])
def test_an_export_goes_to_stdout_as_into_a_file(command: str) -> None:
    assert main([command, "--run", "bad", "--out", "file"]) == 0
    words = [sys.executable, "-m", "agent_eval", command, "--run", "bad", "--out", "-"]
    assert subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout == Path("file").read_bytes()
    assert not Path("-").exists()


@pytest.mark.parametrize("command", ["export-junit", "export-csv", "export-otel"])
def test_an_export_on_a_screen_has_nothing_that_it_obeys(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    assert main([command, "--run", "bad", "--out", "-"]) == 0
    assert "book-train" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()


@pytest.mark.parametrize("command", [["gate", "--max-regressed-cases", "0"], ["report", "markdown"]])
def test_an_archive_in_place_of_a_comparison_is_called_that(command: list[str], cli: Shell) -> None:
    write_bundle({"bad": Path("bad")}, Path("evidence.zip"))
    refused = cli.error(*command, "--compare", "evidence.zip")
    assert "is an archive of evidence" in refused["message"]
    assert "Unpack it" in refused["details"]["remedy"]
