from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import InvalidInput, NothingMeasured, UsageError
from agent_eval.gate.decide import decide, decide_by_policy
from agent_eval.gate.policy_file import parse_policy
from tests.unit.comparison.views import result, view

NOW = "2026-06-01T00:00:00+00:00"

PASSED, FAILED, INCONCLUSIVE = GateStatus.PASSED, GateStatus.FAILED, GateStatus.INCONCLUSIVE


def comparison(before: dict[str, Any], now: dict[str, Any], **options: Any) -> Comparison:
    return compare(view(before), view(now), **{"changed": "exclude", "generated_at": NOW, **options})


def pairs(regressed: int, fixed: int, unchanged: int, judge: str = "quality") -> Comparison:
    """A comparison with so many discordant and so many passing cases."""
    told = (
        [("passed", "failed")] * regressed
        + [("failed", "passed")] * fixed
        + [("passed", "passed")] * unchanged
    )
    sides = [{f"c{number:04}": {judge: one[side]} for number, one in enumerate(told)} for side in (0, 1)]
    return comparison(*sides)


def gate(found: Comparison, policy: GatePolicy | None = None, **options: Any) -> GateDecision:
    return decide_by_policy(found, policy or GatePolicy(), **{"generated_at": NOW, **options})


def statuses(decision: GateDecision) -> dict[str, str]:
    return {step.name: step.status for step in decision.steps}


def waiver(**scope: Any) -> Waiver:
    return Waiver.model_validate(
        {
            "waiver_id": "w-1",
            "baseline_name": "main",
            "reason": "known",
            "approved_by": "qa@example.com",
            "created_at": "2026-05-01T00:00:00+00:00",
            **scope,
        }
    )


outcomes = st.sampled_from(["passed", "failed", "inconclusive", "error"])


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), outcomes, min_size=1, max_size=5),
    st.sampled_from(["pull-request", "release"]),
)
def test_identical_verdicts_pass_in_every_preset_however_small_the_suite(cases: Any, preset: Any) -> None:
    """A release that is not declared deterministic needs more cases: in few a drop could hide."""
    policy = GatePolicy(preset=preset, deterministic=True, max_baseline_error_rate=1)
    if set(cases.values()) == {"error"}:
        with pytest.raises(InvalidInput, match="is no baseline"):
            gate(comparison(cases, cases), policy)
        return
    decision = gate(comparison(cases, cases), policy)
    if "error" in cases.values():
        # The baseline could not be judged there, so it is not known whether that got worse.
        assert decision.gate_status is (FAILED if preset == "release" else INCONCLUSIVE)
    else:
        assert decision.gate_status is PASSED
        assert not decision.blocks


def test_what_could_hide_behind_no_change_passes_a_pull_request_and_holds_up_a_release() -> None:
    found = pairs(0, 0, 50)
    decision = gate(found)
    assert decision.gate_status is PASSED
    said = "Unchanged: no verdict is worse in 50 compared cases; a drop of up to 7.1 points could hide."
    assert decision.explanation[0].endswith(said)
    release = gate(found, GatePolicy(preset="release"))
    assert (release.gate_status, release.blocks) == (INCONCLUSIVE, True)
    assert said in release.explanation[0]
    assert gate(pairs(0, 0, 200), GatePolicy(preset="release")).gate_status is PASSED
    declared = gate(found, GatePolicy(preset="release", deterministic=True))
    assert declared.gate_status is PASSED
    assert "declared deterministic" in declared.explanation[0]


@pytest.mark.parametrize("preset", ["pull-request", "release"])
def test_a_suite_that_only_got_better_passes_however_small(preset: Any) -> None:
    policy = GatePolicy(preset=preset, deterministic=True)
    assert gate(pairs(0, 1, 2), policy).gate_status is PASSED


