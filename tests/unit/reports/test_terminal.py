from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import GateStatus, RunSummary, Tally
from agent_eval.engine.progress import Counter, RunProgress
from agent_eval.engine.usage import NO_COSTS, Costs
from agent_eval.reports.terminal import agent_run_text, progress_bar, progress_text, run_text
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


# A run of an agent while it goes on, and once it has ended.


def progress(done: int, total: int, *, usd: float = 0.0, **more: Any) -> RunProgress:
    """So many of all trials are done, which cost so much."""
    return RunProgress(total, done=done, costs=Costs(usd), **more)


def bar(columns: int, *counts: int, **more: Any) -> str:
    return progress_bar(progress(*counts, **more), columns)


def summary(**failures: int) -> RunSummary:
    return Tally().summary("run", "set").model_copy(update={"failures": failures})


def ended(ran: RunProgress, *, failing: Any = (), **failures: int) -> str:
    """What is said of a run that has ended, on one line."""
    text = agent_run_text(summary(**failures), "runs/a", ran, failing=failing)
    assert all(len(line) <= 80 for line in text.splitlines())
    return " ".join(text.split())


def test_a_line_says_what_a_person_waits_for() -> None:
    counts = {"passed": 200, "errors": 10, "retries": 3, "unknown_cost": 2, "seconds": 50, "ends_at": 200}
    assert progress_text(progress(250, 1000, usd=1.5, **counts)) == (
        "250 of 1,000 trials (25 %), 200 passed, 40 failed, 10 errors, 3 retries, $1.5000 and more, "
        "2 min 30 s left"
    )


@pytest.mark.parametrize(
    ("seconds", "said"), [(10, "30 s left"), (100, "5 min 00 s left"), (3600, "3 h 00 min left")]
)
def test_the_rest_is_estimated_by_what_this_start_did(seconds: float, said: str) -> None:
    counter = Counter(600)
    for number in range(300):
        counter.add("passed", NO_COSTS, resumed=number < 200)
    assert progress_text(counter.progress(seconds=seconds)).endswith(said)


@pytest.mark.parametrize("at_once", [1, 4, 7])
def test_the_estimate_never_climbs_at_steady_speed(at_once: int) -> None:
    counter = Counter(30)
    looks: list[float] = []

    def look(seconds: float) -> None:
        left = counter.progress(in_flight=at_once, seconds=seconds).seconds_left
        looks.extend([] if left is None else [left])

    for done in range(30):
        wave = done // at_once
        if done % at_once == 0:
            look(wave + 0.1)
            look(wave + 0.9)
        counter.add("passed", NO_COSTS)
        look(wave + 1)
    assert looks[0] == pytest.approx((30 - at_once) / at_once)
    assert looks == sorted(looks, reverse=True)
    assert looks[-1] == 0


@pytest.mark.parametrize("ran", [progress(2, 5, resumed=2, seconds=3), progress(5, 5, seconds=3)], ids=str)
def test_nothing_is_estimated_before_the_first_or_after_the_last(ran: RunProgress) -> None:
    assert "left" not in progress_text(ran)


LARGE = {"passed": 11_000, "errors": 345, "retries": 12, "unknown_cost": 1, "seconds": 900, "ends_at": 7_300}
COUNTS = "12,345/100,000, 11,000 passed, 1,000 failed, 345 errors, 12 retries, $12.3456+, 1 h 46 min left"


def test_the_bar_fills_fits_and_gives_way_to_words_where_there_is_no_room_for_both() -> None:
    assert bar(200, 5, 10).startswith("[############............] 5 of 10")
    assert bar(40, 5, 10) == "5/10, 0 passed, 5 failed, 0 errors"
    assert bar(12, 5, 10) == "5/10, 0 pas"
    assert bar(200, 0, 0).startswith("[########################]")
    assert bar(100, 12_345, 100_000, usd=12.3456, **LARGE) == COUNTS
    assert bar(125, 12_345, 100_000, usd=12.3456, **LARGE).startswith(
        f"[##......................] {COUNTS[:29]}"
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_the_bar_says_everything_in_a_terminal_of_usual_width(columns: int) -> None:
    more = {"passed": 12, "errors": 1, "unknown_cost": 1, "seconds": 7, "ends_at": 19, "in_flight": 8}
    line = bar(columns, 15, 40, usd=0.18, **more)
    assert len(line) < columns
    for said in ("15", "40", "12 passed", "2 failed", "1 error,", "$0.1800", "12 s left"):
        assert said in line


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"unknown_cost": 4}, ""),
        ({"retries": 1}, " 1 request was sent again."),
        ({"resumed": 3, "retries": 2, "usd": 1.5, "unknown_cost": 1},
         " 3 trials were done before. 2 requests were sent again. Spent: $1.5000, and what 1 trial cost is "
         "not known in full."),
        ({"resumed": 1, "usd": 0.25}, " 1 trial was done before. Spent: $0.2500."),
    ],
)  # fmt: skip
def test_what_it_took_stands_before_the_evidence(more: dict[str, Any], said: str) -> None:
    assert ended(progress(4, 4, **more)) == f"0 of 0 cases passed (0%).{said} Evidence: runs/a"


def test_kinds_of_failure_are_told_the_most_frequent_first() -> None:
    text = ended(progress(0, 9), timeout=2, agent_error=1_000, budget_exceeded=2)
    assert "by kind: agent_error 1,000, budget_exceeded 2, timeout 2." in text


def test_a_crash_that_names_an_environment_variable_brings_the_option_that_passes_it_on() -> None:
    (row,) = scenarios.failing_rows(1)
    row["verdicts"][0] |= {"failure": "agent_error", "reason": "the agent exited: KeyError: 'SHOP_API_KEY'"}
    assert "--agent-env SHOP_API_KEY passes this one." in ended(progress(0, 1), failing=[(row, "p/a")])
    row["verdicts"][0]["failure"] = "policy_violation"
    assert "--agent-env" not in ended(progress(0, 1), failing=[(row, "p/a")])
