"""`agent-eval show`: a trajectory with the verdicts at the events that they rest on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_eval.cli.main import main
from tests.factories import make_case, make_pack, make_result

REPOSITORY = Path(__file__).resolve().parents[3]
BAD = str(REPOSITORY / "examples" / "suite_bad.json")


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--suite", BAD, "--out", "runs/a"]) == 0
    capsys.readouterr()
    return "runs/a"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["show", *arguments]) == code
    return capsys.readouterr().out


def test_a_verdict_is_beneath_the_event_that_it_rests_on(
    pack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(capsys, pack, "book-train", "--format", "text").splitlines()
    assert lines[0] == "book-train: failed"
    call = lines.index('   1 agent        book_train({"departure": "09:12"})')
    assert lines[call + 1].startswith(
        "     NO tool_contract: book_train was called without required argument"
    )
    assert lines[call + 2].startswith("   2 tool         book_train → ")
    assert "  ok policy: 1 tool rule kept" in lines
    assert "  -- regex: the case has no patterns" in lines


def test_without_a_case_those_that_did_not_pass_are_listed(
    pack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, pack, "--format", "text").splitlines() == [
        "2 of 3 cases did not pass. Name one to see its trajectory.",
        "  book-train: failed",
        "  quote-change: failed",
    ]
    assert json.loads(shown(capsys, pack)) == {"total_cases": 3, "failing": ["book-train", "quote-change"]}


def test_programs_get_result_and_trace(pack: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(capsys, pack, "book-train"))
    assert (found["case_id"], found["result"]["outcome"]) == ("book-train", "failed")
    assert [event["idx"] for event in found["trace"]] == [0, 1, 2, 3]


def test_a_case_that_is_not_there_is_a_wrong_request(pack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", pack, "book-trains"]) == 2
    assert "no case 'book-trains'" in capsys.readouterr().err


def test_a_pack_that_was_changed_is_not_shown(pack: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(pack, "cases", "book-train", "trajectory.json").write_text("{}")
    assert main(["show", pack, "book-train"]) == 2
    assert capsys.readouterr().out == ""


def test_where_all_passed_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = make_pack(tmp_path / "pack", [make_result("a")])
    assert shown(capsys, str(whole), "--format", "text").startswith("All 1 case passed.")


def test_an_agent_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2J::error::x ##[add-mask]y"
    cases = [make_case("a", output=evil)]
    whole = make_pack(tmp_path / "pack", [make_result("a", failed="policy")], cases=cases)
    text = shown(capsys, str(whole), "a", "--format", "text")
    assert "[2J" in text
    for obeyed in ("\x1b", "::", "##["):
        assert obeyed not in text
