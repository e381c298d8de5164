"""The job on GitLab: first run, unchanged, regressed, forks, tokens, and the note on the merge request."""

from __future__ import annotations

import pytest

from tests.e2e.runner import orders
from tests.fakes.gitlab import SOMEONE_ELSE, FakeGitLab
from tests.unit.ci.platforms.gitlab.runner import FORK, GitLabRunner


@pytest.mark.parametrize("token", ["project", "job"])
def test_regressed__change_fails_the_job_and_says_so(
    runner: GitLabRunner, gitlab: FakeGitLab, token: str
) -> None:
    assert runner.push(400).code == 0
    runner.write_suite(*orders(bad=(2,)))
    step = runner.merge_request(**({} if token == "project" else {"gitlab_token": ""}))
    assert step.code == 1, step.log
    assert "order-2" in step.report
    assert "merge base" in step.report
    if token == "project":
        assert "order-2" in gitlab.bodies()[0]
    else:
        assert gitlab.bodies() == []
        assert "set `gitlab-token`" in step.log


@pytest.mark.parametrize(
    "fields",
    [
        {"source": "merge_request_event"},
        {"source": "parent_pipeline"},
        {"source": "external_pull_request_event"},
        {"project_id": FORK},
        {"ref": "topic"},
    ],
    ids=lambda fields: str(fields),
)
@pytest.mark.parametrize("token", ["project", "job"])
def test_untrusted__pipelines_at_the_merge_base_are_passed_over(
    runner: GitLabRunner, gitlab: FakeGitLab, fields: dict[str, object], token: str
) -> None:
    runner.push(400)
    gitlab.pipelines[400].update(fields)
    step = runner.merge_request(**({} if token == "project" else {"gitlab_token": ""}))
    assert "no finished run of the base" in step.report
    assert gitlab.count("GET", "/artifacts/") == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"artifacts_expire_at": "2026-01-13T07:59:00Z"}, "have expired"),
        ({"artifacts": []}, "left no artifacts"),
        ({"artifacts": [{"file_type": "archive", "filename": "a.zip", "size": 1 << 40}]}, "too large"),
        ({"name": "another"}, "has no finished job"),
    ],
)
def test_artifacts__that_cannot_be_used_are_passed_over_and_said(
    runner: GitLabRunner, gitlab: FakeGitLab, fields: dict[str, object], said: str
) -> None:
    runner.push(400)
    next(iter(gitlab.jobs.values())).update(fields)
    assert said in runner.merge_request().report


def test_job_token__without_premium_says_which_token_is_needed(
    runner: GitLabRunner, gitlab: FakeGitLab
) -> None:
    gitlab.premium = False
    runner.write_suite(*orders())
    runner.push(400, gitlab_token="")
    step = runner.merge_request(gitlab_token="")
    assert step.code == 4
    assert "scope `read_api`" in step.report
    assert "Premium" in step.report


def test_wrong_token__is_an_error_and_no_missing_baseline(runner: GitLabRunner, gitlab: FakeGitLab) -> None:
    step = runner.merge_request(gitlab_token="glpat-wrong")
    assert step.code == 4
    assert "not accepted" in step.log


def test_fork__pipeline_in_the_fork_writes_no_note_and_has_no_history(
    runner: GitLabRunner, gitlab: FakeGitLab
) -> None:
    runner.push(400)
    gitlab.fail("GET", "/jobs", 404, times=9)
    step = runner.merge_request(source=FORK, runs_in=FORK, gitlab_token="")
    assert step.code == 0, step.log
    assert gitlab.bodies() == []
    assert "whose token may not read" in step.report


def test_fork__pipeline_in_the_project_itself_is_refused(runner: GitLabRunner, gitlab: FakeGitLab) -> None:
    step = runner.merge_request(source=FORK)
    assert step.code == 2
    assert "has secrets and would run a fork's code" in step.log


def test_deleted_fork__counts_as_a_fork(runner: GitLabRunner) -> None:
    assert runner.merge_request(environ={"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": ""}).code == 2


@pytest.mark.parametrize("kind", ["merged_result", "merge_train"])
def test_merged_results__are_reported_for_the_head_of_the_source_branch(
    runner: GitLabRunner, gitlab: FakeGitLab, kind: str
) -> None:
    runner.merge_request(
        environ={
            "CI_MERGE_REQUEST_EVENT_TYPE": kind,
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "e" * 40,
            "CI_COMMIT_SHA": "f" * 40,
        }
    )
    assert f"sha={'e' * 40}" in gitlab.bodies()[0]


def test_merged_results__are_compared_with_the_tip_that_they_merge(runner: GitLabRunner) -> None:
    runner.push(400, commit=runner.earlier)
    runner.write_suite(*orders(bad=(2,)))
    runner.push(401, max_regressed_cases="4")
    git = runner.repository.git
    runner.repository.branch("topic", runner.earlier)
    change = runner.repository.commit()
    tree = git("rev-parse", f"{change}^{{tree}}")
    trial = git("commit-tree", "-m", "trial", "-p", runner.base, "-p", change, tree)
    runner.repository.check_out(trial)
    step = runner.merge_request(
        environ={
            "CI_MERGE_REQUEST_EVENT_TYPE": "merged_result",
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": change,
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": runner.earlier,
            "CI_COMMIT_SHA": trial,
        }
    )
    assert step.code == 0, step.log
    assert "run 401" in step.log


def test_note__is_updated_in_place_among_three_hundred(runner: GitLabRunner, gitlab: FakeGitLab) -> None:
    for number in range(299):
        gitlab.add_note(f"note {number}", author=SOMEONE_ELSE)
    runner.merge_request(500)
    runner.merge_request(501)
    assert len(gitlab.notes) == 300
    assert gitlab.count("PUT", "/notes/") == 1


def test_note__of_another_author_is_never_replaced(runner: GitLabRunner, gitlab: FakeGitLab) -> None:
    forged = "<!-- agent-eval id=default run=1 attempt=1 -->\nmine"
    gitlab.add_note(forged, author=SOMEONE_ELSE)
    runner.merge_request()
    assert gitlab.bodies()[0] == forged
    assert len(gitlab.bodies()) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_note__that_is_refused_leaves_the_decision(
    runner: GitLabRunner, gitlab: FakeGitLab, status: int
) -> None:
    gitlab.fail("POST", "/notes", status, times=9)
    step = runner.merge_request()
    assert step.code == 0
    assert "Warning: " in step.log


def test_named__pipeline_is_the_baseline(runner: GitLabRunner, gitlab: FakeGitLab) -> None:
    runner.push(400)
    assert "named run" in runner.merge_request(baseline="run:400").report
    step = runner.merge_request(baseline="run:399")
    assert step.code == 2
    assert "no pipeline 399" in step.log