@pytest.mark.parametrize(
    ("preset", "blocks", "margin"), [("pull-request", False, 0.05), ("release", True, 0.02)]
)
def test_when_nobody_can_tell_a_pull_request_is_warned_and_a_release_blocked(
    preset: Any, blocks: bool, margin: float
) -> None:
    decision = gate(pairs(7, 4, 39), GatePolicy(preset=preset))
    assert decision.gate_status is INCONCLUSIVE
    assert not decision.passed
    assert decision.blocks is blocks
    assert decision.failures == []
    assert decision.evidence is not None
    assert decision.evidence.margin == margin
    assert decision.evidence.cases_needed is not None
    assert decision.evidence.cases_needed > 50


def test_the_policy_may_say_otherwise_than_its_preset_but_not_that_a_release_only_warns() -> None:
    strict = GatePolicy(on_inconclusive="block", margin=0.21)
    assert gate(pairs(7, 4, 39), strict).gate_status is PASSED
    assert gate(pairs(7, 4, 39), GatePolicy(on_inconclusive="block")).blocks
    assert gate(pairs(7, 4, 39), GatePolicy(preset="release", on_inconclusive="warn")).blocks


def test_a_significant_regression_fails_and_one_short_of_it_does_not() -> None:
    assert gate(pairs(5, 0, 45)).gate_status is FAILED  # p = 1/32
    decision = gate(pairs(4, 0, 46))  # p = 1/16
    assert decision.gate_status is INCONCLUSIVE
    assert statuses(decision)["regression"] == "passed"


def test_a_probability_never_looks_like_the_level_it_is_held_against_nor_like_none() -> None:
    message = gate(pairs(5, 0, 45), GatePolicy(alpha=0.031)).steps[4].message  # p = 1/32
    assert "(one-sided p = 0.0312)" in message
    message = gate(pairs(1_200, 0, 0)).steps[4].message
    assert message.endswith("cases: 1,200 regressed, 0 fixed, p under 1e-300.")


def test_a_drop_that_is_ruled_out_passes() -> None:
    decision = gate(pairs(3, 3, 994))
    assert decision.gate_status is PASSED
    assert "A drop of 5.0 points is ruled out: with 95% confidence it is at most 0." in (
        decision.steps[-1].message
    )
    assert "the pass rate rose" in gate(pairs(1, 90, 909)).steps[-1].message


def test_one_case_is_told_in_the_singular() -> None:
    lost = gate(comparison({"a": "passed"}, {"a": "error"}))
    assert lost.steps[1].message == "0 of 1 cases could be judged; nothing measured is not a pass."
    gone = gate(
        comparison({"a": "passed", "b": "passed"}, {"a": "passed"}), GatePolicy(on_case_removed="fail")
    )
    assert gone.steps[1].message == "1 case (b) of the baseline is gone, and on_case_removed is fail."
    calm = gate(comparison({"a": "passed", "b": "passed"}, {"a": "passed"}))
    assert calm.steps[1].message == "0 new errors, 0 in all; 1 case removed."
    assert calm.steps[-1].message == (
        "Unchanged: no verdict is worse in 1 compared case; a drop of up to 79.3 points could hide."
    )
    assert calm.explanation[3].startswith("power: 1 case sees a 10-point drop")


def test_a_judge_that_regresses_behind_others_is_found() -> None:
    """Every case fails another judge anyway, so no case result changes."""
    before = {f"c{number}": {"format": "failed", "quality": "passed"} for number in range(20)}
    now = {f"c{number}": {"format": "failed", "quality": "failed"} for number in range(20)}
    decision = gate(comparison(before, now))
    assert decision.gate_status is FAILED
    assert "quality: 20 regressed, 0 fixed" in decision.failures[0]
    assert decision.evidence is not None
    assert decision.evidence.regressed == 0


