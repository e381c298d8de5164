"""The job on Buildkite: first run, unchanged, regressed, forks, tokens, and the annotation."""

from __future__ import annotations

import pytest

from agent_eval.ci.platforms.buildkite import same_repository
from tests.e2e.runner import orders
from tests.fakes.buildkite import FakeBuildkite
from tests.unit.ci.platforms.build_runner import EVIDENCE
from tests.unit.ci.platforms.buildkite.runner import FORK, BuildkiteRunner


def test_annotation__has_the_style_of_the_outcome(runner: BuildkiteRunner) -> None:
    assert runner.pull_request().code == 0
    assert runner.annotation()[0] == "info"
    runner.push(400)
    assert runner.pull_request().code == 0
    assert runner.annotation()[0] == "success"
    runner.write_suite(*orders(bad=(2,)))
    assert runner.pull_request().code == 1
    style, body = runner.annotation()
    assert (style, "order-2" in body) == ("error", True)


@pytest.mark.parametrize(
    "fields",
    [
        {"pull_request": {"id": "12", "base": "main", "repository": FORK}},
        {"branch": "topic"},
        {"state": "canceled"},
        {"state": "blocked"},
    ],
    ids=str,
)
def test_untrusted__builds_at_the_merge_base_are_passed_over(
    runner: BuildkiteRunner, buildkite: FakeBuildkite, fields: dict[str, object]
) -> None:
    runner.push(400)
    buildkite.builds[400].update(fields)
    assert "no finished run of the base" in runner.pull_request().report
    assert buildkite.count("GET", "/artifacts") == 0


def test_empty_pull_request__is_none(runner: BuildkiteRunner, buildkite: FakeBuildkite) -> None:
    runner.push(400)
    buildkite.builds[400]["pull_request"] = {}
    assert "merge base" in runner.pull_request().report


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "expired"}, "have expired"),
        ({"state": "new"}, "left no artifact"),
        ({"path": "other/evidence.zip"}, "left no artifact"),
        ({"file_size": 1 << 40}, "too large"),
        ({"sha1sum": "0" * 40}, "not what Buildkite recorded"),
    ],
    ids=str,
)
def test_artifacts__that_cannot_be_used_are_passed_over_and_said(
    runner: BuildkiteRunner, buildkite: FakeBuildkite, fields: dict[str, object], said: str
) -> None:
    runner.push(400)
    next(iter(buildkite.artifacts.values()))[1].update(fields)
    assert said in runner.pull_request().report


def test_several_artifacts__of_one_build_are_not_chosen_between(
    runner: BuildkiteRunner, buildkite: FakeBuildkite
) -> None:
    runner.push(400)
    buildkite.add_artifact(400, EVIDENCE, b"another")
    assert "Several jobs" in runner.pull_request().report


def test_fork__without_a_token_is_judged_by_the_absolute_rules(runner: BuildkiteRunner) -> None:
    runner.push(400)
    step = runner.pull_request(source=FORK, buildkite_token="")
    assert step.code == 0, step.log
    assert "has no token" in step.report


@pytest.mark.parametrize("source", [FORK, "", "git@git.example:acme/shop-evil.git"])
def test_fork__beside_a_token_is_refused(runner: BuildkiteRunner, source: str) -> None:
    step = runner.pull_request(source=source)
    assert step.code == 2
    assert "has secrets and would run a fork's code" in step.log


def test_no_token__is_an_error_and_no_missing_baseline(runner: BuildkiteRunner) -> None:
    step = runner.pull_request(buildkite_token="")
    assert step.code == 4
    assert "Set `buildkite-token`" in step.report


@pytest.mark.parametrize(
    ("status", "said"), [(401, "not accepted"), (403, "read_builds"), (404, "read_builds")]
)
def test_refused__listing_is_an_error_that_names_the_remedy(
    runner: BuildkiteRunner, buildkite: FakeBuildkite, status: int, said: str
) -> None:
    buildkite.fail("GET", "/builds$", status, times=9)
    step = runner.pull_request()
    assert step.code == 4
    assert said in step.report


def test_annotation__that_fails_leaves_the_decision(runner: BuildkiteRunner) -> None:
    step = runner.pull_request(environ={"BUILDKITE_AGENT_ACCESS_TOKEN": "other"})
    assert step.code == 0
    assert "The build was not annotated" in step.log
    assert "no token" in step.log


def test_annotation__without_the_agents_program_says_so(runner: BuildkiteRunner) -> None:
    step = runner.pull_request(environ={"PATH": runner.repository.environ["PATH"]})
    assert step.code == 0
    assert "`buildkite-agent` is on the PATH" in step.log


def test_head__that_is_not_stated_is_that_of_the_checkout(runner: BuildkiteRunner) -> None:
    step = runner.pull_request(environ={"BUILDKITE_COMMIT": "HEAD"})
    assert runner.repository.git("rev-parse", "HEAD")[:7] in step.report


def test_named__build_is_the_baseline(runner: BuildkiteRunner) -> None:
    runner.push(400)
    assert "named run" in runner.pull_request(baseline="run:400").report
    step = runner.pull_request(501, baseline="run:399")
    assert step.code == 2
    assert "no build 399" in step.log


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("git@h.example:a/b.git", "https://h.example/a/b", True),
        ("ssh://git@h.example:22/a/b.git", "git://h.example/a/b.git", True),
        ("https://token@h.example/a/b/", "https://H.example/A/B", True),
        ("git@h.example:a/b.git", "git@h.example:a/c.git", False),
        ("git@h.example:a/b.git", "git@evil.example:a/b.git", False),
        ("", "", False),
    ],
)
def test_addresses__of_one_repository(first: str, second: str, same: bool) -> None:
    assert same_repository(first, second) is same
