"""`agent-eval rejudge` through the command line."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_eval.evidence.reader import open_pack
from tests.factories import make_case, make_suite
from tests.unit.cli.shell import Shell

pytestmark = pytest.mark.usefixtures("pinned")

CASES = [
    make_case(f"order-{number}", "lookup", policy={"forbidden_tools": ["lookup"]}) for number in range(3)
]


def judged(cli: Shell, cases: list[dict[str, Any]], *flags: str) -> str:
    """A pack `old`, judged by `regex`, and its manifest's digest."""
    Path("suite.json").write_text(json.dumps(make_suite(*cases, team="shop")))
    run = ("run", "--suite", "suite.json", "--out", "old", "--run-id", "old", "--judge", "regex")
    cli.json(*run, "--model", "m-1", "--agent-version", "7", *flags)
    return hashlib.sha256(Path("old/manifest.json").read_bytes()).hexdigest()


def test_judges_again_and_names_the_old_pack(cli: Shell) -> None:
    manifest = judged(cli, CASES)
    again = ("rejudge", "--run", "old", "--out", "new", "--run-id", "new", "--judge", "policy")
    said = cli.json(*again)
    assert said["rejudged_from"] == {"run_id": "old", "manifest_sha256": manifest}
    assert said["summary"]["passed_cases"] == 0
    assert said["summary"]["judge_counts"]["policy"]["failed"] == 3
    old, new = open_pack(Path("old")), open_pack(Path("new"))
    assert old.manifest_sha256 == manifest
    assert new.config.execution_config.to_json()["rejudged_from"] == said["rejudged_from"]
    assert (new.config.judges, new.config.run_id) == (["policy"], "new")
    for kept in ("model", "agent_version", "dataset_metadata", "suite_digest", "seed"):
        assert getattr(new.config, kept) == getattr(old.config, kept)
    assert [new.raw_trajectory(name) for name in new.case_ids()] == CASES
    assert cli.json("compare", "--baseline", "old", "--candidate", "new")["overview"]["compared_cases"] == 3


def test_the_same_judges_find_the_same(cli: Shell) -> None:
    judged(cli, CASES, "--set", "evidence.layout=compact")
    cli.json("rejudge", "--run", "old", "--out", "new", "--judge", "regex", "--set", "evidence.layout=files")
    assert open_pack(Path("old")).results() == open_pack(Path("new")).results()
    assert open_pack(Path("old")).index() == open_pack(Path("new")).index()


def test_an_archive_is_judged_too(cli: Shell) -> None:
    judged(cli, CASES)
    shutil.make_archive("old", "zip", "old")
    cli.json("rejudge", "--run", "old.zip", "--out", "new", "--judge", "policy")


def test_judges_of_the_pack_are_not_obeyed(cli: Shell) -> None:
    judged(cli, CASES)
    refused = cli.error("rejudge", "--run", "old", "--out", "new")
    assert refused["message"] == "no judge is named"
    assert "--judge" in refused["details"]["remedy"]
    assert not Path("new").exists()


def test_configuration_is_read_and_checked(cli: Shell) -> None:
    judged(cli, CASES)
    again = ("rejudge", "--run", "old", "--out", "new", "--judge", "policy", "--judge-config", "judges.json")
    Path("judges.json").write_text('{"policy": {"hard": false}}')
    assert cli.json(*again)["summary"]["hard_fail_cases"] == 0
    Path("judges.json").write_text('{"policy": {"herd": false}}')
    assert "hard" in json.dumps(cli.error(*again))


def test_the_pack_itself_is_never_written_over(cli: Shell) -> None:
    manifest = judged(cli, CASES)
    Path("link").symlink_to("old")
    for out in ("old", "./old/", "link"):
        error = cli.error("rejudge", "--run", "old", "--out", out, "--judge", "policy")
        assert "the pack to judge again" in error["message"]
    assert open_pack(Path("old")).manifest_sha256 == manifest
