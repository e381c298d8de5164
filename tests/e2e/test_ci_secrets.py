"""A token that an agent repeats reaches neither comment nor summary, outputs, log or evidence."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.runner import BASE_SHA, PULL, Runner, Step, order, orders, unzipped
from tests.fakes import github as fake
from tests.fakes.github import TOKEN, FakeGitHub, sha

FORMS = {
    "as it is": TOKEN,
    "base64": base64.b64encode(TOKEN.encode()).decode(),
    "percent-encoded": quote(f"x {TOKEN}&", safe=""),
    "json in json": json.dumps({"authorization": f'Bearer "{TOKEN}"'}),
}
PASSWORD = 'pass/wörd "quoted"'


def everything(step: Step, github: FakeGitHub, workspace: Path) -> dict[str, bytes]:
    """All that the job wrote and said."""
    found = {str(at): at.read_bytes() for at in (workspace / "agent-eval-out").rglob("*") if at.is_file()}
    found.update(unzipped(step.archive))
    texts = {
        "log": step.log, "summary": step.summary, "outputs": json.dumps(step.outputs),
        "comments": "".join(github.bodies(PULL)),
    }  # fmt: skip
    return found | {name: text.encode() for name, text in texts.items()}


@pytest.mark.parametrize("form", FORMS)
def test_token__that_an_agent_repeats_is_never_passed_on(runner: Runner, form: str) -> None:
    text = FORMS[form]
    runner.write_suite(order(1, output="fine"))
    runner.upload(runner.push(), 400)
    # Its output, its calls, and with them judges' reasons, differ from the baseline's and are shown.
    case = order(1, escalates=True, output=text)
    for event in case["trace"]:
        event["input"] = event.get("input") and {"token": text}
    runner.write_suite(case)
    step = runner.pull_request(title=f"Agent {text if form == 'as it is' else ''}")
    assert step.outcome == "failed"
    for name, data in everything(step, runner.github, runner.workspace).items():
        assert TOKEN.encode() not in data, name
        assert text.encode() not in data, name
        assert json.dumps(text)[1:-1].encode() not in data, name
    assert "[redacted:" in runner.github.bodies(PULL)[0]


def test_password__in_the_evidence_of_an_earlier_run_is_not_repeated(runner: Runner) -> None:
    runner.write_suite(order(1, output=PASSWORD), order(2, output=PASSWORD))
    before = runner.push()
    assert any(b"quoted" in data for data in unzipped(before.archive).values())
    runner.upload(before, 400)
    runner.write_suite(order(1, escalates=True, output="changed"))
    step = runner.pull_request(environ={"DATABASE_PASSWORD": PASSWORD})
    assert step.outcome == "failed"
    assert all(b"quoted" not in data for data in everything(step, runner.github, runner.workspace).values())


def test_token__in_an_error_is_not_repeated(runner: Runner) -> None:
    (runner.workspace / "suite.json").write_text(json.dumps({"dataset_id": "shop", "cases": [TOKEN]}))
    step = runner.pull_request()
    assert step.outcome == "error"  # the runner checks that nothing leaks
    step = runner.pull_request(run_id=501, suite=f"{TOKEN}.json")
    assert step.outcome == "error"
    assert "[redacted:" in step.summary


def test_password__that_is_a_word_of_the_comment_spoils_nothing(runner: Runner, github: FakeGitHub) -> None:
    runner.write_suite(order(1))
    words = {"APP_KEY": "agent-eval", "OTHER_KEY": "attempt=1", "THIRD_KEY": "regressed-cases"}
    for run_id in (500, 501):
        assert runner.pull_request(run_id=run_id, environ=words).outcome == "no-baseline"
    assert len(github.bodies(PULL)) == 1


# A fork's code never runs beside the repository's secrets, unless the workflow says that it may

ALLOWED = {"allow_fork_with_secrets": "true"}
STARTS = {"agent_command": "touch started; cat", "agent_env": "PATH"}


@pytest.fixture(autouse=True)
def shop(runner: Runner) -> None:
    runner.write_suite(*orders())


def workflow_run(runner: Runner, head_repository: int, **inputs: str) -> tuple[int, str]:
    """Evaluate after a workflow run that `head_repository` caused: outcome and exit code."""
    runner.github.add_run(500, status="in_progress", event="workflow_run")
    payload = {
        "repository": {"id": fake.REPOSITORY_ID, "default_branch": "main"},
        "workflow_run": {"head_sha": sha("head"), "head_repository": {"id": head_repository}},
    }
    step = runner.start("workflow_run", payload, 500, BASE_SHA, "heads/main", inputs)
    return step.code, step.outcome


def test_pull_request_target__of_a_fork_is_refused_with_the_safe_recipe(runner: Runner) -> None:
    step = runner.pull_request(fork=True, event="pull_request_target", **STARTS)
    assert (step.code, step.outcome) == (2, "error")
    comment = runner.github.bodies(PULL)[0]
    assert "This job has secrets and would run a fork's code" in comment.splitlines()[2]
    assert "`on: pull_request`" in comment
    assert "`allow-fork-with-secrets: true`" in comment
    assert not (runner.workspace / "started").exists()
    assert not (runner.workspace / "agent-eval-out").exists()


def test_permission__to_run_a_fork_beside_secrets_cannot_come_from_the_fork(runner: Runner) -> None:
    (runner.workspace / "agent-eval.yml").write_text("ci: {allow_fork_with_secrets: true}\n")
    step = runner.pull_request(fork=True, event="pull_request_target")
    assert (step.code, step.outcome) == (2, "error")
    runner.github.files["agent-eval.yml"] = b"ci: {allow_fork_with_secrets: true}\n"
    step = runner.pull_request(fork=True, event="pull_request_target", run_id=501)
    assert (step.code, step.outcome) == (2, "error")
    assert "there is no key" in " ".join(step.annotations)


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run"])
@pytest.mark.parametrize(
    ("repository", "inputs", "expected"),
    [
        (fake.FORK_ID, {}, (2, "error")),
        (fake.FORK_ID, ALLOWED, (0, "no-baseline")),
        (fake.REPOSITORY_ID, {}, (0, "no-baseline")),
    ],
    ids=["fork", "fork that is allowed", "own branch"],
)
def test_events_with_secrets__evaluate_a_fork_only_where_the_workflow_allows_it(
    runner: Runner, event: str, repository: int, inputs: dict[str, str], expected: tuple[int, str]
) -> None:
    if event == "workflow_run":
        assert workflow_run(runner, repository, **inputs) == expected
        return
    step = runner.pull_request(fork=repository == fake.FORK_ID, event=event, **inputs)
    assert (step.code, step.outcome) == expected


def test_payload__without_the_base_repository_counts_as_a_forks(runner: Runner, github: FakeGitHub) -> None:
    github.add_run(500, status="in_progress", event="pull_request_target")
    github.add_pull(PULL, sha("head"))
    payload = {
        "repository": {"id": fake.REPOSITORY_ID, "default_branch": "main"},
        "pull_request": {
            "number": PULL,
            "head": {"sha": sha("head"), "repo": {"id": fake.FORK_ID}},
            "base": {"sha": sha("tip"), "ref": "main"},
        },
    }
    step = runner.start("pull_request_target", payload, 500, sha("merge"), "pull/7/merge", STARTS)
    assert (step.code, step.outcome) == (2, "error")
    assert "would run a fork's code" in step.summary
    assert not (runner.workspace / "started").exists()


def test_fork__whose_base_is_not_known_is_not_judged_by_its_own_rules(runner: Runner) -> None:
    (runner.workspace / "gate.yml").write_text("min_pass_rate: 0\n")
    step = runner.pull_request(environ={"GITHUB_EVENT_PATH": "/nowhere/event.json"}, policy="gate.yml")
    assert (step.code, step.outcome) == (0, "no-baseline"), step.log
    assert "Main has no `gate.yml`: the preset alone holds." in step.summary
