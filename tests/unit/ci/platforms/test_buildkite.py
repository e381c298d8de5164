"""The job on Buildkite: forks, tokens, artifacts, and the annotation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci.platforms.buildkite import same_repository
from tests.e2e.runner import orders
from tests.fakes.buildkite import FakeBuildkite
from tests.unit.ci.platforms.builds import EVIDENCE, FORK, BuildkiteRunner, at_work, contract, served

REFUSED = "has secrets and would run a fork's code"


@pytest.fixture
def buildkite() -> Iterator[FakeBuildkite]:
    yield from served(FakeBuildkite(contract("buildkite")))


@pytest.fixture
def runner(tmp_path: Path, buildkite: FakeBuildkite, monkeypatch: pytest.MonkeyPatch) -> BuildkiteRunner:
    return at_work(BuildkiteRunner(tmp_path, buildkite), monkeypatch)


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
        *({"branch": "topic"}, {"state": "canceled"}, {"state": "blocked"}),
    ],
    ids=str,
)
def test_untrusted__builds_at_the_merge_base_are_passed_over(
    runner: BuildkiteRunner, buildkite: FakeBuildkite, fields: dict[str, object]
) -> None:
    runner.push(400)
    buildkite.builds[400].update(fields)
    assert "First run: nothing to compare with" in runner.pull_request().report
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


def test_several_artifacts__of_one_build_are_not_chosen_between(runner: BuildkiteRunner) -> None:
    runner.push(400)
    runner.buildkite.add_artifact(400, EVIDENCE, b"another")
    assert "Several jobs" in runner.pull_request().report


def test_fork__without_a_token_is_judged_by_the_absolute_rules(runner: BuildkiteRunner) -> None:
    runner.push(400)
    step = runner.pull_request(source=FORK, buildkite_token="")
    assert step.code == 0, step.log
    assert "has no token" in step.report


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        *(({"source": source}, 2, REFUSED) for source in (FORK, "", "git@git.example:acme/shop-evil.git")),
        ({"buildkite_token": ""}, 4, "Set `buildkite-token`"),
        ({"baseline": "run:399"}, 2, "no build 399"),
        ({"environ": {"BUILDKITE_AGENT_ACCESS_TOKEN": "other"}}, 0, "The build was not annotated"),
        ({"environ": {"BUILDKITE_AGENT_ACCESS_TOKEN": "other"}}, 0, "no token"),
        ({"environ": {"PATH": "/usr/local/bin:/usr/bin:/bin"}}, 0, "`buildkite-agent` is on the PATH"),
    ],
    ids=str,
)
def test_what_is_wrong__is_said_and_ends_the_job_unless_it_is_the_annotation(
    runner: BuildkiteRunner, how: dict[str, Any], code: int, said: str
) -> None:
    step = runner.pull_request(**how)
    assert (step.code, said in step.log + step.report) == (code, True), step.log


def test_refused__listing_is_an_error_that_names_the_remedy(runner: BuildkiteRunner) -> None:
    runner.buildkite.fail("GET", "/builds$", 403, times=9)
    step = runner.pull_request()
    assert (step.code, "read_builds" in step.report) == (4, True)


def test_head__that_is_not_stated_is_that_of_the_checkout(runner: BuildkiteRunner) -> None:
    step = runner.pull_request(environ={"BUILDKITE_COMMIT": "HEAD"})
    assert runner.repository.git("rev-parse", "HEAD")[:7] in step.report


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
