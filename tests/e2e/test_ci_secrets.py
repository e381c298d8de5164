"""A token that an agent repeats reaches neither comment nor summary, outputs, log or evidence."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.runner import PULL, Runner, Step, order, unzipped
from tests.fakes.github import TOKEN, FakeGitHub

FORMS = {
    "as it is": TOKEN,
    "base64": base64.b64encode(TOKEN.encode()).decode(),
    "percent-encoded": quote(f"x {TOKEN}&", safe=""),
    "json in json": json.dumps({"authorization": f'Bearer "{TOKEN}"'}),
}
PASSWORD = 'pass/wörd "quoted"'


def everything(step: Step, github: FakeGitHub, workspace: Path) -> dict[str, bytes]:
    """All that the job wrote and said."""
    found = {
        str(path): path.read_bytes() for path in (workspace / "agent-eval-out").rglob("*") if path.is_file()
    }
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
