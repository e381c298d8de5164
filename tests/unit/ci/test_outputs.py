"""What later steps and people are told of an evaluation: outcome, outputs, exit code, log and report."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_eval.ci.baseline import age_in_words
from agent_eval.ci.config import OUTPUTS
from agent_eval.ci.decide import Evaluation, SuiteEvaluation
from agent_eval.ci.earlier import EarlierRun
from agent_eval.ci.evaluate import evaluate
from agent_eval.ci.outputs import (
    MAX_NOTES,
    MAX_SUITES,
    error_report,
    exit_code,
    log_lines,
    outcome_of,
    outputs_of,
    report_of,
    verdict_line,
)
from agent_eval.ci.platforms.base import CiRun
from agent_eval.contracts import GateStatus
from agent_eval.errors import ExitCode, InvalidInput, RemoteError
from tests.e2e.runner import orders
from tests.unit.ci.conftest import InProcess
from tests.unit.ci.evaluations import evaluated, evidence, job, write_suite
from tests.unit.ci.jobs import settings_of

SETTINGS = settings_of()
SHA = "9be1f04" + "0" * 33


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_suite(orders())


def with_statuses(found: Evaluation, *statuses: str) -> Evaluation:
    """The evaluation as if its first suite had been decided on so often, each time in another way."""
    [suite, *_] = found.suites
    return replace(found, suites=[_decided(suite, status) for status in statuses])


def _decided(suite: SuiteEvaluation, status: str) -> SuiteEvaluation:
    decision = suite.decision.model_copy(update={"gate_status": GateStatus(status)})
    return replace(suite, decision=decision)


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        (("passed", "passed"), "passed"),
        (("passed", "no-baseline"), "no-baseline"),
        (("inconclusive", "no-baseline", "passed"), "inconclusive"),
        (("passed", "inconclusive", "failed", "no-baseline"), "failed"),
    ],
)
def test_the_worst_suite_decides_and_only_passed_is_passed(statuses: tuple[str, ...], worst: str) -> None:
    found = with_statuses(evaluated(), *statuses)
    assert outcome_of(found) == worst
    values = outputs_of(found, SETTINGS)
    assert (values["outcome"], values["passed"]) == (worst, "true" if worst == "passed" else "false")


@pytest.mark.parametrize("status", ["passed", "failed"])
def test_where_there_is_no_decision_to_rely_on_the_outcome_is_an_error(status: str) -> None:
    found = with_statuses(evaluated(), status)
    found.search.outage = RemoteError("It is down.", remedy="Wait.")
    assert outcome_of(found) == "error"
    assert outputs_of(found, SETTINGS)["passed"] == "false"
    said = "agent-eval: error. The baseline could not be read: It is down. Wait."
    assert verdict_line(report_of(found, job()), "error") == said
    assert log_lines(found, "error")[0] == "Outcome: error. The baseline could not be read: It is down. Wait."


def test_the_log_has_no_tests_of_a_suite_of_which_no_case_could_be_judged() -> None:
    archive = evidence()
    write_suite(orders(bad=(1,)))
    found = evaluated(baseline=archive, max_regressed_cases="0")
    said_nothing = replace(found, suites=[replace(found.suites[0], unjudged="No case could be judged.")])
    lines = log_lines(said_nothing, "error")
    assert lines[0] == "Outcome: error. No case could be judged."
    assert lines[1] == "  s.json: not evaluated, 3 of 4 cases passed"
    assert "1 of 4 cases flipped" in "".join(log_lines(found, "failed"))
    assert "flipped" not in "".join(lines)


def test_outputs_count_the_cases_of_all_suites() -> None:
    baseline = evidence(help=orders(4))
    write_suite(orders(bad=(1,)))
    write_suite(orders(4, bad=(1, 2)), name="help.json", dataset_id="help")
    found = evaluated(suite="s.json\nhelp.json", baseline=baseline)
    values = outputs_of(found, settings_of(out="results"))
    assert set(values) == {row.name for row in OUTPUTS} - {"comment-url"}
    assert (values["pass-rate"], values["hard-fail-rate"]) == ("0.625", "0.375")
    assert (values["regressed-cases"], values["new-hard-fail-cases"]) == ("3", "3")
    assert values["evidence-pack"] == "agent-eval-out/shop\nagent-eval-out/help"
    assert values["evidence-archive"] == "agent-eval-out/evidence.zip"
    assert values["report"] == "results/report.md"
    assert (values["baseline-run-id"], values["baseline-sha"]) == ("", "")


def run_17() -> EarlierRun:
    archive = Path(evidence()).read_bytes()
    about = {"number": 17, "label": "run 17", "created_at": "2026-11-20T08:00:00Z"}
    return EarlierRun(**about, commits=frozenset({SHA}), fetch=lambda: archive)  # type: ignore[arg-type]


def test_the_line_of_a_failure_names_each_suite_that_stops_the_job() -> None:
    baseline = evidence(help=orders(4))
    write_suite(orders(bad=(1, 2)))
    write_suite(orders(4), name="help.json", dataset_id="help")
    found = evaluated(suite="s.json\nhelp.json", baseline=baseline, max_regressed_cases="0")
    assert outcome_of(found) == "failed"
    line = verdict_line(report_of(found, job()), "failed")
    assert line.startswith("agent-eval: failed. shop: ")
    assert "help: " not in line
    alone = verdict_line(report_of(replace(found, suites=found.suites[:1]), job()), "failed")
    assert alone.startswith("agent-eval: failed. ")
    assert "shop: " not in alone


def test_the_line_of_a_job_with_many_failed_suites_counts_those_that_it_does_not_name() -> None:
    found = with_statuses(evaluated(), *["failed"] * (MAX_SUITES + 2))
    assert verdict_line(report_of(found, job()), "failed").endswith(" And 2 more suites.")
    found = with_statuses(evaluated(), *["failed"] * MAX_SUITES)
    assert "more suites" not in verdict_line(report_of(found, job()), "failed")
    # And that of an inconclusive job says what is undecided.
    found = evaluated(baseline=evidence(orders(8)))
    assert outcome_of(found) == "inconclusive"
    assert verdict_line(report_of(found, job()), "inconclusive").startswith("agent-eval: inconclusive. ")


def test_the_log_has_a_line_for_each_suite_its_reasons_its_baseline_and_the_evidence() -> None:
    archive = evidence()
    write_suite(orders(bad=(1,)))
    lines = log_lines(evaluated(baseline=archive, max_regressed_cases="0"), "failed")
    assert lines[:2] == ["Outcome: failed", "  s.json: failed, 3 of 4 cases passed"]
    assert any(line.startswith("    1 of 4 cases flipped: `order-1`.") for line in lines)
    assert lines[-2:] == ["    baseline: path", "Evidence: agent-eval-out/evidence.zip"]
    lines = log_lines(evaluated(baseline="auto", runs=[run_17()]), "failed")
    assert "    baseline: run 17, commit 9be1f04" in lines
    assert "  `baseline: none` asks for no comparison." in log_lines(evaluated(), "no-baseline")


def test_no_name_of_a_file_begins_another_line_of_the_log() -> None:
    name = "a\nOutcome: passed.json"
    write_suite(orders(bad=(1,)), name=name)
    found = evaluated()
    hostile = replace(found.suites[0], target=replace(found.suites[0].target, path=Path(name)))
    lines = log_lines(replace(found, suites=[hostile]), "failed")
    assert not any(line.startswith("Outcome: passed") or "\n" in line for line in lines)


def test_the_report_says_what_it_rests_on() -> None:
    made = job(baseline="auto", runs=[run_17()])
    report = report_of(evaluate(made), made)
    assert (report.title, report.comment_id, report.not_evaluated) == ("agent-eval", "s-json-24662a94", "")
    assert report.evidence_name == "agent-eval-out/evidence.zip"
    assert list(report.rule_changes.sentences) == []
    [suite] = report.suites
    assert suite.comparison is not None
    assert suite.comparison.overview.compared_cases == 4
    assert (suite.slug, suite.suite_path, suite.failing, suite.baseline_note) == ("shop", "s.json", [], "")
    assert suite.baseline is not None
    assert (suite.baseline.how, suite.baseline.run_id, suite.baseline.sha) == ("newest run", "17", SHA)
    assert suite.baseline.age == "1 day"


def note(found: Evaluation) -> str:
    [suite] = report_of(found, job()).suites
    return suite.baseline_note


def test_a_missing_baseline_is_explained_by_what_was_looked_at() -> None:
    def lack() -> str:
        [suite] = report_of(found, job()).suites
        return suite.lack

    found = evaluated()
    found.search.notes.clear()
    assert (lack(), note(found)) == ("no baseline was looked for", "")
    found.search.looked_at = 0
    assert lack() == ""  # a first run, as the gate says
    found.search.gone = set()
    assert lack() == "no earlier run has this suite"
    found.search.gone, found.search.lost = None, ["Run 3 has expired."]
    assert lack() == "what earlier runs left is gone"
    found.search.outage = RemoteError("Run 3 is cut.", remedy="Again.")
    found.search.notes.append("Run 2 left nothing.")
    found.search.warnings[:] = ["Run 3 is cut.", "Run 1 is cut."]
    assert note(found) == "Run 2 left nothing."
    # The cause of an outage is said at the top already.
    assert report_of(found, job()).warnings == ["Run 1 is cut."]


def test_many_notes_are_bounded() -> None:
    found = evaluated()
    found.search.notes[:] = [f"{number}." for number in range(MAX_NOTES)]
    assert note(found) == "0. 1. 2. 3."
    found.search.notes.append("4.")
    assert note(found) == "0. 1. 2. 3. And 1 more note like these."
    found.search.notes.append("5.")
    assert note(found) == "0. 1. 2. 3. And 2 more notes like these."


def test_the_report_of_an_error_says_why_what_to_do_and_where_it_happened() -> None:
    error = InvalidInput("a <b> is wrong: it has no end", remedy="Mend it.", output="line 1\nline 2")
    run = CiRun(head_sha=SHA, run_url="https://ci.example.org/17")
    blocks = error_report(error, "Nightly", run, marker="<!-- mark -->").split("\n\n")
    assert blocks[0] == "<!-- mark -->"
    assert blocks[1] == "## 🛑 Not evaluated: a `<b>` is wrong · Nightly"
    assert blocks[2] == "**It has no end.**"
    assert blocks[3] == "**To do:** Mend it."
    assert "line 1\nline 2" in blocks[4]
    assert blocks[5] == "Commit `9be1f04`."
    assert blocks[6] == "[Job](https://ci.example.org/17)\n"
    assert error_report(InvalidInput("x"), "T", CiRun()) == "## 🛑 Not evaluated: x · T\n"


NOW = datetime(2026, 1, 14, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("outcome", "gate", "never"),
    [("passed", 0, 0), ("failed", 1, 0), ("inconclusive", 3, 0), ("no-baseline", 0, 0), ("error", 4, 4)],
)
def test_exit_code(outcome: str, gate: int, never: int) -> None:
    assert exit_code(outcome, SETTINGS, blocks=True) is ExitCode(gate)
    assert exit_code(outcome, settings_of(fail_on="never"), blocks=True) == never
    # What nobody can tell only warns, unless it blocks.
    assert exit_code(outcome, SETTINGS, blocks=False) == (0 if outcome == "inconclusive" else gate)


@pytest.mark.parametrize(
    ("created_at", "said"),
    [
        *(("2026-01-12T09:00:00Z", "2 days"), ("2026-01-13T10:00:00Z", "1 day")),
        *(("2026-01-14T08:59:00+00:00", "1 hour"), ("2026-01-14T09:10:00", "50 minutes")),
        *((f"202{year}-01-14T09:59:30Z", "less than a minute") for year in (6, 7)),
        *(("yesterday", None), (None, None)),
    ],
)
def test_age_in_words(created_at: str | None, said: str | None) -> None:
    assert age_in_words(created_at, NOW) == said


def test_failing__cases_in_a_report_are_bounded(runner: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_eval.ci.outputs.MAX_FAILING", 2)
    runner.write_suite(*orders(4, bad=(1, 2, 3)))
    step = runner.pull_request(min_pass_rate="0.9")
    assert "order-2" in step.summary
    assert "order-3" not in step.summary