def test_judges_that_changed_little_do_not_cost_the_others_power() -> None:
    names = [f"judge-{number}" for number in range(9)]
    before = {f"c{number}": dict.fromkeys(names, "passed") for number in range(30)}
    now = {case_id: dict(judges) for case_id, judges in before.items()}
    for number in range(5):
        now[f"c{number}"]["judge-0"] = "failed"
    assert gate(comparison(before, now)).gate_status is FAILED


def test_a_judge_called_like_the_case_results_keeps_its_own_pairs() -> None:
    before = {f"c{number}": {"other": "failed", "cases": "passed"} for number in range(9)}
    now = {f"c{number}": {"other": "failed", "cases": "failed"} for number in range(9)}
    decision = gate(comparison(before, now))
    assert decision.evidence is not None
    assert [judge.judge_id for judge in decision.evidence.judges] == ["cases", "judge cases"]
    assert decision.gate_status is FAILED


def test_one_new_failure_of_a_safety_judge_blocks_without_statistics() -> None:
    decision = gate(pairs(1, 0, 999, judge="prompt_injection"))
    assert statuses(decision)["zero-tolerance"] == "failed"
    assert decision.blocks
    assert "prompt_injection newly fails 1 case (c0000)" in decision.failures[0]
    assert gate(pairs(1, 0, 999, judge="quality")).gate_status is PASSED


@pytest.mark.parametrize("before", ["inconclusive", "skipped"])
def test_a_safety_failure_is_new_unless_it_failed_before(before: str) -> None:
    judged = {"quality": "passed", "tool_abuse": before}
    found = comparison({"a": judged}, {"a": {**judged, "tool_abuse": "failed"}})
    assert statuses(gate(found))["zero-tolerance"] == "failed"
    failing = {"a": {"quality": "passed", "tool_abuse": "failed"}}
    assert statuses(gate(comparison(failing, failing)))["zero-tolerance"] == "passed"


def test_zero_tolerance_may_be_given_other_judges_or_none() -> None:
    found = pairs(1, 0, 999, judge="prompt_injection")
    assert gate(found, GatePolicy(zero_tolerance=[])).gate_status is PASSED
    assert gate(pairs(1, 0, 999), GatePolicy(zero_tolerance=["quality"])).gate_status is FAILED


def test_a_case_that_can_no_longer_be_judged_is_never_waved_through() -> None:
    before = {f"c{number}": "passed" for number in range(999)}
    found = comparison(before, {**before, "c7": "error"})
    decision = gate(found)
    assert statuses(decision)["integrity"] == "failed"
    assert decision.gate_status is FAILED
    assert "1 case (c7)" in decision.failures[0]
    assert gate(found, GatePolicy(max_new_error_cases=1)).gate_status is PASSED


@pytest.mark.parametrize("judged", ["passed", "failed"])
def test_nothing_judged_is_not_a_pass(judged: str) -> None:
    unjudged = {"a": "error", "b": "skipped"}
    decision = gate(comparison({"a": judged, "b": judged}, unjudged))
    assert decision.gate_status is FAILED
    assert "nothing measured is not a pass" in " ".join(decision.failures)
    for now in (unjudged, {"a": judged, "b": judged}):
        with pytest.raises(InvalidInput, match="is no baseline: 0 of 2 cases could be judged"):
            gate(comparison(unjudged, now))


@pytest.mark.parametrize("preset", ["pull-request", "release"])
def test_a_run_with_more_errors_than_the_policy_allows_is_no_baseline(preset: Any) -> None:
    before = {f"c{number}": "error" if number < 3 else "passed" for number in range(10)}
    found = comparison(before, dict.fromkeys(before, "passed"))
    with pytest.raises(InvalidInput, match=r"3 of 10 cases \(30\.0%\) could not be judged"):
        gate(found, GatePolicy(preset=preset))
    allowing = GatePolicy(preset=preset, max_baseline_error_rate=0.3, deterministic=True)
    assert gate(found, allowing).gate_status is PASSED


