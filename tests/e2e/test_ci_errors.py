"""What `agent-eval ci` does when it cannot evaluate: one clear error wherever people look."""

import json
import sys
from typing import Any

import pytest

from tests.e2e.program import tree
from tests.e2e.runner import BASE_SHA, PULL, Runner, orders, unzipped
from tests.fakes.github import REPOSITORY_ID, FakeGitHub


@pytest.fixture(autouse=True)
def suite(runner: Runner) -> None:
    runner.write_suite(*orders())


REFUSED: dict[str, tuple[int, str, dict[str, Any]]] = {
    "a rate": (2, "min-pass-rate", {"min_pass_rate": "NaN"}),
    "an id": (2, "comment-id", {"comment_id": "a b", "silent": True}),
    "an address": (2, "https", {"github_api_url": "http://example.org", "silent": True}),
    "a word": (2, "fail-on", {"comment": "never", "fail_on": "tuesday", "silent": True}),
    "a suite": (2, "missing.json", {"suite": "missing.json"}),
    "a judge": (2, "no_such_judge", {"judges": "no_such_judge"}),
    "two suites of one dataset": (2, "twin.json", {"suite": "suite.json\ntwin.json"}),
    "a file that cannot be read": (2, "agent-eval.yml", {"files": {"agent-eval.yml": "ci: [\n"}}),
    "a variable": (
        2, "AGENT_EVAL_MIN_PASRATE is no input of the job", {"environ": {"AGENT_EVAL_MIN_PASRATE": "0.9"}},
    ),
    "a directory with somebody else's report": (2, "report.md", {"out": ".", "files": {"report.md": "mine"}}),
    "a directory below a file": (4, "occupied", {"out": "occupied/deep", "files": {"occupied": "a file"}}),
}  # fmt: skip
"""By what is wrong: exit code, words, and how the job starts; `silent` where it cannot comment on it."""


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong__is_refused_before_anything_happens(runner: Runner, what: str) -> None:
    code, said, how = REFUSED[what]
    runner.write_suite(*orders(), name="twin.json")
    files = how.get("files", {})
    for name, text in files.items():
        (runner.workspace / name).write_text(text)
    is_silent = "silent" in how
    step = runner.pull_request(**{name: how[name] for name in how.keys() - {"files", "silent"}})
    assert (step.code, step.outcome, step.outputs["passed"]) == (code, "error", "false")
    assert any(said in line for line in step.annotations), step.annotations
    assert "Not evaluated: " in step.summary
    assert said in step.summary.replace("`", "")
    assert what != "a variable" or "Did you mean AGENT_EVAL_MIN_PASS_RATE?" in step.summary
    assert not (runner.workspace / "agent-eval-out").exists()
    assert {name: (runner.workspace / name).read_text() for name in files} == files
    assert not runner.github.downloads
    comments = runner.github.bodies(PULL)
    assert bool(step.outputs["comment-url"]) == bool(comments) == (not is_silent)
    assert is_silent or said in comments[0].replace("`", "")


@pytest.mark.parametrize(
    ("file", "inputs"),
    [("ci: {comment_id: nightly}\nnope: 1\n", {}), ("ci: {comment_id: nightly}\n", {"min_pass_rate": "NaN"})],
)
def test_wrong_settings__replace_what_an_earlier_run_said(
    runner: Runner, github: FakeGitHub, file: str, inputs: dict[str, str]
) -> None:
    github.files["agent-eval.yml"] = b"ci: {comment_id: nightly}\n"
    (runner.workspace / "agent-eval.yml").write_text("ci: {comment_id: nightly}\n")
    runner.pull_request(run_id=500, min_pass_rate="0.5")
    assert "passed" in github.bodies(PULL)[0]
    (runner.workspace / "agent-eval.yml").write_text(file)
    assert runner.pull_request(run_id=501, **inputs).code == 2
    [comment] = github.bodies(PULL)
    assert "Not evaluated: " in comment


def test_threshold__that_is_an_empty_flag_removes_no_rule(runner: Runner) -> None:
    command = (sys.executable, "-m", "agent_eval", "ci", "--min-pass-rate", "", "--suite", "suite.json")
    step = runner.start("", {}, 1, "", "", {}, environ={"GITHUB_ACTIONS": ""}, command=command)
    assert step.code == 2
    assert "--min-pass-rate is empty" in step.log


def test_pull_request__that_the_payload_does_not_name_is_said(runner: Runner, github: FakeGitHub) -> None:
    side = {"sha": BASE_SHA, "repo": {"id": REPOSITORY_ID}}
    payload = runner.root / "event.json"
    payload.write_text(json.dumps({"pull_request": {"head": side, "base": side}}))
    step = runner.pull_request(environ={"GITHUB_EVENT_PATH": str(payload)})
    assert step.code == 0
    assert any("names no pull request" in line for line in step.annotations)
    assert github.bodies(PULL) == []


def test_pull_request__without_a_payload_is_not_judged_by_its_own_rules(runner: Runner) -> None:
    runner.github.files["agent-eval.yml"] = b"policy: {min_pass_rate: 1}\n"
    (runner.workspace / "agent-eval.yml").write_text("policy: {min_pass_rate: 0.1}\n")
    runner.write_suite(*orders(bad=(1,)))
    step = runner.pull_request(environ={"GITHUB_EVENT_PATH": "/nowhere/event.json"})
    assert (step.code, step.outcome) == (1, "failed")
    assert runner.github.bodies(PULL) == []


def test_wrong_token__is_not_taken_for_a_missing_permission(runner: Runner) -> None:
    step = runner.pull_request(github_token="wrong-token-of-nobody", max_regressed_cases="0")
    assert (step.code, step.outcome) == (4, "error")
    said = " ".join(step.annotations)
    assert "was not accepted (HTTP 401)" in said
    assert "grant the job" not in said


