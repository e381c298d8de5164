"""The watch over main: one issue that opens, is kept up to date and closes itself; whose doing a loss is."""

from __future__ import annotations

import random
import re
import shutil
import sys
from typing import Any

import pytest

from tests.e2e.nights import BAD, GOOD, LENIENT, Nights, agent_at, clock
from tests.e2e.runner import Runner, Step, orders
from tests.e2e.test_ci_confirmation import COMMAND, Repository
from tests.extent import WHOLE_JOB
from tests.fakes.github import TOKEN, FakeGitHub

DROP, FIX, LAST = 40, 60, 100
SEED = 0
WELL, ILL = orders(36, bad=(1, 2)), orders(36, bad=tuple(range(1, 21)))


@pytest.fixture
def nights(runner: Runner, github: FakeGitHub) -> Nights:
    return Nights(runner)


def states(github: FakeGitHub) -> list[str]:
    return [github.issues[number]["state"] for number in sorted(github.issues)]


@WHOLE_JOB
def test_in_a_hundred_nights_the_issue_opens_within_three_nights_of_a_drop_and_closes_after_the_fix(
    runner: Runner, github: FakeGitHub
) -> None:
    """36 recorded traces a night of a seeded agent: .94, a fall to .84 at night 40, mended at night 60.

    The seed has a usual night's luck; `benchmarks/results/drift_simulation.md` has how many seeds do.
    """
    nights = Nights(runner, release_failing=(2, 2, 2, 3, 2))
    source = random.Random(SEED)
    seen: list[list[str]] = []
    bodies: list[str] = []
    for night in range(LAST):
        step = nights.night(agent_at(BAD if DROP <= night < FIX else GOOD, source))
        assert step.code in (0, 1), step.log
        seen.append(states(github))
        bodies += [row["body"] for row in github.issues.values()]
    opened = next(night for night, state in enumerate(seen) if state)
    closed = next(night for night, state in enumerate(seen) if state == ["closed"])
    assert opened - DROP + 1 in (1, 2, 3)
    assert FIX < closed <= FIX + 12
    assert seen[opened:closed] == [["open"]] * (closed - opened)
    assert seen[closed:] == [["closed"]] * (LAST - closed)
    # One was opened, edited in place each night, and closed as done: never commented on, never a second one.
    assert (github.count("POST", "/issues"), github.count("PATCH", r"/issues/\d+")) == (1, closed - opened)
    assert [row["state_reason"] for row in github.issues.values()] == ["completed"]
    assert len(set(bodies)) == closed - opened + 1
    assert "run `github-10" in bodies[0]
    assert "what was lost since the release is back" in bodies[-1]


@pytest.mark.parametrize("run", ["push", "branch", "pull request", "fork"])
def test_only_scheduled_runs_of_main_read_or_write_issues(
    nights: Nights, runner: Runner, github: FakeGitHub, run: str
) -> None:
    runner.write_suite(*ILL)
    given: dict[str, Any] = {"drift_release": "release", "drift_issue": "always", **LENIENT}
    if run == "push":
        runner.push(run_id=2_000, **{**given, "drift_issue": "auto"})
    elif run == "branch":
        runner.push(run_id=2_000, branch="feature", event="workflow_dispatch", **given)
    else:
        runner.pull_request(fork=run == "fork", **given)
    assert github.count("GET", "/issues$") == 0
    assert github.issues == {}


@pytest.mark.parametrize(
    "inputs", [{"event": "workflow_dispatch"}, {"event": "push", "drift_issue": "always"}]
)
def test_a_run_by_hand_and_each_run_where_that_is_asked_for_write_the_issue(
    nights: Nights, github: FakeGitHub, inputs: dict[str, str]
) -> None:
    nights.night(ILL, **inputs)
    assert states(github) == ["open"]


def test_without_an_issue_the_loss_is_an_annotation_and_in_the_summary(
    nights: Nights, github: FakeGitHub
) -> None:
    step = nights.night(ILL, drift_issue="never")
    assert any("passes less often than the release" in note for note in step.annotations)
    assert "lost quality since the release" in step.summary
    assert (github.issues, github.count("GET", "/issues$"), step.outputs["drift-issue-url"]) == ({}, 0, "")


