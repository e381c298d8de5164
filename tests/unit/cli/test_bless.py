"""`agent-eval bless`: a new baseline is accepted only with the differences that were shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from tests.factories import make_case, make_config, make_pack, make_result
from tests.unit.cli.shell import Shell

COMMITTED = {"git_commit": "a" * 40, "git_dirty": False, "model": "gpt-x"}


@pytest.fixture(autouse=True)
def baseline(here: Path) -> None:
    """A baseline of three passed cases, registered as `main`."""
    make_pack(Path("old"))
    words = ["--name", "main", "--run", "old", "--approved-by", "qa", "--rationale", "first"]
    assert main(["registry", "baseline-promote", *words]) == 0


def new_run(**config: Any) -> str:
    """A run in which one case fails, one is new and one is gone."""
    results = [make_result("case-1"), make_result("case-2", failed="policy"), make_result("case-4")]
    make_pack(Path("new"), results, config=make_config(run_id="new", **{**COMMITTED, **config}))
    return "new"


BLESS = ("bless", "--name", "main", "--run", "new")


def registered() -> str:
    entry: str = json.loads(Path(".agent_eval/registry.json").read_text())["baselines"]["main"]["run_id"]
    return entry


def test_every_difference_is_shown_by_case_and_nothing_changes(cli: Shell) -> None:
    new_run()
    shown = cli.json(*BLESS)
    fields = ("case_id", "kind", "before", "now")
    assert [tuple(each[field] for field in fields) for each in shown["differences"]] == [
        ("case-2", "regressed", "passed", "failed"),
        ("case-3", "removed", "passed", None),
        ("case-4", "new", None, "passed"),
    ]
    assert registered() != "new"
    assert f"--accept {shown['digest']} " in cli.out(*BLESS)


def test_the_digest_that_was_shown_accepts_and_the_log_says_who_and_why(cli: Shell) -> None:
    new_run()
    digest = cli.json(*BLESS)["digest"]
    accepted = cli.json(*BLESS, "--accept", digest, "--approved-by", "ana", "--rationale", "new flow")
    assert registered() == "new"
    assert accepted["approval"]["approved_by"] == "ana"
    assert accepted["approval"]["rationale"] == f"new flow (differences {digest})"
    assert main(["registry", "verify"]) == 0


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--accept 000000000000 --approved-by ana --rationale x", "accept"),
        ("--accept DIGEST --rationale x", "approved-by"),
        ("--accept DIGEST --approved-by ana", "rationale"),
        ("--approved-by ana --rationale x", "--accept"),
    ],
)
def test_another_digest_or_a_missing_word_accepts_nothing(cli: Shell, words: str, names: str) -> None:
    new_run()
    digest = cli.json(*BLESS)["digest"]
    assert names in cli.err(*BLESS, *words.replace("DIGEST", digest).split())
    assert registered() != "new"


def test_a_digest_does_not_accept_another_run(cli: Shell) -> None:
    new_run()
    digest = cli.json(*BLESS)["digest"]
    make_pack(Path("worse"), [make_result("case-1", failed="policy")], config=make_config(**COMMITTED))
    words = ["--run", "worse", "--accept", digest, "--approved-by", "ana", "--rationale", "x"]
    assert main(["bless", "--name", "main", *words]) == 2
    assert registered() != "worse"


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"git_dirty": True}, "not committed"),
        ({"git_commit": None, "git_dirty": None}, "its commit"),
        ({"model": "unknown"}, "its model"),
        ({"execution_config": {"selected_cases": ["case-1"]}}, "only the cases that were asked for"),
    ],
)
def test_a_run_that_is_not_of_one_commit_and_model_is_no_baseline(
    cli: Shell, config: dict[str, Any], why: str
) -> None:
    new_run(**config)
    assert why in cli.err(*BLESS, code=4)


def test_a_model_that_the_traces_name_is_known(cli: Shell) -> None:
    said = {"idx": 0, "actor": "agent", "type": "message", "output": "Yes.", "model": "gpt-x"}
    config = make_config(run_id="new", **{**COMMITTED, "model": "unknown"})
    make_pack(Path("new"), cases=[make_case("case-1", trace=[said])], config=config)
    assert cli.json(*BLESS)["run_id"] == "new"


def test_a_run_with_an_error_is_no_baseline(cli: Shell) -> None:
    config = make_config(run_id="new", **COMMITTED)
    make_pack(Path("new"), [make_result("case-1", error="policy")], config=config)
    assert "ended in an error" in cli.err(*BLESS, code=4)


def test_a_baseline_that_is_not_registered_is_an_error(cli: Shell) -> None:
    new_run()
    assert "mian" in cli.err("bless", "--name", "mian", "--run", "new")


def test_what_was_accepted_says_what_ci_needs_to_compare_with_it(cli: Shell) -> None:
    new_run()
    digest = cli.json(*BLESS)["digest"]
    words = ("--accept", digest, "--approved-by", "qa", "--rationale", "new flow")
    assert "`baseline: main`" in cli.out(*BLESS, *words)
