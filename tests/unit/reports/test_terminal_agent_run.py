"""What is said of a run of an agent once it has ended."""

from __future__ import annotations

import pytest

from agent_eval.contracts import RunSummary, Tally
from agent_eval.engine.progress import RunProgress
from agent_eval.engine.usage import Costs
from agent_eval.reports.terminal import agent_run_text
from tests.unit.reports import scenarios


def summary(**failures: int) -> RunSummary:
    return Tally().summary("run", "set").model_copy(update={"failures": failures})


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (RunProgress(4, done=4), ""),
        (RunProgress(4, done=4, unknown_cost=4), ""),
        (RunProgress(4, done=4, retries=1), "1 request was sent again."),
        (
            RunProgress(4, done=4, resumed=3, retries=2, costs=Costs(1.5), unknown_cost=1),
            "3 trials were done before. 2 requests were sent again. Spent: $1.5000, and what\n"
            "  1 trial cost is not known in full.",
        ),
        (RunProgress(4, done=4, resumed=1, costs=Costs(0.25)), "1 trial was done before. Spent: $0.2500."),
    ],
)
def test_what_it_took_stands_before_the_evidence(progress: RunProgress, said: str) -> None:
    text = agent_run_text(summary(), "runs/a", progress)
    before, evidence, after = text.partition("Evidence: runs/a\n")
    assert evidence
    assert after == ""
    _, _, told = before.partition("\n")
    assert told.rstrip("\n") == said


def test_kinds_of_failure_are_told_the_most_frequent_first() -> None:
    text = agent_run_text(summary(timeout=2, agent_error=1_000, budget_exceeded=2), "p", RunProgress(9))
    assert "by kind: agent_error 1,000, budget_exceeded 2, timeout 2." in " ".join(text.split())
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_crash_that_names_an_environment_variable_brings_the_option_that_passes_it_on() -> None:
    (row,) = scenarios.failing_rows(1)
    row["verdicts"][0] |= {"failure": "agent_error", "reason": "the agent exited: KeyError: 'SHOP_API_KEY'"}
    text = agent_run_text(summary(), "p", RunProgress(1), failing=[(row, "p/a")])
    assert "--agent-env SHOP_API_KEY passes this one." in " ".join(text.split())
    row["verdicts"][0]["failure"] = "policy_violation"
    assert "--agent-env" not in agent_run_text(summary(), "p", RunProgress(1), failing=[(row, "p/a")])
