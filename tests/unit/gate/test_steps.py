"""Each step of a decision at the conditions that tell it from its neighbours."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from agent_eval.contracts import Coverage, CoverageLoss
from agent_eval.contracts.policy import GatePolicy, Preset
from agent_eval.gate import steps
from agent_eval.gate.waivers import Excuses, excuse, worsened
from agent_eval.gate.zero_tolerance import zero_tolerance as zero_tolerance_step
from tests.unit.comparison.views import result, tried
from tests.unit.gate.test_decide import NOW, comparison, waiver

WHOLE = Coverage(cases=2)
NOTHING = Coverage(cases=2, losses=[CoverageLoss(cause="removed", cases={"a": 1.0, "b": 1.0})])


@pytest.mark.parametrize(
    ("counted", "is_below_floor", "passes"),
    [(WHOLE, False, True), (WHOLE, True, False), (NOTHING, False, False), (None, False, False)],
    ids=["whole", "below the floor", "nothing, allowed by the floor", "not measured"],
)
@pytest.mark.parametrize(("preset", "otherwise"), [("pull-request", "inconclusive"), ("release", "failed")])
def test_coverage_stops_below_the_floor_and_where_nothing_is_compared(
    counted: Coverage | None, is_below_floor: bool, passes: bool, preset: Preset, otherwise: str
) -> None:
    step = steps.coverage(counted, GatePolicy(preset=preset), is_below_floor=is_below_floor)
    assert step.status == ("passed" if passes else otherwise)


def zero_tolerance(before: Any, now: Any, *judges: str) -> tuple[str, str]:
    policy = GatePolicy(zero_tolerance=list(judges or ("safety",)))
    step = zero_tolerance_step(comparison({"a": before}, {"a": now}), Excuses(), policy)
    return step.status, step.message


def verdicts(safety: str, policy: str = "passed") -> dict[str, str]:
    return {"safety": safety, "policy": policy}


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        ("passed", "failed", "failed"),
        ("passed", "error", "failed"),
        ("skipped", "failed", "failed"),
        ("error", "failed", "failed"),
        ("failed", "failed", "passed"),
        ("failed", "error", "passed"),
        ("error", "error", "passed"),
        ("passed", "skipped", "passed"),
        ("failed", "passed", "passed"),
    ],
)
def test_zero_tolerance_is_for_failures_that_are_new(before: str, now: str, status: str) -> None:
    # Another judge gets worse as well, so that the case is listed in any event.
    assert zero_tolerance(verdicts(before), verdicts(now, "failed"))[0] == status


def test_zero_tolerance_names_every_judge_and_its_cases() -> None:
    failing = verdicts("failed", "failed")
    assert zero_tolerance(verdicts("passed"), failing, "policy", "safety", "regex") == (
        "failed",
        "policy newly fails 1 case (a); safety newly fails 1 case (a).",
    )
    assert zero_tolerance(verdicts("passed"), verdicts("passed"), "safety", "policy") == (
        "passed",
        "No new failure of policy, safety.",
    )


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        (("passed", "passed"), ("passed", "failed"), "failed"),
        (("passed", "failed"), ("failed", "failed"), "passed"),
        (("passed", "failed"), ("failed", "passed"), "passed"),
        (("passed", "failed"), ("passed", "passed"), "passed"),
    ],
)
def test_zero_tolerance_of_several_trials_is_for_the_first_that_fails(
    before: tuple[str, ...], now: tuple[str, ...], status: str
) -> None:
    runs = (tried("a", *(verdicts(outcome) for outcome in outcomes)) for outcomes in (before, now))
    assert zero_tolerance(*runs)[0] == status


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        ("passed", "failed", ["safety"]),
        ("passed", "error", ["safety"]),
        ("failed", "failed", []),
        ("failed", "passed", []),
        ("error", "failed", []),
    ],
)
def test_only_a_verdict_that_is_worse_needs_a_waiver(before: str, now: str, worse: list[str]) -> None:
    found = comparison({"a": verdicts(before)}, {"a": result("a", verdicts(now, "failed"))})
    [row] = found.case_regressions
    assert [change.judge_id for change in worsened(row) if change.judge_id != "policy"] == worse


def test_a_waiver_covers_the_judge_that_it_names_alone() -> None:
    found = comparison({"a": verdicts("passed")}, {"a": verdicts("failed", "failed")})
    one = [waiver(case_id="a", judge_id="safety")]
    both = [*one, waiver(case_id="a", judge_id="policy", waiver_id="w-2")]
    now = datetime.fromisoformat(NOW)
    assert excuse(found, one, now=now).cases == frozenset()
    assert excuse(found, both, now=now).cases == {"a"}


@pytest.mark.parametrize(
    ("preset", "damaged", "status"),
    [("release", 0, "passed"), ("release", 2, "inconclusive"), ("pull-request", 2, "passed")],
)
def test_a_release_is_not_decided_on_a_run_whose_records_were_damaged(
    preset: Preset, damaged: int, status: str
) -> None:
    found = comparison({"a": "passed"}, {"a": "passed"})
    run = found.candidate.model_copy(update={"damaged_records": damaged})
    step = steps.integrity(found.model_copy(update={"candidate": run}), Excuses(), GatePolicy(preset=preset))
    assert step.status == status
    assert ("2 records of done trials were damaged" in step.message) == (status == "inconclusive")


@pytest.mark.parametrize(
    ("preset", "unchecked", "status"),
    [("release", 0, "passed"), ("release", 2, "inconclusive"), ("pull-request", 2, "passed")],
)
def test_a_release_is_not_decided_where_answers_were_not_checked(
    preset: Preset, unchecked: int, status: str
) -> None:
    found = comparison({"a": "passed"}, {"a": "passed"})
    summary = found.candidate.summary.model_copy(update={"answers_not_checked": unchecked})
    run = found.candidate.model_copy(update={"summary": summary})
    step = steps.integrity(found.model_copy(update={"candidate": run}), Excuses(), GatePolicy(preset=preset))
    assert step.status == status
    assert (step.message == "The answers of 2 cases are not checked, and that is no pass.") == (
        status == "inconclusive"
    )
