"""The variables for later jobs: one on a line, whatever a value has, and none that is an input of a job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_eval.ci.config import INPUTS, OUTPUTS
from agent_eval.ci.platforms.gitlab import MAX_VALUE, dotenv
from tests.e2e.runner import orders
from tests.security.github_markdown import NASTY
from tests.unit.ci.platforms.gitlab.runner import FORK, GitLabRunner

LINE = re.compile(r"AGENT_EVAL_RESULT_[A-Z0-9_]+=[A-Za-z0-9 ._:/@+=,#?&~-]*")


def variables(runner: GitLabRunner) -> dict[str, str]:
    """The variables as GitLab reads them, which refuses what is no `NAME=value`."""
    text = (runner.repository.top / "agent-eval-out" / "agent-eval.env").read_text()
    assert text.endswith("\n")
    lines = text.splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    return dict(line.split("=", 1) for line in lines)


def test_later_jobs_read_how_the_job_ended(runner: GitLabRunner) -> None:
    runner.push(400)
    runner.write_suite(*orders(bad=(2,)))
    runner.merge_request()
    found = variables(runner)
    assert found["AGENT_EVAL_RESULT_OUTCOME"] == "failed"
    assert found["AGENT_EVAL_RESULT_PASSED"] == "false"
    assert found["AGENT_EVAL_RESULT_PASS_RATE"] == "0.75"
    assert found["AGENT_EVAL_RESULT_REGRESSED_CASES"] == "1"
    assert found["AGENT_EVAL_RESULT_BASELINE_RUN_ID"] == "400"
    assert found["AGENT_EVAL_RESULT_COMMENT_URL"].startswith("https://gitlab.example/acme/shop/")
    assert len(found) == len(OUTPUTS)


def test_a_job_that_evaluated_nothing_says_so_too(runner: GitLabRunner) -> None:
    assert runner.merge_request(source=FORK).code == 2
    assert variables(runner)["AGENT_EVAL_RESULT_OUTCOME"] == "error"


@pytest.mark.parametrize(
    "text", [*NASTY, "a\nPATH=/evil", "a\r\nLD_PRELOAD=x", "$CI_JOB_TOKEN", "${X}", "`id`", "x" * 999]
)
def test_no_value_begins_another_variable_or_names_one(text: str) -> None:
    written = dotenv({"report": text, "outcome": "failed"})
    report, outcome = written.splitlines()
    assert LINE.fullmatch(report)
    assert "$" not in report
    assert "`" not in report
    assert len(report) <= MAX_VALUE + len("AGENT_EVAL_RESULT_REPORT=")
    assert outcome == "AGENT_EVAL_RESULT_OUTCOME=failed"


def test_all_variables_together_are_what_gitlab_takes() -> None:
    written = dotenv({row.name: "x" * 10_000 for row in OUTPUTS})
    assert len(written) <= 5 << 10
    assert len(OUTPUTS) <= 20
    names = {line.partition("=")[0] for line in written.splitlines()}
    assert not names & {row.variable for row in INPUTS}


def test_the_file_is_not_written_through_a_link_out_of_the_checkout(
    runner: GitLabRunner, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (runner.repository.top / "agent-eval-out").symlink_to(outside)
    runner.write_suite(*orders())
    assert runner.merge_request().code == 2
    assert list(outside.iterdir()) == []