def refused(nights: Nights, **inputs: str) -> Step:
    """A night in which issues cannot be written: the gate's answer is the same, the summary has the loss."""
    step = nights.night(ILL, **inputs)
    assert (step.code, step.outcome) in [(0, "inconclusive"), (0, "no-baseline"), (0, "passed")], step.log
    assert "lost quality since the release" in step.summary
    return step


def test_a_missing_permission_is_named_and_changes_nothing_else(nights: Nights, github: FakeGitHub) -> None:
    github.permissions.discard("issues: write")
    step = refused(nights)
    assert any("grant the scheduled job `issues: write`" in note for note in step.annotations)


def test_a_refusal_while_it_is_written_is_a_warning(nights: Nights, github: FakeGitHub) -> None:
    github.fail("POST", "/issues$", 403, times=9)
    assert any("grant the scheduled job `issues: write`" in note for note in refused(nights).annotations)


def test_a_secret_in_the_title_is_redacted(nights: Nights, github: FakeGitHub) -> None:
    nights.night(ILL, report_title=f"Nightly {TOKEN}")
    [issue] = github.issues.values()
    assert TOKEN not in issue["title"] + issue["body"]
    assert issue["body"].startswith("<!-- agent-eval-drift id=default ")


@pytest.mark.parametrize("release", ["nowhere.zip", "unregistered"])
def test_a_release_that_is_not_there_is_a_wrong_setting(nights: Nights, release: str) -> None:
    step = nights.night(WELL, drift_release=release)
    assert (step.code, step.outcome) == (2, "error")
    assert "neither evidence nor a baseline of the registry" in step.log


def test_a_release_that_was_altered_is_refused(nights: Nights) -> None:
    index = nights.runner.workspace / "release" / "run-0" / "run" / "index.jsonl"
    index.write_text("{}\n")
    step = nights.night(WELL)
    assert step.outcome == "error"
    assert "index.jsonl" in step.log


def test_runs_from_before_the_release_do_not_count(nights: Nights, github: FakeGitHub) -> None:
    """A better release is pinned: what main was before it is no loss since."""
    for _ in range(3):
        nights.night(ILL, drift_release="")
    nights.number += 1
    for number in range(2):
        step = nights.evaluate(WELL, 3_000 + number, event="push", drift_release="")
        shutil.rmtree(nights.runner.workspace / "release" / f"run-{number}")
        nights.keep_release(step, number)
    step = nights.night(WELL)
    assert github.issues == {}
    assert "no loss since the release is shown" in step.summary


class Watched(Repository):
    """A git repository whose main is watched since a release, evaluated with a real agent."""

    def release(self) -> None:
        """Evaluate the agent of the checkout, and keep its evidence as the release."""
        step = self._evaluated(300, self.git("rev-parse", "HEAD"), "push", drift_release="")
        (self.top / "release.zip").write_bytes(step.archive)
        self.released = self.git("rev-parse", "HEAD")

    def night(self, number: int, **inputs: str) -> Step:
        """A scheduled run of main."""
        given = {"drift_release": "release.zip", **inputs}
        step = self._evaluated(600 + number, self.git("rev-parse", "HEAD"), "schedule", **given)
        self.runner.upload(step, 600 + number)
        return step

    def break_world(self, *cases: int) -> None:
        """Let what both agents rely on move, so that these cases fail."""
        for number in cases:
            (self.world / f"order-{number}-broken").write_text("")

    def _evaluated(self, run_id: int, commit: str, event: str, **inputs: str) -> Step:
        environ = {
            "TMPDIR": str(self.temporary),
            "GITHUB_SHA": commit,
            "AGENT_EVAL_CLOCK": clock(run_id - 599 if run_id >= 600 else 0),
        }
        own = {"agent_command": COMMAND, "baseline_workflow": "nightly.yml", "trials": "6"}
        given = {**own, **LENIENT, **inputs}
        step = self.runner.push(run_id=run_id, event=event, environ=environ, **given)
        assert list(self.temporary.iterdir()) == []
        return step


@pytest.fixture
def watched(runner: Runner, github: FakeGitHub) -> Watched:
    made = Watched(runner)
    made.release()
    return made


WORSE = "if case in ('order-1', 'order-2', 'order-3', 'order-4', 'order-5'): tools.append('escalate')"


