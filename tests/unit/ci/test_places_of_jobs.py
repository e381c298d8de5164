"""Whole jobs in places where a name suggests one thing and the graph of commits says another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.history.records import HISTORY
from tests.e2e.runner import BASE_SHA, HEAD_SHA, OWN_RUN, PULL, Step, orders
from tests.fakes import github as fake
from tests.fakes.commits import merged, sha, tip_of
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess

MAIN = 400


@pytest.fixture(autouse=True)
def run_of_main(runner: InProcess, github: FakeGitHub) -> Step:
    """A run of main at the merge base, in which everything passed."""
    runner.write_suite(*orders())
    step = runner.push(run_id=MAIN)
    runner.upload(step, MAIN)
    return step


def start(runner: InProcess, event: str, ref: str, *, checkout: str = HEAD_SHA, run: int = OWN_RUN) -> Step:
    """A job of an event on main's newest commit, with another commit checked out by a step before."""
    if run not in runner.github.runs:
        branch = ref.partition("/")[2]
        runner.github.add_run(run, status="in_progress", event=event, head_branch=branch, head_sha=BASE_SHA)
    payload: dict[str, Any] = {
        "repository": {"id": fake.REPOSITORY_ID, "default_branch": "main", "full_name": fake.REPOSITORY}
    }
    step = runner.start(event, payload, run, BASE_SHA, ref, {}, checkout=checkout)
    runner.github.runs[run]["status"] = "completed"
    return step


def carries_history(runner: InProcess) -> bool:
    return (runner.workspace / "agent-eval-out" / "shop" / HISTORY).exists()


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize(
    "event", ["workflow_dispatch", "issue_comment", "repository_dispatch", "deployment", "schedule", "push"]
)
def test_another_checkout_than_that_of_the_event_is_a_change(
    runner: InProcess, event: str, broken: bool
) -> None:
    runner.write_suite(*orders(bad=(2,) if broken else ()))
    step = start(runner, event, "heads/main")
    assert (step.code, step.outputs["baseline-run-id"]) == (int(broken), str(MAIN))
    assert "The checkout is not of main: held to main." in step.summary
    assert not carries_history(runner)


def test_the_evidence_of_another_checkout_is_no_baseline(runner: InProcess, github: FakeGitHub) -> None:
    del github.runs[MAIN]
    runner.upload(start(runner, "workflow_dispatch", "heads/main", run=410), 410)
    runner.write_suite(*orders(bad=(2,)))
    step = runner.pull_request()
    assert (step.outcome, step.outputs["baseline-run-id"]) == ("no-baseline", "")
    assert "which was checked out there: it is no baseline" in step.log


@pytest.mark.parametrize("broken", [False, True])
def test_a_tag_that_is_called_like_the_branch_is_a_change(runner: InProcess, broken: bool) -> None:
    runner.write_suite(*orders(bad=(2,) if broken else ()))
    step = start(runner, "push", "tags/main", run=410)
    assert (step.code, step.outputs["baseline-run-id"]) == (int(broken), str(MAIN))
    assert "`main` is a tag: held to branch main." in step.summary
    # GitHub lists its runs under the branch; they are never a baseline.
    runner.github.runs[410] |= {"head_branch": "main", "head_sha": HEAD_SHA}
    runner.upload(step, 410)
    assert runner.pull_request(run_id=501).outputs["baseline-run-id"] == str(MAIN)


def test_a_tag_at_a_commit_of_main_is_reviewed(runner: InProcess) -> None:
    step = start(runner, "push", "tags/v1", checkout=sha("commit 420"), run=420)
    assert (step.code, step.outputs["baseline-run-id"]) == (0, str(MAIN))
    assert "held to" not in step.summary
    assert carries_history(runner)


@pytest.mark.parametrize("broken", [False, True])
def test_a_change_into_a_branch_that_nobody_trusts_is_held_to_main(runner: InProcess, broken: bool) -> None:
    runner.github.branches["lax"] = BASE_SHA
    runner.write_suite(*orders(bad=(2,) if broken else ()))
    step = runner.pull_request(into="lax")
    assert (step.code, step.outputs["baseline-run-id"]) == (int(broken), str(MAIN))
    assert "`lax` is no trusted branch: held to main." in runner.github.bodies(PULL)[0]


def test_a_backport_is_compared_with_mains_run_where_its_branch_left_main(runner: InProcess) -> None:
    runner.github.files["agent-eval.yml"] = b"baseline: {branches: [release/1.x]}\n"
    runner.github.branches["release/1.x"] = BASE_SHA
    step = runner.pull_request(into="release/1.x")
    assert (step.code, step.outputs["baseline-sha"]) == (0, BASE_SHA)
    assert "held to" not in step.summary


def test_a_trial_merge_is_compared_with_the_tip_that_it_merges(runner: InProcess, github: FakeGitHub) -> None:
    tip, trial = tip_of(github.files), merged(HEAD_SHA, github.files)
    runner.write_suite(*orders(bad=(2,)))
    runner.upload(runner.push(run_id=450, commit=tip, max_regressed_cases="4"), 450)
    step = runner.pull_request(checkout=trial)
    assert (step.code, step.outcome) == (0, "passed")
    assert (step.outputs["baseline-run-id"], step.outputs["baseline-sha"]) == ("450", tip)


def test_the_commit_that_is_checked_out_is_the_one_that_is_recorded(runner: InProcess) -> None:
    trial = merged(HEAD_SHA, runner.github.files)
    step = runner.pull_request(checkout=trial)
    config = Path(runner.workspace / step.outputs["evidence-pack"].splitlines()[0] / "run" / "config.json")
    assert trial in config.read_text()


def test_a_branch_that_was_pushed_over_is_not_compared_and_never_green(runner: InProcess) -> None:
    runner.github.runs[MAIN]["head_sha"] = sha("pushed over")
    step = runner.pull_request()
    assert (step.code, step.outcome) == (3, "inconclusive")
    assert "Nothing to compare with: main has no run at or before the base" in step.summary
    assert "✅" not in step.summary


def test_a_tip_that_the_token_may_not_read_ends_the_job(runner: InProcess, github: FakeGitHub) -> None:
    github.permissions.discard("contents: read")
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error")
    assert "the tip of `main` is not known" in step.summary


def test_without_a_checkout_nothing_is_evaluated(runner: InProcess, tmp_path: Path) -> None:
    runner.has_own_repository = True
    for path in (runner.workspace / ".git").rglob("*"):
        if path.is_file():
            path.unlink()
    (runner.workspace / ".git").rename(tmp_path / "gone")
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error")
    assert "does not run in a git checkout" in step.summary