def test_several_suites__of_which_one_is_wrong_leave_no_pack(runner: Runner) -> None:
    runner.write_suite(*orders(), name="a.json", dataset_id="shop")
    runner.write_suite(*orders(), name="b.json", dataset_id="help")
    assert runner.pull_request(run_id=500, suite="[ab].json").code == 0
    before = tree(runner.workspace / "agent-eval-out")
    runner.write_suite(*orders(bad=(1,)), name="a.json", dataset_id="shop")
    broken = orders()
    broken[0]["trace"][0]["idx"] = "x"
    runner.write_suite(*broken, name="b.json", dataset_id="help")
    assert runner.pull_request(run_id=501, suite="[ab].json").code == 2
    assert tree(runner.workspace / "agent-eval-out") == before


def test_wrong_settings__outside_ci_are_said_once(runner: Runner) -> None:
    step = runner.start("", {}, 1, "", "", {"min_pass_rate": "NaN"}, environ={"GITHUB_ACTIONS": ""})
    assert step.code == 2
    assert step.log.startswith("Error: min-pass-rate: 'NaN' is not")
    assert step.log.count("min-pass-rate:") == 1


def test_output_directory__that_is_a_link_out_of_the_workspace(runner: Runner) -> None:
    outside = runner.root / "outside"
    outside.mkdir()
    (runner.workspace / "agent-eval-out").symlink_to(outside)
    (runner.workspace / "folder").symlink_to(runner.root)
    for number, out in enumerate(("agent-eval-out", "agent-eval-out/deeper", "folder/outside")):
        step = runner.pull_request(run_id=500 + number, out=out)
        assert (step.code, step.outcome) == (2, "error")
        assert any("symbolic link" in line for line in step.annotations)
    assert list(outside.iterdir()) == []
    (runner.workspace / "inside").mkdir()
    (runner.workspace / "link").symlink_to(runner.workspace / "inside")
    assert runner.pull_request(run_id=510, out="link").outcome == "no-baseline"
    assert runner.pull_request(run_id=511, out=str(outside)).outcome == "no-baseline"


def test_nothing_to_judge__is_no_pass(runner: Runner, github: FakeGitHub) -> None:
    runner.write_suite()
    assert runner.pull_request().code == 2
    runner.write_suite(*orders())
    step = runner.pull_request(judges="regex", min_pass_rate="0")
    assert (step.code, step.outputs["passed"]) == (4, "false")
    assert "Not evaluated: nothing was judged (4 cases), and that is no pass" in github.bodies(PULL)[0]


def test_files_of_the_runner__that_cannot_be_written_are_warnings(runner: Runner, github: FakeGitHub) -> None:
    github.add_run(500, status="in_progress")
    environ = {"GITHUB_STEP_SUMMARY": "/proc/nowhere/x", "GITHUB_OUTPUT": "/proc/nowhere/y"}
    step = runner.start("push", {}, 500, BASE_SHA, "heads/main", {}, environ=environ)
    assert step.code == 0
    assert any("summary" in line for line in step.annotations)
    assert any("outputs" in line for line in step.annotations)


@pytest.mark.parametrize("inputs", [{}, {"fail_on": "never"}])
def test_no_token__is_an_error_unless_no_baseline_is_wanted(runner: Runner, inputs: dict[str, str]) -> None:
    step = runner.pull_request(github_token="", environ=runner.served(), **inputs)
    assert (step.code, step.outcome) == (4, "error")
    assert any("Set `github-token`" in line for line in step.annotations)
    [outcome] = [line for line in step.log.splitlines() if line.startswith("Outcome: ")]
    cause = "Outcome: error. The baseline could not be read: Without a token earlier runs cannot be read"
    assert outcome.startswith(cause)
    assert runner.github.requests == []
    # The evidence is there all the same.
    assert unzipped(step.archive)


def test_no_token__is_none_where_no_baseline_is_wanted(runner: Runner) -> None:
    inputs = {"github_token": "", "baseline": "none", "comment": "never"}
    step = runner.push(environ=runner.served(), **inputs)
    assert (step.code, step.outcome) == (0, "no-baseline")


def test_outside_ci__the_comment_is_a_file(runner: Runner, github: FakeGitHub) -> None:
    first = runner.start("", {}, 1, "", "", {"min_pass_rate": "1"}, environ={"GITHUB_ACTIONS": ""})
    assert first.code == 0
    assert "First run: nothing to compare with." in first.log
    assert "The comment, as it would be posted: agent-eval-out/comment.md" in first.log
    (runner.workspace / "agent-eval-out").rename(runner.workspace / "before")
    runner.write_suite(*orders(bad=(2,)))
    inputs = {"baseline": "before/evidence.zip"}
    second = runner.start("", {}, 2, "", "", inputs, environ={"GITHUB_ACTIONS": ""})
    assert second.code == 1
    assert "order-2" in second.log
    assert github.requests == []


def test_flags__do_the_same_as_inputs(runner: Runner) -> None:
    runner.write_suite(*orders(bad=(1,)))
    command = (sys.executable, "-m", "agent_eval", "ci", "--min-pass-rate", "0.9", "--suite", "suite.json")
    environ = {"GITHUB_ACTIONS": ""}
    step = runner.start("", {}, 1, "", "", {"min_pass_rate": "0.1"}, environ=environ, command=command)
    assert step.code == 1
    (runner.workspace / "agent-eval.yml").write_text("ci: {fail_on: never}\n")
    step = runner.start("", {}, 1, "", "", {}, environ=environ, command=command)
    assert step.code == 0