@WHOLE_JOB
def test_the_released_program_is_built_in_a_worktree_and_shows_that_the_code_moved(
    watched: Watched, github: FakeGitHub
) -> None:
    watched.commit("worse", WORSE)
    (watched.world / "calls").write_text("")
    for number in (1, 2):
        step = watched.night(number, release_agent="auto")
    [issue] = github.issues.values()
    assert "did not fall: look at what was merged" in issue["body"], step.log
    assert "| Released agent, run again | 100% passed (72 trials) |" in issue["body"]
    where = set(watched.calls("order-1", "base"))
    # One worktree a night.
    assert len(where) == 2
    assert not any(place.is_relative_to(watched.top.resolve()) for place in where)
    assert "Running" not in step.log or "of the merge base" not in step.log


@WHOLE_JOB
def test_a_model_that_moved_is_not_blamed_on_the_code(watched: Watched, github: FakeGitHub) -> None:
    watched.commit("same")
    watched.break_world(1, 2, 3, 4, 5)
    for number in (1, 2, 3):
        watched.night(number, release_agent="auto")
    [issue] = github.issues.values()
    assert "the model or a service moved, not the code" in issue["body"]
    # Trials are added up night by night: of the released agent, and from the second one of the base branch.
    assert "up=shop:18/108:12/72:72:model:" in issue["body"]


@WHOLE_JOB
def test_the_released_agent_is_run_only_while_a_loss_is_shown(watched: Watched, github: FakeGitHub) -> None:
    (watched.world / "calls").write_text("")
    watched.commit("same")
    watched.night(1, release_agent="auto")
    assert watched.calls("order-1", "base") == []
    assert github.issues == {}


@WHOLE_JOB
def test_an_issue_that_a_person_closed_costs_no_run_of_the_released_agent(
    watched: Watched, github: FakeGitHub
) -> None:
    watched.commit("worse", WORSE)
    watched.night(1, release_agent="auto")
    [issue] = github.issues.values()
    issue["state"] = "closed"
    (watched.world / "calls").write_text("")
    step = watched.night(2, release_agent="auto")
    assert watched.calls("order-1", "base") == []
    assert "lost quality since the release" in step.summary


@WHOLE_JOB
def test_a_released_agent_that_is_named_is_run_as_such(watched: Watched, github: FakeGitHub) -> None:
    old = watched.runner.root / "old.py"
    old.write_text(watched.agent("old", ""))
    watched.commit("worse", WORSE)
    for number in (1, 2):
        watched.night(number, release_agent=f"command:{sys.executable} -S -E {old}")
    assert len(watched.calls("order-1", "old")) == 12
    [issue] = github.issues.values()
    assert "did not fall: look at what was merged" in issue["body"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"setup_command": "test ! -e fails-here || exit 7"}, "The release could not be built"),
        ({"release_agent": f"command:{sys.executable} -c 'import sys; sys.exit(9)'"}, ""),
    ],
)
@WHOLE_JOB
def test_a_released_agent_that_cannot_be_run_is_said_and_blames_nothing(
    watched: Watched, github: FakeGitHub, inputs: dict[str, str], said: str
) -> None:
    watched.commit("broken release", files={"fails-here": ""})
    watched.released = watched.git("rev-parse", "HEAD")
    step = watched._evaluated(301, watched.released, "push", drift_release="")
    (watched.top / "release.zip").write_bytes(step.archive)
    watched.git("rm", "--quiet", "fails-here")
    watched.commit("worse", WORSE)
    for number in (1, 2):
        step = watched.night(number, **{"release_agent": "auto", **inputs})
    [issue] = github.issues.values()
    assert step.code in (0, 1)
    assert said in issue["body"]
    assert "look at what was merged" not in issue["body"]


@WHOLE_JOB
def test_a_release_of_a_commit_that_is_not_there_is_said(watched: Watched, github: FakeGitHub) -> None:
    step = watched._evaluated(302, "a" * 40, "push", drift_release="")
    (watched.top / "release.zip").write_bytes(step.archive)
    watched.commit("worse", WORSE)
    for number in (1, 2):
        watched.night(number, release_agent="auto")
    [issue] = github.issues.values()
    assert re.search("its commit `a{12}` is not among those that the checkout comes from", issue["body"])
