"""Which earlier runs on GitHub are trusted, and which are passed over."""

from __future__ import annotations

import pytest

from tests.e2e.runner import BASE_SHA, PULL, Step, orders, unzipped, zipped
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess


@pytest.fixture
def evidence(runner: InProcess, github: FakeGitHub) -> Step:
    """What run 400 on main left; not uploaded. Since then the suite's second case is worse."""
    runner.write_suite(*orders())
    step = runner.push()
    runner.write_suite(*orders(bad=(2,)))
    return step


def test_fork__is_passed_over_whatever_it_calls_its_branch_and_event(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    del github.runs[400]
    runner.upload(evidence, github.add_run(490, event="pull_request", fork=True, head_sha=BASE_SHA))
    runner.upload(evidence, github.add_run(491, fork=True))
    runner.upload(evidence, github.add_run(492, fork=True, head_branch="topic", head_sha=BASE_SHA))
    step = runner.pull_request()
    assert step.outcome == "no-baseline"
    assert "Run 490 was passed over" in step.summary
    assert "Run 491 was passed over" in step.summary
    assert "Run 492" not in step.summary
    assert github.downloads == []


def test_fork__that_was_deleted_is_passed_over(runner: InProcess, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400)
    github.runs[400]["head_repository"] = None
    assert runner.pull_request().outcome == "no-baseline"


@pytest.mark.parametrize(
    ("artifact", "said"),
    [
        ({"expired": True}, "has expired"),
        ({"size": 1 << 40}, "too large"),
        ({"digest": "sha256:" + "0" * 64}, "digest differs"),
        ({"name": "another"}, "left no artifact"),
    ],
)
def test_artifact__that_cannot_be_used_is_passed_over_and_said(
    runner: InProcess, github: FakeGitHub, evidence: Step, artifact: dict[str, object], said: str
) -> None:
    runner.upload(evidence, 400, **artifact)
    runner.upload(evidence, github.add_run(390))
    step = runner.pull_request()
    assert step.outputs["baseline-run-id"] == "390"
    assert said in github.bodies(PULL)[0]


@pytest.mark.parametrize(("status", "outcome"), [(410, "no-baseline"), (500, "error"), (403, "error")])
def test_download__that_fails(
    runner: InProcess, github: FakeGitHub, evidence: Step, status: int, outcome: str
) -> None:
    runner.upload(evidence, 400)
    github.fail("GET", "/zip$", status, times=9)
    assert runner.pull_request().outcome == outcome


def test_artifact__of_another_repositorys_code(runner: InProcess, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400)
    for _, row, _ in github.artifacts.values():
        row["workflow_run"]["head_repository_id"] = 1
    assert any("another repository" in line for line in runner.pull_request().annotations)


def test_artifact__of_an_older_server_has_neither_digest_nor_run(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    runner.upload(evidence, 400)
    for _, row, _ in github.artifacts.values():
        del row["digest"], row["workflow_run"]
    assert runner.pull_request().outputs["baseline-run-id"] == "400"


def test_tampered__evidence_is_a_warning_and_the_next_is_taken(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    github.add_artifact(400, zipped({**unzipped(evidence.archive), "shop/extra": b""}))
    runner.upload(evidence, github.add_run(390))
    step = runner.pull_request()
    assert step.outputs["baseline-run-id"] == "390"
    assert any("does not verify" in line for line in step.annotations)


def test_merge_base__that_is_unknown(runner: InProcess, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400)
    github.fail("GET", "/compare/", 404)
    step = runner.pull_request()
    assert step.outputs["baseline-run-id"] == "400"
    assert "no common commit" in step.log


def test_merge_base__is_asked_for_by_branch_where_the_event_names_no_base(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    runner.upload(evidence, 400)
    assert runner.push(run_id=500, branch="feature/x").outputs["baseline-run-id"] == "400"
    assert (
        github.count("GET", r"/compare/main\.\.\.[0-9a-f]{40}$") == 3
    )  # also for the rules, before and after the settings are read


def test_base_branch__is_compared_with_what_came_before(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    for run_id in (400, 380):
        runner.upload(evidence, run_id if run_id == 400 else github.add_run(run_id))
    assert runner.push(run_id=390).outputs["baseline-run-id"] == "380"


@pytest.mark.parametrize(
    ("prepare", "code", "said"),
    [
        ("ours", 1, ""),
        ("missing", 2, "no workflow run 333"),
        ("fork", 2, "not from acme/shop"),
        ("empty", 2, "left no artifact"),
        ("broken", 2, "not a zip"),
        ("other suite", 2, "no evidence of"),
    ],
)
def test_named_run(
    runner: InProcess, github: FakeGitHub, evidence: Step, prepare: str, code: int, said: str
) -> None:
    if prepare != "missing":
        github.add_run(333, fork=prepare == "fork", event="pull_request")
    if prepare in ("ours", "other suite"):
        runner.upload(evidence, 333)
    if prepare == "broken":
        github.add_artifact(333, b"broken")
    if prepare == "other suite":
        runner.write_suite(*orders(), dataset_id="other")
    step = runner.pull_request(baseline_run_id="333")
    assert step.code == code
    assert said in github.bodies(PULL)[0]
    assert step.outputs["baseline-run-id"] == ("333" if prepare == "ours" else "")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_named_run__that_may_not_be_read(
    runner: InProcess, github: FakeGitHub, evidence: Step, status: int
) -> None:
    github.fail("GET", "/actions/runs/333$", status)
    assert runner.pull_request(baseline_run_id="333").code == (2 if status == 404 else 4)


def test_suite__that_is_new_ends_the_search_after_three_archives(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    for run_id in (400, 390, 380, 370):
        runner.upload(evidence, run_id if run_id == 400 else github.add_run(run_id))
    runner.write_suite(*orders(), name="new.json", dataset_id="new")
    step = runner.pull_request(suite="suite.json\nnew.json")
    assert step.code == 1
    assert len(github.downloads) == 3


def test_none__and_no_token_and_a_required_baseline(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    runner.upload(evidence, 400)
    github.requests.clear()
    step = runner.pull_request(baseline="none", comment="never", require_baseline="true")
    assert step.code == 1
    step = runner.pull_request(github_token="", on_case_removed="fail")
    assert (step.code, step.outcome) == (4, "error")
    assert not [seen for seen in github.requests if "/contents/" not in seen.path]


def test_removed_case__fails_on_request(runner: InProcess, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400)
    runner.write_suite(*orders(3))
    step = runner.pull_request(on_case_removed="fail")
    assert step.code == 1
    assert "1 case was removed" in " ".join(step.annotations)


def test_every_case_changed__and_nothing_to_judge(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    runner.upload(evidence, 400)
    runner.write_suite(*({**case, "input": "new"} for case in orders()))
    assert runner.pull_request().outcome == "inconclusive"
    step = runner.pull_request(run_id=501, judges="regex")
    assert step.code == 1
    assert "no pass" in step.summary


def test_address__that_is_not_https(runner: InProcess, evidence: Step) -> None:
    assert runner.pull_request(github_api_url="http://github.example.org").code == 2


def test_files_of_the_runner__that_cannot_be_written(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    environ = {"GITHUB_STEP_SUMMARY": "/proc/nowhere/x"}
    step = runner.start("push", {}, 400, BASE_SHA, "heads/main", {}, environ=environ)
    assert any("could not be written" in line for line in step.annotations)


def test_proxy_page__in_place_of_json(runner: InProcess, github: FakeGitHub, evidence: Step) -> None:
    github.raw = b"<html>log in</html>"
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error")
    assert "github-api-url" in step.summary or "JSON" in step.summary


def test_suite_glob__that_matches_nothing(runner: InProcess, evidence: Step) -> None:
    assert runner.pull_request(suite="none/*.json").code == 2
