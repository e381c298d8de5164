from __future__ import annotations

import pytest

from agent_eval.contracts import GateStatus
from agent_eval.reports.terminal import run_text
from agent_eval.reports.terminal_comparison import compare_text, gate_text
from tests.unit.reports import scenarios, situations


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_comparisons_and_decisions_look_as_agreed_in_eighty_columns(name, golden):
    text = scenarios.terminal(scenarios.SCENARIOS[name]())
    assert max(map(len, text.splitlines())) <= 80
    golden(f"terminal/{name}.txt", f"{text}\n")


def test_commands_look_as_agreed(golden):
    suite = scenarios.regressed().suites[0]
    assert suite.comparison is not None
    said = [
        run_text(suite.candidate.summary, "runs/candidate"),
        compare_text(suite.comparison, "runs/candidate/compare/baseline_delta.json"),
        gate_text(suite.decision, "runs/candidate/compare/gate_decision.json"),
    ]
    golden("terminal/commands.txt", "\n\n".join(said) + "\n")


def test_a_run_names_the_cases_that_did_not_pass_before_the_totals():
    rows = scenarios.failing_rows(2)
    rows[1]["outcome"] = rows[1]["verdicts"][0]["outcome"] = "error"
    crash = {**rows[1]["verdicts"][0], "judge_id": "execution", "reason": "the agent exited with code 3"}
    rows[1]["verdicts"].append(crash)
    failing = [(row, f"runs/a/cases/{row['case_id']}/trajectory.json") for row in rows]
    summary = scenarios.run("candidate", 40, 37).summary
    lines = run_text(summary, "runs/a", failing=failing).splitlines()
    assert lines[:6] == [
        "FAILED order-000: policy: required tool lookup_order was never called",
        "  runs/a/cases/order-000/trajectory.json",
        "ERROR order-001: execution: the agent exited with code 3 (and 1 more judge)",
        "  runs/a/cases/order-001/trajectory.json",
        "and 1 more; --verbose lists them",
        "37 of 40 cases passed (92.5%).",
    ]
    assert run_text(summary, "runs/a").splitlines()[0] == "37 of 40 cases passed (92.5%)."


EVIL = "\x1b[2J::error::x\n##[add-mask]y\n::set-output name=a::b"


def test_hostile_text_cannot_drive_the_terminal_or_the_runner():
    (row,) = scenarios.failing_rows(1)
    row["case_id"] = row["verdicts"][0]["reason"] = EVIL
    run = run_text(scenarios.run("candidate", 1, 0).summary, "runs/a", failing=[(row, EVIL)])
    for text in (run, scenarios.terminal(scenarios.hostile(EVIL))):
        assert not any(command in text for command in ("\x1b", "::", "##["))


@pytest.mark.parametrize("name", ["one-worse", "not-settled", "passes-again", "release"])
def test_a_decision_by_policy_looks_as_agreed(name, golden):
    decision = situations.SITUATIONS[name]().suites[0].decision
    golden(f"terminal/gate-{name}.txt", gate_text(decision, "compare/gate_decision.json") + "\n")


def test_colour_is_optional_and_nothing_depends_on_it():
    plain = scenarios.terminal(scenarios.two_suites())
    coloured = scenarios.terminal(scenarios.two_suites(), colour=True)
    assert "\x1b" not in plain
    assert "\x1b[31m❌ 3 of 202 cases regressed\x1b[0m" in coloured
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_a_gate_names_rules_that_could_not_apply_and_other_reasons():
    waiting = scenarios.rule(
        "max_regressed_cases", 0, None, False, applied=False, message="max_x needs a baseline."
    )
    decision = scenarios.decision(GateStatus.FAILED, [waiting])
    decision.failures = ["A case was removed."]
    text = gate_text(decision, "d.json")
    assert text.startswith("❌ max_x needs a baseline\n  To do: Name a baseline")
    assert "  NO A case was removed." in text


def test_long_lists_end_in_a_number():
    text = scenarios.terminal(scenarios.many_regressed())
    assert "and 490 more" in text
    suite = scenarios.regressed_suite()
    assert suite.comparison is not None
    suite.comparison.cases.new = [f"case-{number}" for number in range(12)]
    assert "and 2 more" in scenarios.terminal(scenarios.report(suite))
