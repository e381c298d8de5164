"""The whole job within this process, against a GitHub on localhost."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.ci import baseline
from tests.e2e.runner import BASE_SHA, PULL, orders, zipped
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess


@pytest.fixture
def uploaded(runner: InProcess) -> None:
    """Run 400 on main left evidence; since then the suite's second case is worse."""
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400)
    runner.write_suite(*orders(bad=(2,)))


def test_regression__is_found_named_and_blocked(
    runner: InProcess, github: FakeGitHub, uploaded: None
) -> None:
    step = runner.pull_request()
    assert (step.code, step.outcome) == (1, "failed")
    assert step.outputs["baseline-sha"] == BASE_SHA
    assert "order-2" in github.bodies(PULL)[0]
    assert any("order-2" in line for line in step.annotations)


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


def test_rate_limit__that_asks_for_an_hour_is_not_waited_for(
    runner: InProcess, github: FakeGitHub, uploaded: None
) -> None:
    github.fail("GET", "/actions/", 429, times=9, headers={"Retry-After": "3600"})
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error")
    assert runner.waits == []


def test_named_run__during_an_outage_is_an_error(
    runner: InProcess, github: FakeGitHub, uploaded: None
) -> None:
    github.fail("GET", "/actions/", 503, times=9)
    assert runner.pull_request(baseline_run_id="400").code == 4


@pytest.mark.parametrize(("named", "expected"), [("", (4, "error")), ("400", (4, "error"))])
def test_download__that_turns_out_larger_than_announced(
    runner: InProcess,
    github: FakeGitHub,
    uploaded: None,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    expected: tuple[int, str],
) -> None:
    monkeypatch.setattr("agent_eval.ci.platforms.rest.MAX_ARCHIVE_BYTES", 1000)
    for _, row, _ in github.artifacts.values():
        row["size_in_bytes"] = 10
    step = runner.pull_request(baseline_run_id=named)
    assert (step.code, step.outcome) == expected
    assert "more than 1000 bytes" in github.bodies(PULL)[0]


def test_search__stops_at_its_bound(
    runner: InProcess, github: FakeGitHub, uploaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "MAX_LOOKED_AT", 2)
    for run_id in (410, 411, 412):
        github.add_run(run_id, head_sha=BASE_SHA)
    step = runner.pull_request()
    assert step.outcome == "no-baseline"
    assert "Looked at 2 earlier runs" in step.log


def test_many_notes__are_cut_in_the_comment(runner: InProcess, github: FakeGitHub, uploaded: None) -> None:
    for run_id in range(410, 420):
        github.add_run(run_id, head_sha=BASE_SHA)
    step = runner.pull_request()
    assert "more notes like these" in github.bodies(PULL)[0]
    assert step.log.count("left no artifact") == 10


def test_contradictory_baseline__is_an_error_where_there_is_no_other(
    runner: InProcess, github: FakeGitHub, uploaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent_eval.ci import decide
    from agent_eval.errors import InvalidInput

    def contradicts(*_: object, **__: object) -> None:
        raise InvalidInput("its verdicts contradict its results")

    monkeypatch.setattr(decide, "compared", contradicts)
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error")
    assert any("contradict" in line for line in step.annotations)
    assert runner.pull_request(run_id=501, baseline_run_id="400").code == 2


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


def test_answer__that_is_no_json_is_an_outage(runner: InProcess, github: FakeGitHub, uploaded: None) -> None:
    github.runs[500] = {"id": "five hundred"}
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error")
    assert "not what GitHub documents" in step.summary


def test_summary__that_is_full_is_not_broken(
    runner: InProcess, github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.ci.platforms.github.MAX_SUMMARY_BYTES", 100)
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


def test_many_suites_that_failed__are_cut_in_the_annotation(runner: InProcess, uploaded: None) -> None:
    for name in "abcde":
        runner.write_suite(*orders(1, bad=(1,)), name=f"{name}.json", dataset_id=name)
    step = runner.pull_request(suite="[a-e].json", max_hard_fail_rate="0", min_pass_rate="1")
    said = [line for line in step.annotations if "And 2 more suites." in line]
    assert "a: " in said[0]
    assert "d: " not in said[0]


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


def test_suite__that_is_called_like_a_pattern_is_that_file(runner: InProcess) -> None:
    runner.write_suite(*orders(), name="suite[1].json")
    assert runner.pull_request(suite="suite[1].json", min_pass_rate="1").outcome == "no-baseline"


def test_suites__that_are_far_too_many(runner: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_eval.suites.paths.MAX_SUITES", 1)
    for name in ("a", "b"):
        runner.write_suite(*orders(), name=f"{name}.json", dataset_id=name)
    step = runner.pull_request(suite="*.json")
    assert step.code == 2
    assert "more than 1" in step.summary


@pytest.mark.parametrize("dataset_id", ["evidence.zip", "report.md"])
def test_dataset__that_is_called_like_our_own_files(runner: InProcess, dataset_id: str) -> None:
    runner.write_suite(*orders(), dataset_id=dataset_id)
    assert runner.pull_request().code == 2


def test_outside_ci__comment_and_warnings_are_printed(
    runner: InProcess, github: FakeGitHub, tmp_path: Path
) -> None:
    runner.write_suite(*orders())
    outside = {"GITHUB_ACTIONS": ""}
    first = runner.start("", {}, 1, "", "", {}, environ=outside)
    assert (first.code, first.outputs) == (0, {})
    assert "Outside CI" in first.log
    assert "<!-- agent-eval id=default" in first.log
    (runner.workspace / "agent-eval-out").rename(runner.workspace / "before")
    runner.write_suite(*orders(bad=(1,)))
    second = runner.start("", {}, 2, "", "", {"baseline": "before"}, environ=outside)
    assert second.code == 1
    assert "Error: Agent evaluation: failed" in second.log
    broken = runner.start("", {}, 3, "", "", {"suite": "missing.json"}, environ=outside)
    assert broken.code == 2
    assert "missing.json" in broken.log


def test_baseline_path__with_evidence_of_other_suites_only(runner: InProcess, uploaded: None) -> None:
    (runner.workspace / "agent-eval-out").rename(runner.workspace / "before")
    runner.write_suite(*orders(), name="other.json", dataset_id="other")
    both = runner.pull_request(baseline="before", suite="suite.json\nother.json")
    assert both.code == 1
    assert "no evidence of `other`" in both.summary
    step = runner.pull_request(run_id=501, baseline="before", suite="other.json")
    assert (step.code, step.outcome) == (2, "error")
    assert "it has: shop" in step.log


def test_evidence__that_is_no_archive_at_a_path(runner: InProcess) -> None:
    runner.write_suite(*orders())
    (runner.workspace / "x.zip").write_bytes(zipped({"a": b""})[:-5])
    assert runner.pull_request(baseline="x.zip").code == 2