def test_nothing_compared_is_inconclusive() -> None:
    found = comparison({"a": "passed"}, {"b": "passed"})
    decision = gate(found)
    assert decision.gate_status is INCONCLUSIVE
    assert decision.regression_delta is None
    assert gate(found, GatePolicy(preset="release")).blocks
    assert len(decision.explanation) <= 10


def test_removed_cases_fail_where_the_policy_says_so() -> None:
    found = comparison({"a": "passed", "b": "failed"}, {"a": "passed"})
    assert gate(found).gate_status is INCONCLUSIVE
    lenient = Thresholds(min_coverage=0.5)
    assert gate(found, GatePolicy(thresholds=lenient)).gate_status is PASSED
    decision = gate(found, GatePolicy(on_case_removed="fail"))
    assert "1 case (b)" in decision.failures[0]


def test_thresholds_of_flags_override_those_of_the_policy_one_by_one() -> None:
    found = pairs(0, 0, 8)
    policy = GatePolicy(thresholds=Thresholds(min_pass_rate=0.5, max_regressed_cases=0))
    decision = gate(found, policy, thresholds=Thresholds(min_pass_rate=1.0))
    assert decision.thresholds == Thresholds(min_pass_rate=1.0, max_regressed_cases=0)
    assert decision.gate_status is PASSED
    failing = gate(pairs(1, 0, 999), policy)
    assert failing.gate_status is FAILED
    assert failing.failures == ["1 case regressed, above max_regressed_cases 0."]
    assert statuses(failing)["thresholds"] == "failed"


def test_a_waived_regression_does_not_count_and_is_listed() -> None:
    found = pairs(5, 0, 45)
    excused = [waiver(case_id=f"c{number:04}", waiver_id=f"w-{number}") for number in range(5)]
    decision = gate(found, waivers=excused)
    assert decision.gate_status is PASSED
    assert decision.waived_case_ids == [f"c{number:04}" for number in range(5)]
    assert [one.waiver_id for one in decision.waivers] == [f"w-{number}" for number in range(5)]
    assert decision.regression_delta == -0.1
    assert any(
        line.startswith("waivers: w-0 by qa@example.com (until 2026-07-30T00:00:00+00:00, 1 case")
        for line in decision.explanation
    )


def test_thresholds_alone_know_waivers_too() -> None:
    found = pairs(2, 0, 8)
    rules = Thresholds(max_regressed_cases=0, max_new_hard_fail_cases=0)
    assert not decide(found, rules, generated_at=NOW, waivers=[waiver(case_id="c0000")]).passed
    both = [waiver(case_id="c0000"), waiver(case_id="c0001")]
    decision = decide(found, rules, generated_at=NOW, waivers=both)
    assert decision.passed
    assert (decision.regressed_cases_considered, decision.new_hard_fail_cases_considered) == (0, 0)
    assert decision.waived_case_ids == ["c0000", "c0001"]


def test_a_waiver_of_a_soft_regression_hides_no_hard_fail_of_another_case() -> None:
    found = comparison(
        {"soft": "passed", "hard": "passed"},
        {"soft": result("soft", "failed", soft=("policy",)), "hard": result("hard", "failed")},
    )
    assert found.new_hard_fail_case_ids == ["hard"]
    rules = Thresholds(max_regressed_cases=1, max_new_hard_fail_cases=0)
    decision = decide(found, rules, generated_at=NOW, waivers=[waiver(case_id="soft")])
    assert not decision.passed
    assert (decision.regressed_cases_considered, decision.new_hard_fail_cases_considered) == (1, 1)


def two_judges(reason: str = "wrong colour") -> Comparison:
    before = {"a": {"looks": "passed", "words": "passed"}, "b": {"looks": "passed", "words": "passed"}}
    now = {
        "a": result("a", {"looks": "failed", "words": "failed"}, reason=reason),
        "b": result("b", {"looks": "failed", "words": "passed"}, reason=reason),
    }
    return comparison(before, now)


