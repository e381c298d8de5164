"""How many trials a run with `trials: auto` took, after which looks, and why it ended, in one line."""

from __future__ import annotations

from typing import Any

import pytest
from agent_eval.reports.looks import looks_clause, looks_sentence

from agent_eval.contracts import GateDecision
from agent_eval.contracts.policy import GatePolicy
from agent_eval.reports.html.page import HtmlReport, render_html
from agent_eval.reports.terminal_decision import evaluation_text, gate_text
from tests.unit.gate.test_looks import gate, looked
from tests.unit.reports.scenarios import comment, full_report, report, suite


def sentence(passes: list[int], trials: int, looks: list[int] | None, **policy: Any) -> str:
    found = looked(passes, trials=trials, looks=looks)
    return looks_sentence(gate(found, policy=GatePolicy(**{"zero_tolerance": [], **policy})))


@pytest.mark.parametrize(
    ("passes", "trials", "looks", "said"),
    [
        ([1] * 40, 1, [1], "1 trial of each case (look after 1): no verdict is worse than before."),
        ([0] + [1] * 400, 1, [1], "1 trial of each case (look after 1): a drop of 5.0 points is ruled out."),
        ([0] * 20 + [1] * 20, 1, [1], "1 trial of each case (look after 1): more regressed than chance ex"),
        ([3, *[4] * 39], 4, [1, 4], "4 trials of each case (looks after 1 and 4): still open."),
        (
            [11, *[12] * 39],
            12,
            [1, 4, 12],
            "12 trials of each case (looks after 1, 4 and 12): still open after the last look.",
        ),
        ([1] * 40, 1, None, ""),
    ],
)
def test_a_sentence_says_how_many_trials_which_looks_and_why_it_ended(
    passes: list[int], trials: int, looks: list[int] | None, said: str
) -> None:
    assert sentence(passes, trials, looks).startswith(said)
    assert bool(said) == bool(sentence(passes, trials, looks))


def test_a_judge_without_tolerance_ends_the_looks() -> None:
    assert sentence([0] + [1] * 39, 1, [1], zero_tolerance=["policy"]).endswith(
        ": a judge with zero tolerance newly fails."
    )


def capped() -> GateDecision:
    decision = gate(looked([3, *[4] * 39], trials=4, looks=[1, 4]))
    why = "the look after 12 was not begun: it would take about 80 s, and 10 s of `max-run-seconds` are left"
    return decision.model_copy(update={"looks_ended": why})


def test_a_cap_is_named_in_every_report() -> None:
    found = looked([3, *[4] * 39], trials=4, looks=[1, 4])
    made = report(suite(decision=capped(), comparison=found, candidate=found.candidate))
    for text in (comment(made), full_report(made)):
        assert (
            "4 trials of each case (looks after 1 and 4): still open, and the look after 12 was not" in text
        )
        assert "10 s of `max-run-seconds` are left" in text
    printed = " ".join(evaluation_text(made).split())
    assert "(looks after 1 and 4): still open, and the look after 12 was not begun" in printed
    assert "Looks" in render_html(HtmlReport(report=made))


def test_the_gate_says_at_which_level_it_tested() -> None:
    assert "at level 0.015 after looks at 1, 4" in gate_text(capped(), "decision.json")


def test_looks_are_listed_in_words() -> None:
    assert looks_clause([1]) == "look after 1"
    assert looks_clause([1, 4]) == "looks after 1 and 4"


def test_what_a_limit_says_is_escaped() -> None:
    decision = capped().model_copy(update={"looks_ended": "kept in <b>[x](http://e)</b>\n# out"})
    found = looked([3, *[4] * 39], trials=4, looks=[1, 4])
    text = comment(report(suite(decision=decision, comparison=found, candidate=found.candidate)))
    assert text.replace("`<b>[x](http://e)</b>", "").count("<b>") == 0
    assert "\n# out" not in text
