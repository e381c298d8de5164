"""What the lines of a decision name, and how many of many."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import ExpiredExcuse, GateDecision, GateStatus, GateStep, TrialEvidence
from agent_eval.gate.explanation import (
    JUDGES_SHOWN,
    WAIVERS_SHOWN,
    expired,
    explain,
    trial_numbers,
)
from tests.unit.gate.test_decide import comparison, gate, pairs, waiver


def changed(decision: GateDecision, **fields: Any) -> GateDecision:
    return decision.model_copy(update=fields)


def of_judges(number: int) -> str:
    """The line on judges, of which so many fail every case that another judge failed before too."""
    names = [f"j{place}" for place in range(number)]
    before = {f"c{n}": {"x": "failed", **dict.fromkeys(names, "passed")} for n in range(3)}
    now = {f"c{n}": {"x": "failed", **dict.fromkeys(names, "failed")} for n in range(3)}
    [line] = [line for line in gate(comparison(before, now)).explanation if line.startswith("judges: ")]
    return line


def test_a_few_judges_are_named_and_the_others_counted() -> None:
    assert of_judges(JUDGES_SHOWN).count("regressed") == JUDGES_SHOWN
    assert "more" not in of_judges(JUDGES_SHOWN)
    assert of_judges(JUDGES_SHOWN + 2).endswith("; 2 more")
    assert "judges: " not in " ".join(gate(pairs(1, 0, 4)).explanation)


def failing(*messages: str) -> list[str]:
    steps = [GateStep(name="thresholds", status="failed", message=message) for message in messages]
    return explain(changed(gate(pairs(1, 0, 40)), steps=steps))


def test_the_first_failed_step_has_a_line_and_the_others_share_one() -> None:
    assert failing("One.", "Two.", "Three.")[-2:] == ["One.", "Two. Three."]
    assert failing("One.")[-1] == "One."
    assert len(failing("One.", "Two.", "Three.")) == len(failing("One.")) + 1


def test_a_decision_by_thresholds_alone_has_no_explanation() -> None:
    assert explain(changed(gate(pairs(1, 0, 4)), evidence=None)) == []


def ended(number: int, *cases: str, waiver_id: str | None = "w") -> ExpiredExcuse:
    return ExpiredExcuse(
        waiver_id=waiver_id and f"{waiver_id}-{number}",
        case_ids=list(cases) or ["a"],
        expires_at="2026-01-01T00:00:00Z",
    )


def test_what_ended_is_named_with_its_cases_and_many_are_counted() -> None:
    decision = gate(pairs(1, 0, 4))
    assert expired(decision) == ""
    assert expired(changed(decision, expired=[ended(1), ended(2, "a", "b", "c", waiver_id=None)])) == (
        "counting again: waiver w-1 of a ended 2026-01-01T00:00:00Z; "
        "quarantine of a and 2 more ended 2026-01-01T00:00:00Z"
    )
    many = [ended(number) for number in range(WAIVERS_SHOWN + 2)]
    assert expired(changed(decision, expired=many)).endswith("; 2 more")
    assert "more" not in expired(changed(decision, expired=many[:WAIVERS_SHOWN]))


def test_waivers_that_apply_are_named_and_many_are_counted() -> None:
    found = pairs(WAIVERS_SHOWN + 1, 0, 40)
    waivers = [waiver(waiver_id=f"w-{n}", case_id=f"c{n:04}") for n in range(WAIVERS_SHOWN + 1)]
    [line] = [line for line in gate(found, waivers=waivers).explanation if line.startswith("waivers: ")]
    assert line.startswith("waivers: w-0 by qa@example.com (until 2026-07-30T00:00:00+00:00, 1 case); w-1 by")
    assert line.endswith("; 1 more")


def trials(*numbers: int) -> TrialEvidence:
    names = ("baseline_fewest", "baseline_most", "candidate_fewest", "candidate_most")
    figures: dict[str, Any] = dict(zip(names, numbers, strict=True))
    return TrialEvidence(**figures, baseline_rate=1.0, candidate_rate=1.0, errors=0)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [((4, 4, 4, 4), "4"), ((3, 4, 3, 4), "3 to 4"), ((1, 1, 4, 4), "1 -> 4"), ((1, 2, 2, 2), "1 to 2 -> 2")],
)
def test_numbers_of_trials_are_said_once_where_both_runs_have_the_same(
    numbers: tuple[int, ...], said: str
) -> None:
    assert trial_numbers(trials(*numbers)) == said


def headline(*statuses: str) -> str:
    """The first line of a decision whose steps, called a, b and so on, ended so."""
    steps = [
        GateStep.model_construct(name="abcdef"[place], status=status, message=f"Step {'abcdef'[place]}.")
        for place, status in enumerate(statuses)
    ]
    status = "failed" if "failed" in statuses else "inconclusive" if "inconclusive" in statuses else "passed"
    made = changed(gate(pairs(0, 0, 4)), steps=steps, gate_status=GateStatus(status), failures=[])
    return explain(made)[0]


def test_the_first_line_names_the_step_that_decides() -> None:
    assert headline("passed", "passed") == "PASSED, preset pull-request: b. Step b."
    undecided = headline("passed", "inconclusive", "inconclusive", "passed")
    assert undecided == "INCONCLUSIVE (a warning, does not block), preset pull-request: b. Step b."
    # What failed decides before what is open, and its sentence has a line of its own.
    assert headline("inconclusive", "passed", "failed", "failed") == "FAILED, preset pull-request: c."


def test_errors_and_cases_without_a_score_are_counted_in_the_whole_candidate() -> None:
    nothing = {"policy": "skipped", "replay_contract": "skipped"}
    before = {"a": "passed", "b": "error", "c": "passed", "d": "passed", "e": "passed", "f": "passed"}
    now = {"a": "error", "b": "error", "c": "inconclusive", "d": nothing, "e": "passed", "f": "failed"}
    decision = gate(comparison(before, now))
    assert decision.evidence is not None
    found = decision.evidence
    assert (found.errors, found.new_errors, found.unscored) == (2, 1, 2)
    assert any(line.endswith("errors 2 (1 new), unscored 2") for line in decision.explanation)
