"""`registry waiver-add` knows the cases of a baseline where its pack or suite is there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.cli.shell import EXAMPLES, Shell

EXAMPLE = EXAMPLES / "suite_good.json"
WAIVER = ("registry", "waiver-add", "--baseline-name", "main", "--reason", "known", "--approved-by", "qa")


@pytest.fixture(autouse=True)
def registered(here: Path, cli: Shell) -> None:
    shutil.copy(EXAMPLE, "suite.json")
    cli.out("run", "suite.json", "--out", "pack")
    cli.out("registry", "baseline-set", "--name", "main", "--run", "pack")


def note_on(cli: Shell, case_id: str, *words: str) -> str:
    return str(cli.json(*WAIVER, "--case-id", case_id, *words)["note"])


def test_a_case_of_the_baseline_can_be_waived(cli: Shell) -> None:
    assert note_on(cli, "book-train") == ""


def test_a_case_that_is_misspelt_is_refused_with_the_nearest(cli: Shell) -> None:
    error = cli.error(*WAIVER, "--case-id", "book-trian")
    assert error["message"] == "baseline 'main' has no case 'book-trian'"
    assert "Did you mean 'book-train'?" in error["details"]["remedy"]
    assert cli.json("registry", "waiver-list")["count"] == 0


def test_a_case_that_only_the_registered_suite_has_can_be_waived(cli: Shell) -> None:
    suite = json.loads(EXAMPLE.read_text())
    suite["cases"].append({**suite["cases"][0], "case_id": "book-trains"})
    Path("suite.json").write_text(json.dumps(suite))
    assert "dataset-add" in cli.error(*WAIVER, "--case-id", "book-trains")["details"]["remedy"]
    cli.out("registry", "dataset-add", "--suite", "suite.json")
    assert note_on(cli, "book-trains") == ""


def test_a_case_that_resembles_none_is_said_to_be_missing(cli: Shell) -> None:
    note = "The baseline has no case 'zzz': the waiver applies to nothing yet."
    assert note_on(cli, "zzz") == note
    assert note in cli.out(*WAIVER, "--case-id", "zzz").splitlines()


@pytest.mark.parametrize("missing", ["pack", "baseline"])
def test_what_could_not_be_checked_is_said(missing: str, cli: Shell) -> None:
    if missing == "pack":
        shutil.rmtree("pack")
    name = "main" if missing == "pack" else "another"
    assert "Not checked: whether 'nope'" in note_on(cli, "nope", "--baseline-name", name)


def test_a_waiver_of_a_judge_says_nothing_of_cases(cli: Shell) -> None:
    assert cli.json(*WAIVER, "--judge-id", "policy")["note"] == ""


def test_a_baseline_that_is_misspelt_gets_no_waiver(cli: Shell) -> None:
    misspelt = ["mian" if word == "main" else word for word in WAIVER]
    error = cli.error(*misspelt, "--case-id", "book-train")
    assert error["message"] == "'mian' is not a registered baseline. Registered: main"
    assert "baseline-set" in error["details"]["remedy"]
    assert cli.json("registry", "waiver-list")["count"] == 0


@pytest.mark.parametrize("name", ["release", "main-2"])
def test_a_baseline_to_come_may_have_waivers(name: str, cli: Shell) -> None:
    cli.out(*(name if word == "main" else word for word in WAIVER), "--case-id", "book-train")
