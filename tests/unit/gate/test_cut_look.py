"""A run that is cut short in a later look fails by what it has seen, and is not evaluated otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import GateDecision, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.cut_look import CutLook, with_cut_look
from agent_eval.gate.decide import decide_by_policy
from tests.unit.gate.test_decide import NOW, comparison, statuses, waiver
from tests.unit.gate.test_zero_tolerance import CASES, CLEAN, FIRST, REPEAT, SOFT, ceiling, failing

WHY = ["A further look was cut short: the money is spent.", "Raise the limit."]
STRICT = GatePolicy(**SOFT)


def decided(
    cut: dict[str, list[str]],
    policy: GatePolicy = STRICT,
    *,
    now: dict[str, Any] = CLEAN,
    is_outage: bool = False,
    waivers: Any = (),
) -> GateDecision:
    """Decide on a look, and on what the one that was cut short showed: cases by judge."""
    found = comparison(CLEAN, now)
    before = decide_by_policy(found, policy, generated_at=NOW, waivers=waivers)
    return with_cut_look(before, found, CutLook(WHY, is_outage, cut), policy, waivers)


@pytest.mark.parametrize("is_outage", [False, True], ids=["a limit", "an outage"])
def test_nothing_seen_is_not_evaluated(is_outage: bool) -> None:
    decision = decided({"quality": [FIRST]}, is_outage=is_outage)
    assert (decision.not_evaluated, decision.passed, decision.blocks) == (WHY, False, True)
    assert statuses(decision)["zero-tolerance"] == "passed"


@pytest.mark.parametrize("is_outage", [False, True], ids=["a limit", "an outage"])
@pytest.mark.parametrize("policy", [STRICT, REPEAT, ceiling(0.01)], ids=["at once", "repeat", "ceiling"])
def test_a_zero_tolerance_failure_fails_on_every_term(policy: GatePolicy, is_outage: bool) -> None:
    decision = decided({"safety": [FIRST]}, policy, is_outage=is_outage)
    assert (decision.gate_status, decision.not_evaluated) == ("failed", [])
    assert statuses(decision)["zero-tolerance"] == "failed"
    assert "safety newly fails 1 case (case-000)" in decision.failures[-1]
    assert "cut short" in decision.failures[-1]


def test_within_a_ceiling_it_is_not_evaluated_and_above_it_counts_with_the_look_before() -> None:
    policy = ceiling(0.025)
    assert decided({"safety": [FIRST]}, policy).not_evaluated == WHY
    above = decided({"safety": [FIRST]}, policy, now=failing(CASES[1]))
    assert statuses(above)["zero-tolerance"] == "failed"


def test_only_a_waiver_of_case_and_judge_excuses_it() -> None:
    excused = decided({"safety": [FIRST]}, waivers=[waiver(case_id=FIRST, judge_id="safety")])
    assert excused.not_evaluated == WHY
    broad = decided({"safety": [FIRST]}, waivers=[waiver(case_id=FIRST)])
    assert statuses(broad)["zero-tolerance"] == "failed"


def test_what_a_complete_look_failed_stays_failed_at_a_limit_and_says_nothing_in_an_outage() -> None:
    policy = GatePolicy(**SOFT, thresholds=Thresholds(max_regressed_cases=0))
    now = failing(FIRST, judge="quality")
    assert (decided({}, policy, now=now).gate_status, decided({}, policy, now=now).not_evaluated) == (
        "failed",
        [],
    )
    assert decided({}, policy, now=now, is_outage=True).not_evaluated == WHY