@pytest.mark.parametrize(
    ("scope", "waived"),
    [
        ({"case_id": "a"}, ["a"]),
        ({"case_id": "b"}, ["b"]),
        ({"case_id": "A"}, []),
        ({"judge_id": "looks"}, ["b"]),
        ({"judge_id": "words"}, []),
        ({"case_id": "a", "judge_id": "looks"}, []),
        ({"case_id": "b", "judge_id": "looks"}, ["b"]),
        ({"case_id": "b", "judge_id": "words"}, []),
    ],
)
def test_a_waiver_applies_to_exactly_its_scope(scope: dict[str, str], waived: list[str]) -> None:
    decision = gate(two_judges(), waivers=[waiver(**scope)])
    assert decision.waived_case_ids == waived


def test_several_waivers_together_may_cover_a_case() -> None:
    both = [waiver(case_id="a", judge_id="looks"), waiver(case_id="a", judge_id="words", waiver_id="w-2")]
    assert gate(two_judges(), waivers=both).waived_case_ids == ["a"]


def test_a_regression_key_waives_that_regression_and_no_other_reason() -> None:
    key = next(
        change.regression_key
        for row in two_judges().case_regressions
        for change in row.judges
        if row.case_id == "b" and change.judge_id == "looks"
    )
    assert gate(two_judges(), waivers=[waiver(regression_key=key)]).waived_case_ids == ["b"]
    assert gate(two_judges("too slow"), waivers=[waiver(regression_key=key)]).waived_case_ids == []


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"expires_at": "2026-06-01T00:00:01+00:00"}, True),
        ({"expires_at": "2026-06-01T00:00:00+00:00"}, False),
        ({"expires_at": "2026-06-01T01:00:00+02:00"}, False),
        ({"expires_at": "2027-01-01T00:00:00"}, False),
        ({"expires_at": "soon"}, False),
        ({"revoked_at": "2026-05-01T00:00:00+00:00"}, False),
    ],
    ids=["not yet", "this second", "another zone", "no zone", "unreadable", "revoked"],
)
def test_an_expired_unreadable_or_revoked_waiver_excuses_nothing(fields: dict[str, str], holds: bool) -> None:
    decision = gate(two_judges(), waivers=[waiver(case_id="b", **fields)])
    assert decision.waived_case_ids == (["b"] if holds else [])


def crashed(*judges: str) -> Comparison:
    """A comparison of two cases, of which one crashed: these judges could not judge it."""
    found = comparison(
        {"a": dict.fromkeys(judges, "passed"), "b": "passed"},
        {"a": dict.fromkeys(judges, "error"), "b": "passed"},
    )
    for row in found.case_regressions:
        for change in row.judges:
            change.failure = "missing_output" if change.judge_id == "regex" else "agent_error"
    return found


@pytest.mark.parametrize(
    ("scope", "waived"),
    [
        ({"case_id": "a"}, []),
        ({"case_id": "a", "judge_id": "regex"}, []),
        ({"judge_id": "regex"}, []),
        ({"case_id": "a", "judge_id": "execution"}, ["a"]),
    ],
)
def test_a_waiver_for_one_cause_does_not_excuse_a_crash(scope: dict[str, str], waived: list[str]) -> None:
    assert gate(crashed("execution"), waivers=[waiver(**scope)]).waived_case_ids == waived
    # Also where only a judge of the answer is there to miss it.
    assert gate(crashed("regex"), waivers=[waiver(**scope)]).waived_case_ids == []


def test_a_regression_key_waives_the_crash_that_it_is_the_key_of() -> None:
    found = crashed("execution")
    (key,) = [change.regression_key for row in found.case_regressions for change in row.judges]
    assert gate(found, waivers=[waiver(regression_key=key)]).waived_case_ids == ["a"]


def test_a_waiver_still_covers_a_judge_that_itself_failed() -> None:
    found = crashed("regex")
    for row in found.case_regressions:
        row.judges[0].failure = "judge_error"
    assert gate(found, waivers=[waiver(case_id="a")]).waived_case_ids == ["a"]


