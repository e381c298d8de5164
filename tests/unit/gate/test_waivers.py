"""Waivers and quarantine excuse exactly what they name, and only until their day."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, Thresholds
from agent_eval.contracts.policy import Quarantine
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import UsageError
from agent_eval.gate.decide import decide
from agent_eval.gate.waivers import Excuses, excuse
from tests.unit.comparison.views import result, tried, view

NOW = "2026-06-01T00:00:00+00:00"


def comparison(before: dict[str, Any], now: dict[str, Any]) -> Comparison:
    return compare(view(before), view(now), generated_at=NOW)


def pairs(regressed: int, fixed: int, unchanged: int) -> Comparison:
    """A comparison with so many discordant and so many passing cases."""
    ends = [("passed", "failed")] * regressed + [("failed", "passed")] * fixed
    ends += [("passed", "passed")] * unchanged
    return comparison(
        *({f"c{number:04}": {"quality": end[side]} for number, end in enumerate(ends)} for side in (0, 1))
    )


def gate(found: Comparison, **options: Any) -> GateDecision:
    return decide(found, Thresholds(max_regressed_cases=0), **{"generated_at": NOW, **options})


def waiver(**scope: Any) -> Waiver:
    facts = {"waiver_id": "w-1", "baseline_name": "main", "reason": "known", "approved_by": "qa@example.com"}
    return Waiver.model_validate({**facts, "created_at": "2026-05-01T00:00:00+00:00", **scope})


def excused(found: Comparison | None, *waivers: Waiver, **more: Any) -> Excuses:
    return excuse(found, waivers, **{"generated_at": NOW, **more})


def test_a_waived_regression_does_not_count_and_is_listed() -> None:
    names = [f"c{number:04}" for number in range(5)]
    waivers = [waiver(case_id=name, waiver_id=f"w-{name}") for name in names]
    rules = Thresholds(max_regressed_cases=0, max_new_hard_fail_cases=0)
    assert not decide(pairs(5, 0, 45), rules, generated_at=NOW, waivers=waivers[1:]).passed
    decision = decide(pairs(5, 0, 45), rules, generated_at=NOW, waivers=waivers)
    assert decision.passed
    assert (decision.regressed_cases_considered, decision.new_hard_fail_cases_considered) == (0, 0)
    assert decision.waived_case_ids == names
    assert [each.waiver_id for each in decision.waivers] == [f"w-{name}" for name in names]
    assert decision.waivers[0].expires_at == "2026-07-30T00:00:00+00:00"
    assert decision.regression_delta == -0.1


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
    """Cases `a`, which fails by both judges now, and `b`, which fails by one."""
    good = {"looks": "passed", "words": "passed"}
    bad = {"a": {"looks": "failed", "words": "failed"}, "b": {"looks": "failed", "words": "passed"}}
    now = {name: result(name, said, reason=reason) for name, said in bad.items()}
    return comparison({"a": good, "b": good}, now)


@pytest.mark.parametrize(
    ("scopes", "waived"),
    [
        ([{"case_id": "a"}], ["a"]), ([{"case_id": "b"}], ["b"]), ([{"case_id": "A"}], []),
        ([{"judge_id": "looks"}], ["b"]), ([{"judge_id": "words"}], []),
        ([{"case_id": "a", "judge_id": "looks"}], []),
        ([{"case_id": "a", "judge_id": "looks"}, {"case_id": "a", "judge_id": "words"}], ["a"]),
        ([{"case_id": "b", "judge_id": "looks"}], ["b"]), ([{"case_id": "b", "judge_id": "words"}], []),
    ],
)  # fmt: skip
def test_waivers_apply_to_exactly_their_scope(scopes: list[dict[str, str]], waived: list[str]) -> None:
    waivers = [waiver(waiver_id=f"w-{number}", **scope) for number, scope in enumerate(scopes)]
    assert gate(two_judges(), waivers=waivers).waived_case_ids == waived
    with pytest.raises(ValueError, match="names a case"):
        waiver()


def test_a_regression_key_waives_that_regression_and_no_other_reason() -> None:
    rows = {row.case_id: row.judges for row in two_judges().case_regressions}
    key = next(change.regression_key for change in rows["b"] if change.judge_id == "looks")
    assert gate(two_judges(), waivers=[waiver(regression_key=key)]).waived_case_ids == ["b"]
    assert gate(two_judges("too slow"), waivers=[waiver(regression_key=key)]).waived_case_ids == []


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"expires_at": "2026-06-01T00:00:01+00:00"}, True),
        ({"expires_at": "2026-06-01T00:00:00+00:00"}, False),
        ({"expires_at": "2026-06-01T01:00:00+02:00"}, False), ({"expires_at": "2027-01-01T00:00:00"}, False),
        ({"expires_at": "soon"}, False), ({"revoked_at": "2026-05-01T00:00:00+00:00"}, False),
    ],
    ids=["not yet", "this second", "another zone", "no zone", "unreadable", "revoked"],
)  # fmt: skip
def test_an_expired_unreadable_or_revoked_waiver_excuses_nothing(fields: dict[str, str], holds: bool) -> None:
    decision = gate(two_judges(), waivers=[waiver(case_id="b", **fields)])
    assert decision.waived_case_ids == (["b"] if holds else [])


def crashed(*judges: str) -> Comparison:
    """A comparison of two cases, of which one crashed: these judges could not judge it."""
    found = comparison(*({"a": dict.fromkeys(judges, end), "b": "passed"} for end in ("passed", "error")))
    for row in found.case_regressions:
        for change in row.judges:
            change.failure = "missing_output" if change.judge_id == "regex" else "agent_error"
    return found


@pytest.mark.parametrize(
    ("scope", "waived"),
    [
        ({"case_id": "a"}, []), ({"case_id": "a", "judge_id": "regex"}, []), ({"judge_id": "regex"}, []),
        ({"case_id": "a", "judge_id": "execution"}, ["a"]),
    ],
)  # fmt: skip
def test_a_waiver_for_one_cause_does_not_excuse_a_crash(scope: dict[str, str], waived: list[str]) -> None:
    assert gate(crashed("execution"), waivers=[waiver(**scope)]).waived_case_ids == waived
    # Also where only a judge of the answer is there to miss it.
    assert gate(crashed("regex"), waivers=[waiver(**scope)]).waived_case_ids == []


def test_a_waiver_covers_the_crash_that_it_is_the_key_of_and_a_judge_that_itself_failed() -> None:
    found = crashed("execution")
    (key,) = [change.regression_key for row in found.case_regressions for change in row.judges]
    assert gate(found, waivers=[waiver(regression_key=key)]).waived_case_ids == ["a"]
    found = crashed("regex")
    for row in found.case_regressions:
        row.judges[0].failure = "judge_error"
    assert gate(found, waivers=[waiver(case_id="a")]).waived_case_ids == ["a"]


def test_the_judges_that_a_waiver_covers_are_known_by_case() -> None:
    found = excused(two_judges(), waiver(judge_id="looks"))
    assert (found.covered, found.waived) == ({"a": {"looks"}, "b": {"looks"}}, {"b"})


def test_a_judge_that_passes_fewer_trials_is_waived_like_one_whose_verdict_changed() -> None:
    good = {"looks": "passed", "words": "passed"}
    now = tried("a", {"looks": "failed", "words": "passed"}, good, good, good, policy="any")
    found = comparison({"a": tried("a", good, good, good, good, policy="any")}, {"a": now})
    assert excused(found, waiver(judge_id="looks")).waived == {"a"}
    assert excused(found, waiver(judge_id="words")).waived == frozenset()


def test_a_judge_that_newly_fails_one_trial_is_not_waived_with_another() -> None:
    """Where a judge passes as many of its trials as before and fails one all the same, it got worse."""
    good, unsure = {"looks": "passed", "words": "passed"}, {"looks": "passed", "words": "inconclusive"}
    before = {"a": tried("a", unsure, good, policy="any")}
    now = {"a": tried("a", {"looks": "failed", "words": "failed"}, good, policy="any")}
    found = comparison(before, now)
    assert found.regressed_case_ids == []
    words, looks = waiver(judge_id="words", waiver_id="w-2"), waiver(judge_id="looks")
    assert excused(found, looks).waived == frozenset()
    assert excused(found, looks, words).waived == {"a"}


def test_a_safety_judge_is_covered_where_a_waiver_names_its_case_or_it_also_without_a_baseline() -> None:
    violations = {"a": ["tool_abuse"], "b": ["tool_abuse"]}
    found = excused(None, waiver(case_id="a"), violations=violations)
    assert (found.covered, [one.case_ids for one in found.applied]) == ({"a": {"tool_abuse"}}, [["a"]])
    found = excused(None, waiver(judge_id="tool_abuse"), violations=violations)
    assert found.covered == {"a": {"tool_abuse"}, "b": {"tool_abuse"}}


@pytest.mark.parametrize(
    ("until", "holds"),
    [
        ("2026-06-01", True), ("2026-05-31", False), ("2026-06-01T00:00:01+00:00", True),
        ("2026-06-01T01:00:00+02:00", False),
    ],
)  # fmt: skip
def test_a_quarantine_holds_through_its_day(until: str, holds: bool) -> None:
    held = [Quarantine(case="c0000", reason="flaky", until=until)]
    assert excused(pairs(1, 0, 9), quarantine=held).quarantine == ({"c0000"} if holds else frozenset())


def test_what_is_over_and_would_have_excused_a_case_is_named() -> None:
    over, ended = "2026-01-01", "2026-01-01T00:00:00+00:00"
    dates = (("c0000", over), ("c0001", over), ("c0001", "2099-01-01"), ("c0040", over))
    held = [Quarantine(case=case, reason="flaky", until=until) for case, until in dates]
    waivers = [
        waiver(case_id="c0002", expires_at=ended),
        waiver(waiver_id="w-2", case_id="c0003", expires_at=ended, revoked_at=ended),
        waiver(waiver_id="w-3", case_id="c0040", expires_at=ended),
    ]
    found = excused(pairs(5, 0, 45), *waivers, quarantine=held)
    assert [each.to_json() for each in found.expired] == [
        {"waiver_id": "w-1", "expires_at": ended, "case_ids": ["c0002"]},
        {"waiver_id": None, "expires_at": over, "case_ids": ["c0000"]},
    ]
    assert excused(pairs(5, 0, 45)).expired == []


@pytest.mark.parametrize("time", ["now", "2026-01-01T00:00:00"])
def test_the_time_of_a_decision_must_be_a_point_in_time(time: str) -> None:
    with pytest.raises(UsageError, match="no time of a decision"):
        gate(pairs(1, 0, 1), generated_at=time)
