"""Two real agents on the same 97 benign tasks: the answer is known, so ours can be checked against it.

Everything goes through the commands that a person would type: run, compare, gate, report.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.contracts import Comparison, GateDecision
from agent_eval.evidence.reader import open_pack
from tests.real import agentdojo

UTILITY = "tests.real.agentdojo:Utility"


def agent_eval(*words: object) -> int:
    """Run a command and return its exit code."""
    return main([str(word) for word in words])


def evaluate(model: str, home: Path, records: list[agentdojo.Record] | None = None) -> Path:
    chosen = agentdojo.records(model) if records is None else records
    suite = agentdojo.write_suite(home / f"{model}.jsonl", filter(agentdojo.is_benign, chosen))
    out = home / "runs" / model
    assert agent_eval("run", "--suite", suite, "--out", out, "--run-id", model, "--judge", UTILITY) == 0
    return out


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which both agents were evaluated and compared."""
    home = tmp_path_factory.mktemp("agentdojo")
    baseline, candidate = evaluate(agentdojo.GPT_4O, home), evaluate(agentdojo.GPT_4O_MINI, home)
    assert agent_eval("compare", "--baseline", baseline, "--candidate", candidate) == 0
    return home


@pytest.fixture(scope="module")
def delta(home: Path) -> Path:
    return home / "runs" / agentdojo.GPT_4O_MINI / "compare" / "baseline_delta.json"


@pytest.fixture(scope="module")
def comparison(delta: Path) -> Comparison:
    return Comparison.model_validate_json(delta.read_bytes())


def utility(model: str) -> dict[str, bool]:
    """Task to whether it was done, straight from the data set."""
    rows = [row for row in agentdojo.records(model) if agentdojo.is_benign(row)]
    return {f"{row['suite_name']}/{row['user_task_id']}": row["utility"] for row in rows}


def test_the_pass_rates_are_those_the_benchmark_publishes(home: Path, comparison: Comparison) -> None:
    rate = comparison.metrics["pass_rate"]
    assert comparison.cases.compared == 97
    assert (rate.baseline, rate.candidate) == (67 / 97, 66 / 97)
    assert (f"{rate.baseline:.4f}", f"{rate.candidate:.4f}") == ("0.6907", "0.6804")
    assert comparison.judge_metrics["utility"].delta == rate.delta
    for model, passed in ((agentdojo.GPT_4O, 67), (agentdojo.GPT_4O_MINI, 66)):
        summary = open_pack(home / "runs" / model).summary
        assert (summary.passed_cases, summary.total_cases) == (passed, 97)


def test_regressed_and_improved_cases_are_those_found_independently(comparison: Comparison) -> None:
    before, now = utility(agentdojo.GPT_4O), utility(agentdojo.GPT_4O_MINI)
    assert comparison.regressed_case_ids == sorted(task for task in before if before[task] and not now[task])
    improved = sorted(row.case_id for row in comparison.case_regressions if row.improved)
    assert improved == sorted(task for task in before if now[task] and not before[task])
    assert len(improved) - len(comparison.regressed_case_ids) == 66 - 67


def test_thresholds_alone_are_held_to_the_letter(delta: Path, comparison: Comparison, tmp_path: Path) -> None:
    def code(*rules: object) -> int:
        return agent_eval("gate", "--compare", delta, "--out", tmp_path / "decision.json", *rules)

    regressed = len(comparison.regressed_case_ids)
    assert code("--max-regressed-cases", regressed) == 0
    assert code("--max-regressed-cases", regressed - 1) == 1
    assert code("--min-pass-rate", "0.681") == 1
    decision = GateDecision.model_validate_json((tmp_path / "decision.json").read_bytes())
    assert decision.failures == ["66 of 97 passed (68.0%), below min_pass_rate 68.1%."]


def test_the_report_names_the_numbers_and_every_regressed_case(
    delta: Path, comparison: Comparison, tmp_path: Path
) -> None:
    decision, report = tmp_path / "decision.json", tmp_path / "report.md"
    assert agent_eval("gate", "--compare", delta, "--max-regressed-cases", 0, "--out", decision) == 1
    words = ("report", "markdown", "--compare", delta, "--gate", decision, "--out", report)
    assert agent_eval(*words) == 0
    text = report.read_text()
    assert "69.1" in text
    assert "68.0%" in text
    for case_id in comparison.regressed_case_ids:
        assert case_id in text


def test_the_change_of_model_is_said_and_behaviour_explains_regressed_cases(comparison: Comparison) -> None:
    notice = f"The model changed from {agentdojo.GPT_4O} to {agentdojo.GPT_4O_MINI}."
    assert notice in comparison.behaviour.notices
    changes = {change.case_id: change for change in comparison.behaviour_changes}
    for case_id in comparison.regressed_case_ids:
        change = changes[case_id]
        assert change.model_changed
        assert change.calls_changed or change.output_changed
        assert [step.tool for step in change.calls if step.kind != "removed"] == (
            change.candidate_calls if change.calls_changed else []
        )
        assert all(step.arguments for step in change.calls if step.kind == "arguments")


def test_tasks_that_were_worded_differently_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark revised its 20 travel tasks between the two recordings."""
    plain = agentdojo.case

    def worded(record: agentdojo.Record) -> dict[str, Any]:
        return {**plain(record), "input": agentdojo.wording(record)}

    monkeypatch.setattr(agentdojo, "case", worded)
    baseline, candidate = evaluate(agentdojo.GPT_4O, tmp_path), evaluate(agentdojo.GPT_4O_MINI, tmp_path)
    capsys.readouterr()
    delta = tmp_path / "delta.json"
    assert agent_eval("compare", "--baseline", baseline, "--candidate", candidate, "--out", str(delta)) == 0
    changed = json.loads(delta.read_text())["cases"]["changed"]
    assert len(changed) == 20
    assert {case_id.split("/")[0] for case_id in changed} == {"travel"}
