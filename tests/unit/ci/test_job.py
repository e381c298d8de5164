"""The whole job within this process, against a GitHub on localhost, and the page that it leaves."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci import job as whole
from agent_eval.ci.evaluate import evaluate
from agent_eval.ci.job import run_job, write_html
from agent_eval.ci.outputs import outputs_of, report_of
from agent_eval.ci.rules import JobContext
from agent_eval.errors import ExitCode, StorageError
from tests.e2e.runner import BASE_SHA, PULL, orders
from tests.factories import make_case, make_suite
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess
from tests.unit.ci.evaluations import evidence, job, write_suite
from tests.unit.reports.html.pages import packed_cases, parsed


@pytest.fixture
def uploaded(runner: InProcess) -> None:
    """Run 400 on main left evidence; since then the suite's second case is worse."""
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400)
    runner.write_suite(*orders(bad=(2,)))


def test_outage__of_everything_ends_before_anything_is_run(runner: InProcess, uploaded: None) -> None:
    for method in ("GET", "POST"):
        runner.github.fail(method, "", 500, times=1000)
    step = runner.pull_request()
    assert step.code == 4
    assert "the tip of `main` is not known" in step.summary
    assert "No comment was written: " in step.summary
    assert step.outputs["evidence-archive"] == ""


@pytest.mark.parametrize("named", ["auto", "run:400"])
def test_download__that_turns_out_larger_than_announced(
    runner: InProcess, github: FakeGitHub, uploaded: None, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr("agent_eval.ci.rest.MAX_ARCHIVE_BYTES", 1000)
    for _, row, _ in github.artifacts.values():
        row["size_in_bytes"] = 10
    step = runner.pull_request(baseline=named)
    assert (step.code, step.outcome) == (4, "error")
    assert "more than 1000 bytes" in github.bodies(PULL)[0]


def test_repository__is_asked_for_what_the_event_does_not_say(runner: InProcess, uploaded: None) -> None:
    runner.github.add_run(500, status="in_progress", event="schedule")
    environ = {"GITHUB_REPOSITORY_ID": ""}
    step = runner.start("schedule", {}, 500, BASE_SHA, "heads/main", {}, environ=environ)
    assert step.outputs["baseline-run-id"] == "400"
    assert runner.github.count("GET", "/repos/acme/shop$") == 2


def test_job__without_a_run_has_no_history(runner: InProcess, uploaded: None) -> None:
    step = runner.start("push", {}, 0, BASE_SHA, "heads/main", {}, environ={"GITHUB_RUN_ID": ""})
    assert step.outcome == "no-baseline"
    assert "no workflow run" in step.summary


def test_summary__that_is_full_is_not_broken(
    runner: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.ci.platforms.github.SUMMARY_LIMIT", 100)
    runner.write_suite(*orders())
    step = runner.pull_request()
    assert step.code == 0
    assert step.summary == ""
    assert any("summary is full" in line for line in step.annotations)


def test_runner__without_summary_and_output_files(runner: InProcess, github: FakeGitHub) -> None:
    runner.write_suite(*orders())
    environ = {"GITHUB_STEP_SUMMARY": "", "GITHUB_OUTPUT": ""}
    github.add_run(500, status="in_progress")
    step = runner.start("push", {}, 500, BASE_SHA, "heads/main", {}, environ=environ)
    assert step.code == 0
    assert step.annotations == []


def test_judges_and_their_configuration__stand_in_the_command_that_reproduces(
    runner: InProcess, github: FakeGitHub, uploaded: None
) -> None:
    github.files["judges{1}.json"] = b"{}"
    (runner.workspace / "judges{1}.json").write_text("{}")
    step = runner.pull_request(judge="policy,regex", judge_config="judges{1}.json")
    assert step.code == 1
    assert (
        "--case order-2 --judge policy --judge regex --judge-config 'judges{1}.json'"
        in github.bodies(PULL)[0]
    )


def test_a_platform_without_the_run_evaluates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("suite.json").write_text(json.dumps(make_suite(make_case("a"))))
    log = io.StringIO()
    code = run_job({"report-run-id": "5", "suite": "suite.json"}, {}, log, config_file=None)
    assert code is ExitCode.WRONG_REQUEST
    assert "`report-run-id` is not known on this platform" in log.getvalue()
    assert not Path("agent-eval-out").exists()


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(made: JobContext) -> tuple[Path | None, dict[str, str]]:
    """The report of a job, and its outputs."""
    evaluation = evaluate(made)
    path = write_html(evaluation, report_of(evaluation, made), made)
    return path, outputs_of(evaluation, made.settings, path)


def test_it_is_named_after_its_suite():
    before = evidence()
    write_suite(orders(bad=(2,)))
    path, outputs = written(job(baseline=before))
    assert path == Path("agent-eval-out/agent-eval-shop.html")
    assert outputs["html-report"] == "agent-eval-out/agent-eval-shop.html"
    tree = parsed(path.read_text("utf-8"))
    assert tree.all("details", id="case=order-2")[0].all("table", class_="two")
    assert "agent-eval run --suite s.json --case order-2" in tree.words


@pytest.mark.parametrize(("flags", "name"), [({}, "s-json-d7273eea"), ({"comment_id": "nightly"}, "nightly")])
def test_several_suites_are_in_one_file_where_each_case_has_an_address(flags: dict[str, Any], name: str):
    write_suite(orders(bad=(2,)))
    write_suite(orders(bad=(2,)), name="t.json", dataset_id="help")
    path, _ = written(job(suite="s.json\nt.json", **flags))
    assert path == Path(f"agent-eval-out/agent-eval-{name}.html")
    page = path.read_text("utf-8")
    opened = [case.attributes["id"] for case in parsed(page).all("details", class_="case")]
    assert sorted(opened) == ["case=order-2&suite=help", "case=order-2&suite=shop"]
    assert len({*opened, *packed_cases(page)}) == 8


def test_no_secret_of_the_baseline_is_in_it():
    cases = orders()
    cases[1]["trace"][-1]["output"] = "the key is s3cret-value-of-main"
    before = evidence(cases)
    write_suite(orders(bad=(2,)))
    path, _ = written(job(baseline=before, secrets=("s3cret-value-of-main",)))
    page = path.read_text("utf-8")
    everything = page + "".join(packed_cases(page).values())
    assert "s3cret" not in everything
    assert "[redacted]" in everything


def test_a_report_that_cannot_be_written_is_a_warning(monkeypatch):
    def fail(_path: Path, _data: bytes) -> None:
        raise StorageError("The disk is full.", remedy="Make room.")

    write_suite(orders())
    made = job()
    evaluation = evaluate(made)
    monkeypatch.setattr(whole, "write_file", fail)
    assert write_html(evaluation, report_of(evaluation, made), made) is None
    log = made.platform._stream.getvalue()  # type: ignore[attr-defined]
    assert "The HTML report could not be written: The disk is full." in log
