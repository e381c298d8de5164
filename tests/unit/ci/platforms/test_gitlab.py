"""The job on GitLab: forks, tokens and artifacts; the note, which commands nobody; the variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.ci.config import INPUTS, OUTPUTS
from agent_eval.ci.platforms.gitlab import MAX_VALUE, MergeRequestNotes, dotenv, without_quick_actions
from agent_eval.ci.rest import Connector
from agent_eval.errors import RemoteError
from agent_eval.text.escape import code_span, fence, plain, prose
from tests.e2e.runner import order, orders
from tests.fakes.gitlab import FORK, PROJECT, SOMEONE_ELSE, TOKEN, FakeGitLab
from tests.security.github_markdown import NASTY
from tests.unit.ci.platforms.builds import GitLabRunner, at_work, contract, served

JOB_TOKEN = {"gitlab_token": ""}
"""The job's own token is all that it has."""
REFUSED = "has secrets and would run a fork's code"


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    yield from served(FakeGitLab(contract("gitlab")))


@pytest.fixture
def runner(tmp_path: Path, gitlab: FakeGitLab, monkeypatch: pytest.MonkeyPatch) -> GitLabRunner:
    return at_work(GitLabRunner(tmp_path, gitlab), monkeypatch)


def test_job_token__finds_the_baseline_and_writes_no_note(runner: GitLabRunner) -> None:
    assert runner.push(400).code == 0
    runner.write_suite(*orders(bad=(2,)))
    step = runner.merge_request(**JOB_TOKEN)
    assert step.code == 1, step.log
    assert "order-2" in step.report
    assert "merge base" in step.report
    assert runner.gitlab.bodies() == []
    assert "set `gitlab-token`" in step.log


