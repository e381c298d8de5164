"""The watch over main on GitLab: one issue that opens, is kept up to date, and closes itself."""

from __future__ import annotations

import random
import shutil

import pytest

from tests.e2e.nights import BAD, CASES, GOOD, LENIENT, agent_at
from tests.e2e.runner import orders
from tests.fakes.gitlab import SOMEONE_ELSE, FakeGitLab
from tests.unit.ci.platforms.gitlab.runner import GitLabRunner, Step

DROP, FIX, LAST, SEED = 10, 16, 30, 0
ILL = orders(CASES, bad=tuple(range(1, 21)))
MARKER = "<!-- agent-eval-drift id=default run=1 attempt=1 up=shop:0/0 -->\n\nours"


@pytest.fixture
def released(runner: GitLabRunner) -> GitLabRunner:
    """A project whose main has a release to be held against."""
    for number in range(2):
        runner.write_suite(*orders(CASES, bad=(1, 2)))
        runner.push(100 + number, **LENIENT)
        out = runner.repository.top / "agent-eval-out" / "shop"
        shutil.copytree(out, runner.repository.top / "release" / f"run-{number}")
    return runner


def night(runner: GitLabRunner, number: int, cases: list[dict[str, object]], **inputs: str) -> Step:
    runner.write_suite(*cases)
    given = {**LENIENT, "drift_release": "release", **inputs}
    return runner.push(1_000 + number, source="schedule", **given)


def test_a_season_with_a_drop_opens_one_issue_and_closes_it(
    released: GitLabRunner, gitlab: FakeGitLab
) -> None:
    source = random.Random(SEED)
    states = []
    for number in range(LAST):
        night(released, number, agent_at(BAD if DROP <= number < FIX else GOOD, source))
        states.append([row["state"] for row in gitlab.issues.values()])
    opened = states.index(["opened"])
    closed = states.index(["closed"])
    assert opened - DROP + 1 in (1, 2, 3)
    assert closed > FIX
    assert states == [[]] * opened + [["opened"]] * (closed - opened) + [["closed"]] * (LAST - closed)
    assert (gitlab.count("POST", "/issues"), gitlab.count("PUT", "/issues")) == (1, closed - opened)
    assert gitlab.obeyed == []


def test_an_issue_of_another_account_with_our_marker_is_not_ours(
    released: GitLabRunner, gitlab: FakeGitLab
) -> None:
    forged = gitlab.add_issue(MARKER, author=SOMEONE_ELSE)
    night(released, 1, ILL)
    assert len(gitlab.issues) == 2
    assert gitlab.issues[forged]["description"] == MARKER


def test_a_line_that_would_be_obeyed_is_not(released: GitLabRunner, gitlab: FakeGitLab) -> None:
    night(released, 1, ILL, report_title="/close")
    assert gitlab.obeyed == []
    assert [row["state"] for row in gitlab.issues.values()] == ["opened"]


@pytest.mark.parametrize(
    ("inputs", "scopes", "said"),
    [
        ({"gitlab_token": ""}, {"api"}, "The job's own token may not write issues. Set `gitlab-token`"),
        ({}, {"read_api"}, "it needs the scope `api` and the role Reporter"),
    ],
)
def test_a_token_that_may_not_is_named_and_the_loss_is_in_the_report(
    released: GitLabRunner, gitlab: FakeGitLab, inputs: dict[str, str], scopes: set[str], said: str
) -> None:
    gitlab.scopes = scopes
    step = night(released, 1, ILL, **inputs)
    assert said in step.log
    assert "lost quality since the release" in step.report
    assert gitlab.issues == {}


def test_a_push_writes_no_issue(released: GitLabRunner, gitlab: FakeGitLab) -> None:
    released.write_suite(*ILL)
    released.push(2_000, drift_release="release", **LENIENT)
    assert gitlab.count("GET", "/issues") == 0
