"""`run` and `run-loop` with suites as arguments, several suites, and a place for the evidence."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from agent_eval.operations.resume import journal_path
from tests.unit.cli.shell import EXAMPLES, Shell

pytestmark = pytest.mark.usefixtures("pinned")

GOOD, BAD = "suites/suite_good.json", "suites/suite_bad.json"
AT = "20260114-100000"


@pytest.fixture(autouse=True)
def suites(here: Path) -> None:
    shutil.copytree(EXAMPLES, here / "suites")


def test_a_suite_needs_no_flag_and_its_evidence_no_place(cli: Shell) -> None:
    assert cli.json("run", GOOD)["pack"] == f"runs/suite_good-{AT}"
    assert cli.json("run", GOOD)["pack"] == f"runs/suite_good-{AT}-2"
    assert cli.json("run", GOOD, "--out", "x")["pack"] == "x"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((BAD, GOOD), id="arguments"),
        pytest.param(("--suite", BAD, GOOD), id="a glob that the shell expanded"),
        pytest.param(("--suite", BAD, "--suite", GOOD), id="flags"),
        pytest.param(("--suite", "suites/suite_[bg]*.json"), id="a quoted glob"),
        pytest.param(("--suite", "suites/suite_{bad,good}.{json,yaml}"), id="a glob with alternatives"),
    ],
)
def test_several_suites_have_a_pack_each(words: tuple[str, ...], cli: Shell, here: Path) -> None:
    found = cli.json("run", *words)
    assert found["not_run"] == []
    assert {run["suite"]: (run["pack"], run["summary"]["passed_cases"]) for run in found["runs"]} == {
        BAD: (f"runs/{AT}/suite_bad", 1),
        GOOD: (f"runs/{AT}/suite_good", 3),
    }
    assert (here / "runs" / AT / "suite_good" / "manifest.json").is_file()


def test_a_suite_that_a_glob_leaves_out_for_its_ending_is_said(cli: Shell, here: Path) -> None:
    (here / "suites" / "suite_great.yaml").write_text("dataset_id: new\ncases: []\n")
    (here / "suites" / "suite_gone.yaml").write_text("todo: more cases\n")
    _, err = cli.run("run", "suites/suite_b*.json", "--out", "x")
    assert err == ""
    _, err = cli.run("run", "suites/suite_g*.json", "--out", "y")
    assert err == (
        "`suites/suite_great.yaml` is a suite that `suites/suite_g*.json` does not name. To include it: "
        "`suites/suite_g*.{json,jsonl,yaml,yml}`.\n"
    )


def test_people_read_the_result_of_each_suite_under_its_name(cli: Shell) -> None:
    parts = cli.out("run", GOOD, BAD, "--out", "x", "--quiet").split("\n\n")
    assert parts[0].splitlines() == [f"{GOOD}:", "3 of 3 cases passed (100%).", "Evidence: x/suite_good"]
    assert parts[1].splitlines()[:2] == [f"{BAD}:", "1 of 3 cases passed (33.3%)."]


def test_suites_of_one_name_do_not_share_a_pack(cli: Shell, here: Path) -> None:
    shutil.copytree(here / "suites", here / "more")
    found = cli.json("run", GOOD, "more/suite_good.json", "--out", "x")
    assert [run["pack"] for run in found["runs"]] == ["x/suite_good", "x/suite_good-2"]


def test_what_was_not_run_is_said(cli: Shell, here: Path) -> None:
    (here / "broken.json").write_text("{")
    out, err = cli.run("run", GOOD, "broken.json", BAD, "--format", "json", code=2)
    found = json.loads(out)
    assert [run["suite"] for run in found["runs"]] == [GOOD]
    assert found["not_run"] == ["broken.json", BAD]
    assert "broken.json" in json.loads(err)["error"]["message"]
    assert cli.out("run", GOOD, "broken.json", BAD, code=2).endswith(f"Not run: broken.json, {BAD}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Name a suite"),
        (("suites/*.yaml",), "No suite matches 'suites/*.yaml'"),
        ((GOOD, BAD, "--case", "book-train"), "--case is about one suite"),
        ((GOOD, BAD, "--run-id", "a"), "--run-id is about one suite"),
        ((GOOD, "--agent", "recorded", "--resume"), "--resume needs --out"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: tuple[str, ...], message: str, cli: Shell, here: Path
) -> None:
    refused = cli.error("run", *words)
    assert message in refused["message"]
    assert "`suites` of agent-eval.yml" in refused["details"]["remedy"] or "No suite" not in message
    assert not (here / "runs").exists()


@pytest.mark.parametrize("command", ["stability-check", "ci"])
def test_a_command_of_one_suite_explains_a_glob_that_was_not_quoted(command: str, cli: Shell) -> None:
    assert "Quote a glob, such as 'suites/*.json'" in cli.err(command, "--suite", GOOD, BAD)


def test_a_word_too_many_that_is_no_file_is_no_glob(cli: Shell) -> None:
    said = cli.err("keygen", "now")
    assert "unexpected extra argument (now)" in said
    assert "glob" not in said


AGENT = """
import json, pathlib, sys
task = json.load(sys.stdin)
calls = pathlib.Path("calls")
calls.write_text(calls.read_text() + task["case_id"] + "\\n" if calls.exists() else task["case_id"] + "\\n")
print(json.dumps({"assistant_output": "Done.", "cost_usd": 0.5}))
"""


@pytest.mark.parametrize("named", [(GOOD,), (GOOD, BAD)], ids=["one suite", "two suites"])
def test_a_run_without_a_place_says_how_to_resume_it(named: tuple[str, ...], cli: Shell, here: Path) -> None:
    (here / "agent.py").write_text(AGENT)
    command = ("run", *named, "--agent-command", f"{sys.executable} agent.py")
    _, err = cli.run(*command, "--max-run-cost", "1.2", code=4)
    out = f"runs/suite_good-{AT}" if len(named) == 1 else f"runs/{AT}"
    remedy = json.loads(err.splitlines()[-1])["error"]["details"]["remedy"]
    assert remedy.endswith(f"--out {out} --resume")
    pack = Path(out) if len(named) == 1 else Path(out) / "suite_good"
    assert journal_path(pack).exists()
    assert len((here / "calls").read_text().splitlines()) == 2

    found = cli.json(*command, "--out", out, "--resume")
    runs = [found] if len(named) == 1 else found["runs"]
    assert runs[0]["pack"] == str(pack)
    assert len((here / "calls").read_text().splitlines()) == 3 * len(named)