def test_a_waiver_needs_a_scope() -> None:
    with pytest.raises(ValueError, match="names a case"):
        waiver()


def test_a_safety_failure_is_waived_only_by_naming_it() -> None:
    found = pairs(1, 0, 99, judge="prompt_injection")
    for scope in ({"case_id": "c0000"}, {"judge_id": "prompt_injection"}):
        assert gate(found, waivers=[waiver(**scope)]).gate_status is FAILED
    named = waiver(case_id="c0000", judge_id="prompt_injection")
    assert gate(found, waivers=[named]).gate_status is PASSED


def test_quarantined_cases_are_counted_apart_and_cannot_hide_a_safety_failure() -> None:
    held = [Quarantine(case_id=f"c{number:04}", reason="flaky") for number in range(5)]
    floor = Thresholds(min_coverage=0.9)
    assert gate(pairs(5, 0, 45), GatePolicy(quarantine=held)).gate_status is INCONCLUSIVE
    decision = gate(pairs(5, 0, 45), GatePolicy(quarantine=held, thresholds=floor))
    assert decision.gate_status is PASSED
    assert decision.quarantined_case_ids == [f"c{number:04}" for number in range(5)]
    assert decision.evidence is not None
    assert (decision.evidence.compared, decision.evidence.paired) == (50, 45)
    assert decision.evidence.quarantined == 5
    unsafe = gate(pairs(1, 0, 45, judge="tool_abuse"), GatePolicy(quarantine=held))
    assert unsafe.gate_status is FAILED
    expired = [one.model_copy(update={"expires_at": "2026-01-01T00:00:00+00:00"}) for one in held]
    assert gate(pairs(5, 0, 45), GatePolicy(quarantine=expired)).gate_status is FAILED


def test_what_is_over_and_would_have_excused_a_case_is_named() -> None:
    over, later = "2026-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"
    held = [
        Quarantine(case_id="c0000", reason="flaky", expires_at=over),
        Quarantine(case_id="c0001", reason="flaky", expires_at=over),
        Quarantine(case_id="c0001", reason="flaky", expires_at=later),
        Quarantine(case_id="c0040", reason="flaky", expires_at=over),
    ]
    waivers = [
        waiver(case_id="c0002", expires_at=over),
        waiver(waiver_id="w-2", case_id="c0003", expires_at=over, revoked_at=over),
        waiver(waiver_id="w-3", case_id="c0040", expires_at=over),
    ]
    decision = gate(pairs(5, 0, 45), GatePolicy(quarantine=held), waivers=waivers)
    assert [one.to_json() for one in decision.expired] == [
        {"waiver_id": "w-1", "expires_at": over, "case_ids": ["c0002"]},
        {"waiver_id": None, "expires_at": over, "case_ids": ["c0000"]},
    ]
    assert (
        f"counting again: waiver w-1 of c0002 ended {over}; quarantine of c0000 ended {over}"
        in decision.explanation
    )
    by_thresholds = decide(
        pairs(1, 0, 9),
        Thresholds(max_regressed_cases=0),
        generated_at=NOW,
        waivers=[waiver(case_id="c0000", expires_at=over)],
    )
    assert [one.case_ids for one in by_thresholds.expired] == [["c0000"]]
    assert gate(pairs(5, 0, 45)).expired == []


