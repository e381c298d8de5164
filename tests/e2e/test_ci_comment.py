"""The one comment of `agent-eval ci` on a pull request."""

import pytest

from tests.e2e.runner import PULL, Runner, orders
from tests.fakes.github import FakeGitHub, sha


@pytest.fixture(autouse=True)
def suite(runner: Runner) -> None:
    runner.write_suite(*orders())


def test_second_commit__updates_the_comment_of_the_first(runner: Runner, github: FakeGitHub) -> None:
    first = runner.pull_request(run_id=500, head=sha("first"))
    github.add_pull(PULL, sha("second"))
    second = runner.pull_request(run_id=501, head=sha("second"))
    assert first.outputs["comment-url"] == second.outputs["comment-url"]
    [comment] = github.bodies(PULL)
    assert f"sha={sha('second')} run=501" in comment


def test_rerun_of_an_older_commit__leaves_the_newer_word(runner: Runner, github: FakeGitHub) -> None:
    runner.pull_request(run_id=500, head=sha("first"))
    github.add_pull(PULL, sha("second"))
    runner.pull_request(run_id=501, head=sha("second"))
    step = runner.pull_request(run_id=500, attempt=2, head=sha("first"))
    assert step.code == 0
    assert any("newer run" in line for line in step.annotations)
    assert step.outputs["comment-url"].endswith("#issuecomment-100")
    [comment] = github.bodies(PULL)
    assert f"sha={sha('second')} run=501" in comment


def test_fork__whose_token_may_only_read_is_no_failure(runner: Runner, github: FakeGitHub) -> None:
    github.permissions.discard("pull-requests: write")
    step = runner.pull_request(fork=True)
    assert (step.code, step.outcome) == (0, "no-baseline")
    assert any("fork" in line for line in step.annotations)
    assert "nothing to compare with" in step.summary
    assert "fork" in step.summary
    assert step.outputs["comment-url"] == ""


@pytest.mark.parametrize(("threshold", "code", "outcome"), [("1", 1, "failed"), ("0.5", 0, "no-baseline")])
def test_missing_permission__is_named_and_the_decision_stands(
    runner: Runner, github: FakeGitHub, threshold: str, code: int, outcome: str
) -> None:
    runner.write_suite(*orders(bad=(1,)))
    github.permissions.discard("pull-requests: write")
    step = runner.pull_request(min_pass_rate=threshold)
    assert (step.code, step.outcome) == (code, outcome)
    assert any("pull-requests: write" in line for line in step.annotations)
    assert "pull-requests: write" in step.summary
    assert github.bodies(PULL) == []


def test_comment__that_is_gone_meanwhile_is_written_again(runner: Runner, github: FakeGitHub) -> None:
    runner.write_suite(*orders())
    runner.pull_request(run_id=500)
    github.fail("PATCH", "/issues/comments/", 404)
    step = runner.pull_request(run_id=501)
    assert github.count("POST", "comments") == 2
    assert step.outputs["comment-url"]


def test_rate_limit__is_waited_for(runner: Runner, github: FakeGitHub) -> None:
    github.fail("POST", "/issues/7/comments", 429, headers={"Retry-After": "1"})
    github.fail(
        "GET", "/issues/7/comments", 403, headers={"Retry-After": "1"}, message="secondary rate limit"
    )
    assert runner.pull_request().outputs["comment-url"].endswith("#issuecomment-100")
    assert len(github.bodies(PULL)) == 1


def test_never__writes_no_comment_and_asks_nobody(runner: Runner, github: FakeGitHub) -> None:
    assert runner.pull_request(comment="never").outputs["comment-url"] == ""
    assert github.count("GET", "comments") + github.count("POST", "") == 0


def test_huge_report__fits_the_limit_and_the_summary_has_more(runner: Runner, github: FakeGitHub) -> None:
    bad = orders(600, bad=tuple(range(1, 601)))
    for case in bad:
        case["trace"][-1]["output"] = "said " * 400
    runner.write_suite(*bad)
    step = runner.pull_request(min_pass_rate="0.9")
    assert step.code == 1
    [comment] = github.bodies(PULL)
    assert len(comment) <= 65_536
    assert len(step.summary) > len(comment)
    assert len(step.summary.encode()) <= 1 << 20