@pytest.mark.parametrize(
    "fields",
    [
        *({"source": of} for of in ("merge_request_event", "parent_pipeline", "external_pull_request_event")),
        *({"project_id": FORK}, {"ref": "topic"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("inputs", [{}, JOB_TOKEN], ids=["project", "job"])
def test_untrusted__pipelines_at_the_merge_base_are_passed_over(
    runner: GitLabRunner, gitlab: FakeGitLab, fields: dict[str, object], inputs: dict[str, str]
) -> None:
    runner.push(400)
    gitlab.pipelines[400].update(fields)
    assert "First run: nothing to compare with" in runner.merge_request(**inputs).report
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


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ({"gitlab_token": "glpat-wrong"}, 4, "not accepted"),
        ({"source": FORK}, 2, REFUSED),
        ({"environ": {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": ""}}, 2, REFUSED),
        ({"baseline": "run:399"}, 2, "no pipeline 399"),
    ],
    ids=["wrong token", "fork's pipeline in the project", "deleted fork", "named pipeline is not there"],
)
def test_what_cannot_be_evaluated__is_an_error_that_says_why(
    runner: GitLabRunner, how: dict[str, Any], code: int, said: str
) -> None:
    step = runner.merge_request(**how)
    assert (step.code, said in step.log) == (code, True), step.log


def test_job_token__without_premium_says_which_token_is_needed(runner: GitLabRunner) -> None:
    runner.gitlab.premium = False
    runner.push(400, **JOB_TOKEN)
    step = runner.merge_request(**JOB_TOKEN)
    assert step.code == 4
    assert "scope `read_api`" in step.report
    assert "Premium" in step.report


def test_fork__pipeline_in_the_fork_writes_no_note_and_has_no_history(runner: GitLabRunner) -> None:
    runner.push(400)
    runner.gitlab.fail("GET", "/jobs", 404, times=9)
    step = runner.merge_request(source=FORK, runs_in=FORK, **JOB_TOKEN)
    assert step.code == 0, step.log
    assert runner.gitlab.bodies() == []
    assert "whose token may not read" in step.report


def merged(kind: str, head: str, commit: str, **more: str) -> dict[str, str]:
    """Variables of a pipeline of the merged result."""
    variables = {"EVENT_TYPE": kind, "SOURCE_BRANCH_SHA": head, **more}
    named = {f"CI_MERGE_REQUEST_{name}": value for name, value in variables.items()}
    return {"CI_COMMIT_SHA": commit, **named}


@pytest.mark.parametrize("kind", ["merged_result", "merge_train"])
def test_merged_results__are_reported_for_the_head_of_the_source_branch(
    runner: GitLabRunner, gitlab: FakeGitLab, kind: str
) -> None:
    runner.merge_request(environ=merged(kind, "e" * 40, "f" * 40))
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
    step = runner.merge_request(environ=merged("merged_result", change, trial, DIFF_BASE_SHA=runner.earlier))
    assert step.code == 0, step.log
    assert "run 401" in step.log


def test_note__of_another_author_is_never_replaced(runner: GitLabRunner, gitlab: FakeGitLab) -> None:
    forged = "<!-- agent-eval id=default run=1 attempt=1 -->\nmine"
    gitlab.add_note(forged, author=SOMEONE_ELSE)
    runner.merge_request()
    assert gitlab.bodies()[0] == forged
    assert len(gitlab.bodies()) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_note__that_is_refused_leaves_the_decision(runner: GitLabRunner, status: int) -> None:
    runner.gitlab.fail("POST", "/notes", status, times=9)
    step = runner.merge_request()
    assert (step.code, "Warning: " in step.log) == (0, True)


ACTIONS = (
    *("/merge", "/approve", "/close", "/assign @all", "/label ~security"),
    *("/merge\n```\n/merge\n```", "```\n/merge", "````\n/merge\n````", "~~~\n/merge\n~~~"),
    *(" /merge", "\t/merge", "\u00a0/merge", "\r/merge", "\r\n/merge\r\n", "x\u2028/merge", "x\x0b/merge"),
    *("<!--\n/merge\n-->", "`\n/merge\n`", "<pre>\n/merge\n</pre>", "> /merge"),
)
SETTINGS = {"text": str, "code": code_span, "block": fence, "name": plain, "sentence": prose}


@pytest.fixture
def notes(gitlab: FakeGitLab) -> MergeRequestNotes:
    api = Connector().open(gitlab.url, {"PRIVATE-TOKEN": TOKEN}, name="GitLab", field="gitlab-api-url")
    return MergeRequestNotes(api, PROJECT, 7, "")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_quick_action__is_text(
    notes: MergeRequestNotes, gitlab: FakeGitLab, action: str, setting: str
) -> None:
    written = notes.create(f"# Report\n\n{SETTINGS[setting](action)}\n\nend")
    notes.update(written.id, f"{SETTINGS[setting](action)}\n{fence(action)}\n{action}")
    assert gitlab.obeyed == []
    assert len(gitlab.notes) == 1


def test_quick_action__that_is_not_rewritten_would_be_obeyed(
    notes: MergeRequestNotes, gitlab: FakeGitLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.ci.platforms.gitlab.without_quick_actions", str)
    with pytest.raises(RemoteError, match="not what GitLab documents"):
        notes.create(fence("```\n/merge\n```"))
    number = gitlab.add_note("before")
    with pytest.raises(RemoteError, match="not what GitLab documents"):
        notes.update(number, "text\n/close")
    assert (gitlab.obeyed, gitlab.notes) == (["/merge", "/close"], {})


@given(st.text(alphabet="/`~ \n\r\tam<>!-", max_size=60))
def test_no_line__begins_with_a_slash(text: str) -> None:
    assert not any(line.lstrip().startswith("/") for line in without_quick_actions(text).splitlines())


def test_text_without_slashes__stays_as_it_is() -> None:
    text = "# Report\n\n- a/b\n\n```text\nx\n```\nhttps://example.org/x\n"
    assert without_quick_actions(text) == text


def test_agents_answer__of_quick_actions_in_the_whole_job(runner: GitLabRunner, gitlab: FakeGitLab) -> None:
    answer = "\n".join(ACTIONS)
    good = [order(number, output=answer) for number in range(1, 5)]
    runner.write_suite(*good)
    runner.push(400)
    runner.write_suite(*good[:3], order(4, escalates=True, output=answer))
    assert runner.merge_request().code == 1
    assert gitlab.obeyed == []
    assert len(gitlab.bodies()) == 1


LINE = re.compile(r"AGENT_EVAL_RESULT_[A-Z0-9_]+=[A-Za-z0-9 ._:/@+=,#?&~-]*")


def variables(runner: GitLabRunner) -> dict[str, str]:
    """The variables as GitLab reads them, which refuses what is no `NAME=value`."""
    text = (runner.out / "agent-eval.env").read_text()
    assert text.endswith("\n")
    lines = text.splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    named = (line.split("=", 1) for line in lines)
    return {name.removeprefix("AGENT_EVAL_RESULT_"): value for name, value in named}


def test_later_jobs_read_how_the_job_ended(runner: GitLabRunner) -> None:
    runner.push(400)
    runner.write_suite(*orders(bad=(2,)))
    runner.merge_request()
    found = variables(runner)
    assert (found["OUTCOME"], found["PASSED"], found["PASS_RATE"]) == ("failed", "false", "0.75")
    assert (found["REGRESSED_CASES"], found["BASELINE_RUN_ID"]) == ("1", "400")
    assert found["COMMENT_URL"].startswith("https://gitlab.example/acme/shop/")
    assert len(found) == len(OUTPUTS)


def test_a_job_that_evaluated_nothing_says_so_too(runner: GitLabRunner) -> None:
    assert runner.merge_request(source=FORK).code == 2
    assert variables(runner)["OUTCOME"] == "error"


@pytest.mark.parametrize(
    "text", [*NASTY, "a\nPATH=/evil", "a\r\nLD_PRELOAD=x", "$CI_JOB_TOKEN", "${X}", "`id`", "x" * 999]
)
def test_no_value_begins_another_variable_or_names_one(text: str) -> None:
    report, outcome = dotenv({"report": text, "outcome": "failed"}).splitlines()
    assert LINE.fullmatch(report)
    assert not {"$", "`"} & set(report)
    assert len(report) <= MAX_VALUE + len("AGENT_EVAL_RESULT_REPORT=")
    assert outcome == "AGENT_EVAL_RESULT_OUTCOME=failed"


def test_all_variables_together_are_what_gitlab_takes() -> None:
    written = dotenv({row.name: "x" * 10_000 for row in OUTPUTS})
    assert len(written) <= 5 << 10
    assert len(OUTPUTS) <= 20
    assert not {line.partition("=")[0] for line in written.splitlines()} & {row.variable for row in INPUTS}


def test_the_file_is_not_written_through_a_link_outside(runner: GitLabRunner, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    runner.out.symlink_to(outside)
    assert runner.merge_request().code == 2
    assert list(outside.iterdir()) == []
