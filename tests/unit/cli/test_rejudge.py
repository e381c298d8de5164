"""`agent-eval rejudge` through the command line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.config.spec import Judging, Output
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.rejudge import RejudgeRequest, rejudge
from tests.factories import make_case, make_suite

CASES = [
    make_case(f"order-{number}", "lookup", policy={"forbidden_tools": ["lookup"]}) for number in range(3)
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-01-14T10:00:00+00:00")
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    ended = main(arguments)
    captured = capsys.readouterr()
    assert ended == code, captured
    said: dict[str, Any] = json.loads(captured.err if code else captured.out)
    return said


def judged(capsys: pytest.CaptureFixture[str], cases: list[dict[str, Any]], *flags: str) -> str:
    """A pack `old`, judged by `regex`, and its manifest's digest."""
    Path("suite.json").write_text(json.dumps(make_suite(*cases, team="shop")))
    run = ("run", "--suite", "suite.json", "--out", "old", "--run-id", "old", "--judge", "regex")
    call(capsys, *run, "--model", "m-1", "--agent-version", "7", *flags)
    return hashlib.sha256(Path("old/manifest.json").read_bytes()).hexdigest()


def test_judges_again_and_names_the_old_pack(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = judged(capsys, CASES)
    again = ("rejudge", "--run", "old", "--out", "new", "--run-id", "new", "--judge", "policy")
    said = call(capsys, *again, "--summary-json", "summary.json")
    assert said["rejudged_from"] == {"run_id": "old", "manifest_sha256": manifest}
    assert said["summary"]["passed_cases"] == 0
    assert json.loads(Path("summary.json").read_text())["judge_counts"]["policy"]["failed"] == 3
    old, new = open_pack(Path("old")), open_pack(Path("new"))
    assert old.manifest_sha256 == manifest
    assert new.config.execution_config.to_json()["rejudged_from"] == said["rejudged_from"]
    assert (new.config.judges, new.config.run_id) == (["policy"], "new")
    for kept in ("model", "agent_version", "dataset_metadata", "suite_digest", "seed"):
        assert getattr(new.config, kept) == getattr(old.config, kept)
    assert [new.raw_trajectory(name) for name in new.case_ids()] == CASES
    assert (
        call(capsys, "compare", "--baseline", "old", "--candidate", "new")["overview"]["compared_cases"] == 3
    )


def test_the_same_judges_find_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(capsys, CASES, "--layout", "compact")
    call(capsys, "rejudge", "--run", "old", "--out", "new", "--judge", "regex", "--layout", "files")
    assert open_pack(Path("old")).results() == open_pack(Path("new")).results()
    assert open_pack(Path("old")).index() == open_pack(Path("new")).index()


def test_an_archive_is_judged_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    judged(capsys, CASES)
    shutil.make_archive("old", "zip", "old")
    call(capsys, "rejudge", "--run", "old.zip", "--out", "new", "--judge", "policy")


def test_the_number_of_processes_is_gone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(capsys, CASES)
    refused = call(
        capsys, "rejudge", "--run", "old", "--out", "new", "--judge", "policy", "--workers", "2", code=2
    )
    assert refused["error"]["message"] == "--workers is gone."
    assert "judged in one process" in refused["error"]["details"]["remedy"]


def test_judges_of_the_pack_are_not_obeyed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(capsys, CASES)
    refused = call(capsys, "rejudge", "--run", "old", "--out", "new", code=2)["error"]
    assert refused["message"] == "no judge is named"
    assert "--judge" in refused["details"]["remedy"]
    request = RejudgeRequest(pack=Path("old"), output=Output(pack=Path("new")), judging=Judging(judges=()))
    with pytest.raises(Exception, match="no judge is named"):
        rejudge(request, environ={})
    assert not Path("new").exists()


def test_configuration_is_read_and_checked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(capsys, CASES)
    again = ("rejudge", "--run", "old", "--out", "new", "--judge", "policy", "--judge-config", "judges.json")
    Path("judges.json").write_text('{"policy": {"hard": false}}')
    assert call(capsys, *again)["summary"]["hard_fail_cases"] == 0
    Path("judges.json").write_text('{"policy": {"herd": false}}')
    assert "hard" in json.dumps(call(capsys, *again, code=2))


def test_the_pack_itself_is_never_written_over(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = judged(capsys, CASES)
    Path("link").symlink_to("old")
    for out in ("old", "./old/", "link"):
        error = call(capsys, "rejudge", "--run", "old", "--out", out, "--judge", "policy", code=2)["error"]
        assert "the pack to judge again" in error["message"]
    assert open_pack(Path("old")).manifest_sha256 == manifest


def test_a_pack_that_was_tampered_with_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(capsys, CASES)
    summary = Path("old/run/summary.json")
    summary.write_bytes(summary.read_bytes().replace(b"3", b"4"))
    error = call(capsys, "rejudge", "--run", "old", "--out", "new", "--judge", "policy", code=2)["error"]
    assert error["code"] == "invalid_pack"
    assert not Path("new").exists()
