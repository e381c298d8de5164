"""`registry waiver-add` knows the cases of a baseline where its pack or suite is there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from tests.unit.cli.shell import Shell

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "suite_good.json"
WAIVER = ("registry", "waiver-add", "--baseline-name", "main", "--reason", "known", "--approved-by", "qa")


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, "suite.json")
    assert main(["run", "suite.json", "--out", "pack"]) == 0
    assert main(["registry", "baseline-set", "--name", "main", "--run", "pack"]) == 0
    capsys.readouterr()


def added(capsys: pytest.CaptureFixture[str], case_id: str, *words: str, code: int = 0) -> Any:
    assert main([*WAIVER, "--case-id", case_id, *words, "--format", "json"]) == code
    ended = capsys.readouterr()
    return json.loads(ended.out or ended.err)


def test_a_case_of_the_baseline_can_be_waived(capsys: pytest.CaptureFixture[str]) -> None:
    assert added(capsys, "book-train")["note"] == ""


def test_a_case_that_is_misspelt_is_refused_with_the_nearest(
    cli: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    error = added(capsys, "book-trian", code=2)["error"]
    assert error["message"] == "baseline 'main' has no case 'book-trian'"
    assert "Did you mean 'book-train'?" in error["details"]["remedy"]
    assert cli.json("registry", "waiver-list")["count"] == 0


def test_a_case_that_only_the_registered_suite_has_can_be_waived(capsys: pytest.CaptureFixture[str]) -> None:
    suite = json.loads(EXAMPLE.read_text())
    suite["cases"].append({**suite["cases"][0], "case_id": "book-trains"})
    Path("suite.json").write_text(json.dumps(suite))
    assert "dataset-add" in added(capsys, "book-trains", code=2)["error"]["details"]["remedy"]
    assert main(["registry", "dataset-add", "--suite", "suite.json"]) == 0
    capsys.readouterr()
    assert added(capsys, "book-trains")["note"] == ""


def test_a_case_that_resembles_none_is_said_to_be_missing(
    cli: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "The baseline has no case 'zzz': the waiver applies to nothing yet."
    assert added(capsys, "zzz")["note"] == note
    assert note in cli.out(*WAIVER, "--case-id", "zzz").splitlines()


@pytest.mark.parametrize("missing", ["pack", "baseline"])
def test_what_could_not_be_checked_is_said(missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = "main"
    if missing == "pack":
        shutil.rmtree("pack")
    else:
        name = "another"
    assert "Not checked: whether 'nope'" in added(capsys, "nope", "--baseline-name", name)["note"]


def test_a_waiver_of_a_judge_says_nothing_of_cases(cli: Shell) -> None:
    assert cli.json(*WAIVER, "--judge-id", "policy")["note"] == ""


def test_a_baseline_that_is_misspelt_gets_no_waiver(cli: Shell) -> None:
    misspelt = ["mian" if word == "main" else word for word in WAIVER]
    error = cli.error(*misspelt, "--case-id", "book-train")
    assert error["message"] == "'mian' is not a registered baseline. Registered: main"
    assert "baseline-set" in error["details"]["remedy"]
    assert cli.json("registry", "waiver-list")["count"] == 0


@pytest.mark.parametrize("name", ["release", "main-2"])
def test_a_baseline_to_come_may_have_waivers(name: str) -> None:
    other = [name if word == "main" else word for word in WAIVER]
    assert main([*other, "--case-id", "book-train"]) == 0
