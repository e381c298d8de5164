"""What each command prints, as JSON and as prose."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_eval.cli.main import main
from agent_eval.evidence.archive import write_bundle
from agent_eval.judges.catalog import DEFAULT_JUDGES
from tests.unit.cli.shell import EXAMPLES, Shell, Terminal

pytestmark = pytest.mark.usefixtures("pinned")

GOOD, BAD = str(EXAMPLES / "suite_good.json"), str(EXAMPLES / "suite_bad.json")


def test_the_whole_way_in_prose(cli: Shell) -> None:
    shown = cli.out("run", "--suite", GOOD, "--out", "baseline")
    assert "3" in shown
    assert "Evidence: baseline" in shown
    cli.out("run", "--suite", BAD, "--out", "candidate")
    shown = cli.out("compare", "--baseline", "baseline", "--candidate", "candidate")
    assert "2 regressed" in shown
    assert "Comparison: candidate/compare/baseline_delta.json" in shown
    delta = "candidate/compare/baseline_delta.json"
    shown = cli.out("gate", "--compare", delta, "--max-regressed-cases", "1", code=1)
    assert "Decision: candidate/compare/gate_decision.json" in shown
    shown = cli.out("gate", "--compare", delta, "--max-regressed-cases", "2")
    assert shown.startswith("✅ Every threshold holds\n")
    shown = cli.out("report", "markdown", "--compare", delta, "--out", "report.md")
    assert shown == "Wrote report.md\n"


def test_run__ends_like_a_test_runner(here: Path, cli: Shell) -> None:
    runs = ("run", "--suite", BAD, "--out")
    shown = cli.out(*runs, "some")
    first, second, *_ = shown.split("FAILED ")[1:]
    assert " ".join(first.split()).startswith(
        "book-train: tool_contract: book_train was called without required argument"
    )
    assert (here / first.splitlines()[-1].strip()).is_file()
    assert second.startswith("quote-change: policy: ")
    assert "\n1 of 3 cases passed (33.3%).\n" in shown
    assert cli.out(*runs, "none", "-q").startswith("1 of 3 cases passed (33.3%).\n")


def test_run__lists_ten_cases_unless_all_are_wanted(here: Path, cli: Shell) -> None:
    suite = json.loads(Path(BAD).read_text())
    (case,) = [case for case in suite["cases"] if case["case_id"] == "book-train"]
    suite["cases"] = [{**case, "case_id": f"case-{number:02}"} for number in range(12)]
    (here / "many.json").write_text(json.dumps(suite))
    runs = ("run", "--suite", "many.json", "--out")
    shown = cli.out(*runs, "some")
    assert (shown.count("FAILED "), "and 2 more; --verbose lists them\n" in shown) == (10, True)
    assert cli.out(*runs, "all", "-v").count("FAILED ") == 12
    assert "--verbose or --quiet, not both" in cli.err(*runs, "both", "-v", "-q")


@pytest.mark.usefixtures("examples")
def test_on_a_terminal_the_result_is_prose_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    for environ, coloured in (({"TERM": "xterm"}, True), ({"NO_COLOR": "1"}, False)):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        screen = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", screen)
            assert main(["compare", "--baseline", "good", "--candidate", "bad"]) == 0
        assert "2 regressed" in screen.getvalue()
        assert ("\x1b[" in screen.getvalue()) == coloured


@pytest.mark.usefixtures("examples")
def test_report__shows_the_decision_and_a_replay(here: Path, cli: Shell) -> None:
    cli.json("gate", "--compare", "bad", "--min-pass-rate", "1", "--out", "gate.json", code=1)
    (here / "replay.json").write_text('{"passed": true}')
    report = ("report", "markdown", "--compare", "bad", "--replay", "replay.json")
    cli.json(*report, "--gate", "gate.json", "--out", "report.md")
    text = (here / "report.md").read_text(encoding="utf-8")
    assert text.startswith("## ❌ 2 of 3 cases regressed · ")
    assert "**1 of 3 passed (33.3%), below min_pass_rate 100%.**" in text
    assert "eplay" in text
    (here / "replay.json").write_text("[]")
    assert "replay.json" in cli.err(*report, "--out", "r.md")


def test_schema__prose_names_place_and_remedy(here: Path, cli: Shell) -> None:
    (here / "s.json").write_text(
        json.dumps({"dataset_id": "d", "cases": [{"case_id": "a\x1b[2J", "colour": 1, "expected": 2}]})
    )
    shown = cli.out("schema", "validate", "--input", "s.json", "--strict", code=1)
    assert shown.startswith("s.json is not valid: 1 case, schema version not stated.\n")
    assert "error: $.cases[0].colour" in shown
    assert "\x1b" not in shown
    shown = cli.out("schema", "validate", "--input", "s.json")
    assert "  warning: " in shown


@pytest.mark.parametrize(
    ("fields", "judge", "place"),
    [
        ({"regex_patterns": ["("]}, "regex", "regex_patterns[0]"),
        ({"json_schema": {"typ": "object"}}, "json_schema", "json_schema"),
        ({"metadata": {"final_output": {"mode": "exactly"}}}, "final_output", "metadata.final_output.mode"),
        ({"metadata": {"llm": {"criteria": ["polite"]}}}, "llm", "metadata.llm"),
        ({"metadata": {"strict": [{"strict": "x"}]}}, "strict", "metadata.strict[0].strict"),
        ({"metadata": {"allowed_tools": 7}}, "prompt_injection", "metadata.allowed_tools"),
    ],
)
def test_validate__says_what_a_run_refuses(
    fields: dict[str, object], judge: str, place: str, here: Path, cli: Shell
) -> None:
    trace = [{"idx": 0, "actor": "agent", "type": "message", "output": "y"}]
    case = {"case_id": "a", "input": "x", "trace": trace, **fields}
    header = {"dataset_id": "d", "schema_version": "1.2.0"}
    (here / "s.json").write_text(json.dumps({**header, "cases": [case]}))
    refused = cli.error("run", "--suite", "s.json", "--out", "r", "--judge", judge)
    is_warning = judge not in DEFAULT_JUDGES
    report = cli.json("validate", "s.json", code=0 if is_warning else 1)
    (problem,) = report["errors"] + report["warnings"]
    assert report["warnings" if is_warning else "errors"] == [problem]
    assert problem["place"] == f"$.cases[0].{place}"
    assert problem["remedy"] == refused["details"]["remedy"]
    assert problem["message"].partition(", which a run")[0] in refused["message"]
    assert (f"with the judge {judge} refuses" in problem["message"]) == is_warning


def test_schema__several_suites_are_checked_at_once_and_one_fault_is_exit_1(here: Path, cli: Shell) -> None:
    case = {"case_id": "a", "input": "?"}
    for name, cases in {"one.json": [case], "twice.json": [case, case]}.items():
        (here / name).write_text(json.dumps({"dataset_id": "d", "cases": cases}))
    report = cli.json("schema", "validate", "one.json", "twice.json", code=1)
    found = {suite["input"]: suite["passed"] for suite in report["suites"]}
    assert (report["passed"], found) == (False, {"one.json": True, "twice.json": False})
    shown = cli.out("schema", "validate", "--input", "one.json", "twice.json", code=1)
    assert "one.json is valid" in shown
    assert "twice.json is not valid" in shown
    assert cli.json("schema", "validate", "one.json")["input"] == "one.json"
    assert "Name a suite" in cli.err("schema", "validate")


def test_schema__prose_counts_what_it_does_not_list(here: Path, cli: Shell) -> None:
    cases = [{"case_id": str(number), "input": 1, "trace": 7} for number in range(205)]
    (here / "s.jsonl").write_text("\n".join(json.dumps(line) for line in ({"dataset_id": "d"}, *cases)))
    shown = cli.out("schema", "validate", "--input", "s.jsonl", code=1)
    assert "… and 5 more errors" in shown
    assert "error: line 2: " in shown


@pytest.mark.parametrize("target", ["new.json", "new.jsonl"])
def test_schema__migrates_and_says_so(target: str, here: Path, cli: Shell) -> None:
    (here / "old.json").write_text('{"dataset_id": "d", "cases": [{"case_id": "a", "expected": "é"}]}')
    migrate = ("schema", "migrate", "--input", "old.json", "--output", target)
    assert cli.json(*migrate)["validation"]["passed"] is True
    assert cli.out(*migrate).startswith(f"Wrote {target}\n{target} is valid: ")
    assert '"expected_output"' in (here / target).read_text(encoding="utf-8")
    report = cli.json("schema", "validate", "--input", target, "--strict", "--require-version", "1.2.0")
    assert report["passed"] is True


def test_schema__a_migrated_suite_that_is_still_wrong_is_exit_1(here: Path, cli: Shell) -> None:
    (here / "old.json").write_text('{"dataset_id": "d", "cases": [{"case_id": "a"}, {"case_id": "a"}]}')
    done = cli.json("schema", "migrate", "--input", "old.json", "--output", "new.json", code=1)
    assert done["validation"]["error_count"] == 1


@pytest.mark.parametrize(
    ("text", "target", "field"),
    [
        ('{"dataset_id": "d", "schema_version": "7.0.0", "cases": []}', "new.json", "schema_version"),
        ('{"dataset_id": "d", "cases": []}', "new.toml", None),
    ],
)
def test_schema__refuses_what_cannot_be_migrated(
    text: str, target: str, field: str | None, here: Path, cli: Shell
) -> None:
    (here / "old.json").write_text(text)
    details = cli.error("schema", "migrate", "--input", "old.json", "--output", target)["details"]
    assert details["file"] == (target if field is None else "old.json")
    assert not (here / target).exists()


def test_import__says_where_all_that_it_changed_is_listed(here: Path, cli: Shell) -> None:
    answer = {"role": "assistant", "content": "sk-proj-" + "a1B2" * 10}
    records = [{"messages": [{"role": "user", "content": f"Hi {number}"}, answer]} for number in range(11)]
    (here / "dump.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    *_, more, where = cli.out("import", "dump.jsonl", "--out", "suite.jsonl").splitlines()
    assert (more, where) == ("  … and 1 more diagnostic", "  All of it is in suite.losses.jsonl.")
    assert len((here / "suite.losses.jsonl").read_text().splitlines()) == 11


def test_import__lists_what_was_lost_and_says_where_all_of_it_is(here: Path, cli: Shell) -> None:
    record = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    (here / "dump.jsonl").write_text(json.dumps(record) + "\n" + "no JSON\n" * 30)
    wrote, _, *lost, more, where = cli.out("import", "dump.jsonl", "--out", "suite.jsonl").splitlines()
    assert wrote == "Wrote suite.jsonl: 1 case, 2 events, 0 tool calls, 0 results, 0 errors."
    assert [line.partition(": cannot be read")[0] for line in lost] == [
        f"  lost: dump.jsonl:{number}" for number in range(2, 12)
    ]
    assert (more, where) == ("  … and 20 more diagnostics", "  What was lost is in suite.losses.jsonl.")
    assert len((here / "suite.losses.jsonl").read_text().splitlines()) == 30
    # As a shell expands `suite*.jsonl`.
    assert cli.out("validate", "suite.jsonl", "suite.losses.jsonl").startswith("suite.jsonl is valid: 1 case")
    assert cli.json("run", "suite.jsonl", "suite.losses.jsonl", "--out", "a")["pack"] == "a"


@pytest.mark.usefixtures("examples")
def test_pack__verify_and_convert_in_prose(here: Path, cli: Shell) -> None:
    shown = cli.out("pack", "verify", "--run", "good")
    assert shown.startswith("Verified good: run good of travel-desk\n3 cases in ")
    shown = cli.out("pack", "compact", "--run", "good", "--out", "c")
    assert "layout compact" in shown
    cli.json("pack", "expand", "--run", "c", "--out", "e")
    for path in (here / "good").rglob("*"):
        other = here / "e" / path.relative_to(here / "good")
        assert path.is_dir() or path.read_bytes() == other.read_bytes()
    assert "and 1 added later" in cli.out("pack", "verify", "--run", "bad")
    made = cli.json("pack", "compact", "--run", "bad", "--out", "c")
    assert made["left_behind"] == ["compare/baseline_delta.json"]
    shown = cli.out("pack", "expand", "--run", "bad", "--out", "e")
    assert "Not converted, since derived from the old pack: compare/baseline_delta.json" in shown


def test_run__judge_configuration_from_yaml_is_recorded_for_the_judges_that_ran(
    here: Path, cli: Shell
) -> None:
    (here / "judges.yaml").write_text("policy: {hard: false}\nregex: {hard: false}\n")
    run = ("run", "--suite", BAD, "--out", "pack", "--judge", "policy", "--judge-config", "judges.yaml")
    summary = cli.json(*run)["summary"]
    assert (summary["failed_cases"], summary["hard_fail_cases"]) == (1, 0)
    config = json.loads((here / "pack/run/config.json").read_text())
    assert config["judge_configs"] == {"policy": {"hard": False}}


def test_run__the_commit_is_that_of_the_checkout_whatever_a_variable_says(
    here: Path, cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ("git", "-c", "user.name=ana", "-c", "user.email=ana@example.com")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    monkeypatch.setenv("GITHUB_SHA", "a" * 40)
    cli.json("run", "--suite", GOOD, "--out", "pack")
    assert json.loads((here / "pack/run/config.json").read_text())["git_commit"] == head.strip()


@pytest.mark.usefixtures("examples")
def test_compare__an_archive_with_several_packs_is_refused(here: Path, cli: Shell) -> None:
    write_bundle({"one": here / "good", "two": here / "bad"}, here / "both.zip")
    assert "one, two" in cli.error("pack", "verify", "--run", "both.zip")["message"]


@pytest.mark.parametrize(
    ("configured", "note"),
    [
        (["policy", "tool_abuse", "loop_guard"],
         "tool_abuse and loop_guard are configured but do not run; name them with --judge."),
        (["tool_abuse"], "tool_abuse is configured but does not run; name it with --judge."),
        (["policy", "final_output"], ""),
    ],
)  # fmt: skip
def test_a_judge_that_is_configured_and_does_not_run_is_named(
    configured: list[str], note: str, cli: Shell
) -> None:
    Path("judges.json").write_text(json.dumps({name: {"hard": True} for name in configured}))
    run = ("run", "--suite", GOOD, "--judge-config", "judges.json")
    out, err = cli.run(*run, "--out", "first")
    assert [line for line in err.splitlines() if "configured" in line] == [note] * bool(note)
    assert "configured" not in out
    named = [flag for name in configured for flag in ("--judge", name)]
    assert "configured" not in cli.run(*run, "--out", "second", *named)[1]
