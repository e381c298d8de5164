"""`agent-eval show`: a trajectory with the verdicts at the events that they rest on."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_eval.cli.main import main
from agent_eval.evidence.reader import open_pack
from agent_eval.reports.terminal import RED, painted
from agent_eval.reports.trajectory import trajectory_text
from tests.factories import make_case, make_config, make_pack, make_result, make_suite, make_trace
from tests.unit.cli.shell import EXAMPLES, Shell


@pytest.fixture
def pack() -> str:
    assert main(["run", str(EXAMPLES / "suite_bad.json"), "--out", "runs/a"]) == 0
    return "runs/a"


def test_a_verdict_is_beneath_the_event_that_it_rests_on(pack: str, cli: Shell) -> None:
    lines = cli.out("show", pack, "book-train").splitlines()
    assert lines[0] == "book-train: failed"
    call = lines.index('   1 agent        book_train({"departure": "09:12"})')
    assert lines[call + 1].startswith(
        "     NO tool_contract: book_train was called without required argument"
    )
    assert lines[call + 2].startswith("   2 tool         book_train → ")
    assert "  ok policy: 1 tool rule kept" in lines
    assert "  -- regex: the case has no patterns" in lines


def test_only_what_fails_is_red(pack: str) -> None:
    opened = open_pack(Path(pack))
    case, row = opened.trajectory("book-train"), opened.results_by_id()["book-train"]
    lines = trajectory_text(case, case.trace, row, colour=True)
    assert "  -- regex: the case has no patterns" in lines
    assert any(line.startswith(f"     {painted('NO', RED, True)} tool_contract") for line in lines)


def test_without_a_case_those_that_did_not_pass_are_listed(pack: str, cli: Shell) -> None:
    assert cli.out("show", pack).splitlines()[:3] == [
        "2 of 3 cases did not pass. Name one to see its trajectory.",
        "  book-train: failed",
        "  quote-change: failed",
    ]
    listed = cli.json("show", pack)
    wanted = {"kind": "evidence pack", "complete": True, "total_cases": 3}
    assert listed | wanted | {"failing": ["book-train", "quote-change"]} == listed


def test_programs_get_result_and_trace(pack: str, cli: Shell) -> None:
    found = cli.json("show", pack, "book-train")
    assert (found["case_id"], found["result"]["outcome"]) == ("book-train", "failed")
    assert [event["idx"] for event in found["trace"]] == [0, 1, 2, 3]


def test_a_case_that_is_not_there_is_a_wrong_request(pack: str, cli: Shell) -> None:
    error = cli.err("show", pack, "book-trains")
    assert "no case 'book-trains'" in error
    assert "Did you mean 'book-train'?" in error
    assert "Did you mean" not in cli.err("show", pack, "weather")


def test_a_pack_that_was_changed_is_not_shown(pack: str, cli: Shell) -> None:
    Path(pack, "cases", "book-train", "trajectory.json").write_text("{}")
    assert cli.out("show", pack, "book-train", code=2) == ""


TRIALS = ["shipped", "lost", "stolen"]
"""What the agent says in each trial; only the first is right."""


def several_trials(root: Path, said: Sequence[str] = TRIALS) -> str:
    """A pack of one case with a trial for each text."""
    traces = [make_trace(output=text) for text in said]
    case = {**make_case("status", output=said[0]), "trace": traces[0], "regex_patterns": ["shipped"]}
    case["trials"] = [{"trace": trace} for trace in traces[1:]]
    (root / "suite.json").write_text(json.dumps(make_suite(case)))
    assert main(["run", "--suite", str(root / "suite.json"), "--out", str(root / "trials")]) == 0
    return str(root / "trials")


def test_the_first_line_says_which_of_several_trials_is_shown(tmp_path: Path, cli: Shell) -> None:
    pack = several_trials(tmp_path)
    first, *rest = cli.out("show", pack, "status").splitlines()
    assert first == "status: failed (1 of 3 trials passed; this is trial 2; others: --trial 1, 3)"
    assert any("lost" in line for line in rest)
    first, *rest = cli.out("show", pack, "status", "--trial", "1").splitlines()
    assert first == ("status: failed (1 of 3 trials passed; this is trial 1: passed; others: --trial 2, 3)")
    assert any("shipped" in line for line in rest)
    assert not any(line.lstrip().startswith("NO") for line in rest)
    assert "stolen" in cli.out("show", pack, "status", "--trial", "3")


def test_programs_get_the_trial_that_they_name(tmp_path: Path, cli: Shell) -> None:
    pack = several_trials(tmp_path)
    found = cli.json("show", pack, "status", "--trial", "1")
    assert (found["result"]["trial"], found["result"]["outcome"]) == (0, "passed")
    assert found["trace"][-1]["output"] == "shipped"


def test_many_trials_are_not_all_named(tmp_path: Path, cli: Shell) -> None:
    pack = several_trials(tmp_path, ["shipped"] * 12)
    first = cli.out("show", pack, "status").splitlines()[0]
    assert first == "status: passed (12 of 12 trials passed; this is trial 1; others: --trial 1 to 12)"


def test_a_trial_that_is_not_there_is_a_wrong_request(tmp_path: Path, cli: Shell) -> None:
    pack = several_trials(tmp_path)
    assert "case 'status' has 3 trials, and no trial 4" in cli.err("show", pack, "status", "--trial", "4")
    assert "Name the case" in cli.err("show", pack, "--trial", "1")
    assert "Did you mean 'status'?" in cli.err("show", pack, "statsu", "--trial", "2")


@pytest.mark.parametrize(
    ("execution", "has"),
    [
        ({}, "2 trials (2 cases), and further cases did not run."),
        ({"trials": 3}, "2 of at least 6 trials (2 cases)."),
    ],
)
def test_a_run_that_was_stopped_is_not_taken_for_a_whole_one(
    execution: dict[str, int], has: str, cli: Shell
) -> None:
    config = make_config(execution_config=execution)
    root = make_pack(Path("pack"), [make_result("a"), make_result("b")], config=config)
    manifest = root / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"complete": true', '"complete": false'))
    for words in (("show", "pack"), ("show", "pack", "a")):
        assert cli.out(*words).splitlines()[0] == f"This run is not complete: the pack has {has}"
        assert cli.json(*words)["complete"] is False


def test_where_all_passed_that_is_said(cli: Shell) -> None:
    make_pack(Path("pack"), [make_result("a")])
    assert cli.out("show", "pack").startswith("All 1 case passed.")


def test_an_agent_cannot_drive_the_terminal(tmp_path: Path, cli: Shell) -> None:
    evil = "\x1b[2J::error::x ##[add-mask]y"
    cases = [make_case("a", output=evil)]
    whole = make_pack(tmp_path / "pack", [make_result("a", failed="policy")], cases=cases)
    text = cli.out("show", str(whole), "a")
    assert "[2J" in text
    for obeyed in ("\x1b", "::", "##["):
        assert obeyed not in text


FAILING_JUDGE = """import sys
print("Traceback:\\n  \\x1b[31mline 3", file=sys.stderr)
sys.exit("judge model is down: 503")
"""


def test_an_error_of_a_judge_is_no_failure_and_shows_whose_fault_it_is_and_what_the_judge_wrote(
    tmp_path: Path, cli: Shell
) -> None:
    Path("judge.py").write_text(FAILING_JUDGE)
    config = {"command": {"command": [sys.executable, str(tmp_path / "judge.py")]}}
    Path("judges.json").write_text(json.dumps(config))
    Path("suite.json").write_text(json.dumps(make_suite(make_case("status"))))
    main(["run", "suite.json", "--out", "lost", "--judges", "command", "--judge-config", "judges.json"])
    text = cli.out("show", "lost", "status")
    assert text.startswith("status: error (the judge's fault, not the agent's)\n")
    assert "!! command: the checker exited with code 1: judge model is down: 503\n" in text
    assert "stderr: Traceback:\n" in text
    assert "stderr:   [31mline 3\n" in text
    assert "NO " not in text
    listed = cli.out("show", "lost")
    assert "  status: error (the judge's fault, not the agent's)" in listed