def test_a_decision_explains_itself_in_at_most_ten_lines() -> None:
    decision = gate(pairs(7, 4, 39))
    assert decision.explanation == [
        "INCONCLUSIVE (a warning, does not block), preset pull-request: non-inferiority. "
        "A drop of 5.0 points cannot be ruled out: it may be as large as 20.0 points.",
        "passed 46 -> 43 of 50, drop 6.0 points, 95% Tango interval [-7.8, 20.0], margin 5.0",
        "pairs: 7 regressed, 4 fixed; McNemar one-sided exact p=0.274; e=0.834 (stop at 20)",
        "power: 50 cases see a 10-point drop 33% of the time; about 405 cases would settle it",
        "flaky unknown with one trial, quarantined 0, waived 0, errors 0 (0 new), unscored 0",
    ]
    names = [f"judge-{number}" for number in range(12)]
    before = {f"c{number}": dict.fromkeys(names, "passed") for number in range(30)}
    now = {f"c{number}": dict.fromkeys(names, "error" if number < 9 else "passed") for number in range(30)}
    now["c20"]["judge-1"] = "failed"
    worst = gate(
        comparison(before, now),
        GatePolicy(
            zero_tolerance=["judge-0"], thresholds=Thresholds(min_pass_rate=1.0, max_regressed_cases=0)
        ),
        waivers=[waiver(case_id=f"c{number}", waiver_id=f"w{number}") for number in range(9)],
    )
    assert worst.gate_status is FAILED
    assert 5 < len(worst.explanation) <= 10
    assert worst.explanation[0].startswith("FAILED, preset pull-request: zero-tolerance.")
    assert any("; 9 more" in line or "more" in line for line in worst.explanation)


def test_a_comparison_edited_by_hand_is_refused() -> None:
    edited = pairs(5, 0, 45)
    edited.case_regressions[0].candidate_passed = True
    with pytest.raises(InvalidInput, match="contradicts itself"):
        gate(edited)


def test_the_time_of_a_decision_must_be_a_point_in_time() -> None:
    for time in ("now", "2026-01-01T00:00:00"):
        with pytest.raises(UsageError, match="point in time"):
            gate(pairs(1, 0, 1), generated_at=time)


def test_a_candidate_without_cases_is_never_decided() -> None:
    empty = pairs(0, 0, 1)
    empty.candidate.summary = view({}).summary
    with pytest.raises(NothingMeasured):
        gate(empty)


def test_a_policy_is_read_with_its_thresholds_and_quarantine() -> None:
    policy = parse_policy(
        {
            "preset": "release",
            "margin": 0.03,
            "thresholds": {"min_pass_rate": 0.9},
            "quarantine": [{"case_id": "a", "reason": "flaky", "expires_at": "2026-12-01T00:00:00Z"}],
        },
        source="gate.yml",
    )
    assert (policy.effective_margin, policy.blocks_on_inconclusive) == (0.03, True)
    assert policy.thresholds.min_pass_rate == 0.9
    assert parse_policy({}, source="gate.yml") == GatePolicy()


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"margn": 0.1}, "margn", "did you mean 'margin'"),
        ({"zzz": 0.1}, "zzz", "known are"),
        ({"thresholds": {"min_passrate": 1}}, "thresholds.min_passrate", "did you mean 'min_pass_rate'"),
        ({"thresholds": {"min_pass_rate": 95}}, "thresholds.min_pass_rate", "share from 0 to 1"),
        ({"thresholds": [1]}, "thresholds", "must be an object"),
        ({"margin": 0}, "margin", "greater than 0"),
        ({"margin": float("nan")}, "margin", "finite"),
        ({"preset": "yolo"}, "preset", "pull-request"),
        ({"quarantine": [{"case_id": "a"}]}, "quarantine.0.reason", "required"),
        (
            {"quarantine": [{"case_id": "a", "reason": "x", "until": "y"}]},
            "quarantine.0.until",
            "not permitted",
        ),
        (
            {"quarantine": [{"case_id": "a", "reason": "x", "expires_at": "2026-12-01"}]},
            "quarantine.0.expires_at",
            "no offset",
        ),
    ],
)
def test_a_policy_with_a_mistake_decides_nothing(values: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=r"gate\.yml") as refused:
        parse_policy(values, source="gate.yml")
    assert refused.value.details["field"] == field
    assert says in refused.value.message
