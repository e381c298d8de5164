"""The whole job within this process, against a GitHub on localhost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.runner import BASE_SHA, PULL, orders
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess


@pytest.fixture
def uploaded(runner: InProcess) -> None:
    """Run 400 on main left evidence; since then the suite's second case is worse."""
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400)
    runner.write_suite(*orders(bad=(2,)))


def test_outage__is_bounded_and_ends_as_not_evaluated(
    runner: InProcess, github: FakeGitHub, uploaded: None
) -> None:
    github.requests.clear()
    github.fail("GET", "/actions/", 503, times=1000)
    step = runner.pull_request(min_pass_rate="0.1", fail_on="never")
    assert (step.code, step.outcome) == (4, "error")
    assert github.count("GET", "/actions/") == 5
    assert sum(runner.waits) < 60
    comment = github.bodies(PULL)[0]
    assert comment.splitlines()[2].startswith("## 🛑 Not evaluated: ")
    assert "in 5 attempts (HTTP 503)" in comment.splitlines()[2]
    assert "✅" not in comment.partition("<details")[0]


def test_outage__of_everything_ends_before_anything_is_run(
    runner: InProcess, github: FakeGitHub, uploaded: None
) -> None:
    for method in ("GET", "POST"):
        github.fail(method, "", 500, times=1000)
    step = runner.pull_request()
    assert step.code == 4
    assert "The tip of `main` is not known" in step.summary
    assert "comment could not be written" in step.summary
    assert step.outputs["evidence-archive"] == ""


@pytest.mark.parametrize("named", ["", "400"])
def test_download__that_turns_out_larger_than_announced(
    runner: InProcess,
    github: FakeGitHub,
    uploaded: None,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
) -> None:
    monkeypatch.setattr("agent_eval.ci.platforms.rest.MAX_ARCHIVE_BYTES", 1000)
    for _, row, _ in github.artifacts.values():
        row["size_in_bytes"] = 10
    step = runner.pull_request(baseline_run_id=named)
    assert (step.code, step.outcome) == (4, "error")
    assert "more than 1000 bytes" in github.bodies(PULL)[0]


def test_repository__is_asked_for_what_the_event_does_not_say(
    runner: InProcess, github: FakeGitHub, uploaded: None
) -> None:
    github.add_run(500, status="in_progress", event="schedule")
    environ = {"GITHUB_REPOSITORY_ID": ""}
    step = runner.start("schedule", {}, 500, BASE_SHA, "heads/main", {}, environ=environ)
    assert step.outputs["baseline-run-id"] == "400"
    assert github.count("GET", "/repos/acme/shop$") == 2


def test_job__without_a_run_has_no_history(runner: InProcess, github: FakeGitHub, uploaded: None) -> None:
    step = runner.start("push", {}, 0, BASE_SHA, "heads/main", {}, environ={"GITHUB_RUN_ID": ""})
    assert step.outcome == "no-baseline"
    assert "no workflow run" in step.summary


def test_summary__that_is_full_is_not_broken(
    runner: InProcess, github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.ci.platforms.github.SUMMARY_LIMIT", 100)
    runner.write_suite(*orders())
    step = runner.pull_request()
    assert step.code == 0
    assert step.summary == ""
    assert any("summary is full" in line for line in step.annotations)


def test_runner__without_summary_and_output_files(runner: InProcess, github: FakeGitHub) -> None:
    runner.write_suite(*orders())
    environ = {"GITHUB_STEP_SUMMARY": "", "GITHUB_OUTPUT": ""}
    github.add_run(500, status="in_progress")
    step = runner.start("push", {}, 500, BASE_SHA, "heads/main", {}, environ=environ)
    assert step.code == 0
    assert step.annotations == []


def test_judges_and_their_configuration__stand_in_the_command_that_reproduces(
    runner: InProcess, github: FakeGitHub, uploaded: None
) -> None:
    github.files["judges{1}.json"] = b"{}"
    (runner.workspace / "judges{1}.json").write_text("{}")
    step = runner.pull_request(judges="policy,regex", judge_config="judges{1}.json")
    assert step.code == 1
    assert (
        "--case order-2 --judge policy --judge regex --judge-config 'judges{1}.json'"
        in github.bodies(PULL)[0]
    )
