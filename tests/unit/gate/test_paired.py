"""The figures of a decision: which pairs they count, and how many cases they say are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.paired import (
    CASES,
    Statistics,
    discordant_pairs,
    moved_pairs,
    paired_statistics,
    trial_statistics,
)
from agent_eval.gate.power import (
    mean_cases_needed,
    mean_non_inferiority_cases,
    mean_power,
    non_inferiority_cases,
    paired_cases_needed,
    paired_power,
)
from agent_eval.gate.statistics import clustered_interval, tango_interval
from agent_eval.gate.waivers import Excuses
from tests.unit.comparison.views import passing, tried
from tests.unit.gate.test_decide import comparison, pairs

POLICY = GatePolicy(confidence=0.9, alpha=0.1, power=0.7)
"""Other levels than the functions' own, so that one that is not passed on shows."""


def of_trials(
    before: Sequence[int], now: Sequence[int], excuses: Excuses | None = None, *, total: int | None = None
) -> Statistics:
    """Statistics of cases `c0`, `c1` and so on, of four trials each, of which so many pass."""
    sides = [{f"c{n}": passing(f"c{n}", passed, 4) for n, passed in enumerate(run)} for run in (before, now)]
    trials = comparison(*sides).trials
    assert trials is not None
    return trial_statistics(trials, len(before) if total is None else total, excuses or Excuses(), POLICY)


def test_figures_of_single_trials_take_their_levels_from_the_policy() -> None:
    found = paired_statistics(pairs(4, 1, 45), Excuses(), POLICY)
    assert (found.total, found.regressed, found.fixed, found.drop) == (50, 4, 1, 0.06)
    assert found.interval == tango_interval(4, 1, 50, 0.9)
    assert found.power_for_ten_points == paired_power(0.1, 0.1, 50, 0.1)
    assert found.cases_needed == max(51, paired_cases_needed(0.06, 0.1, 0.1, 0.7))


def test_figures_of_several_trials_take_their_levels_from_the_policy() -> None:
    found = of_trials([4] * 20, [4] * 17 + [2] * 3)
    assert (found.total, found.regressed, found.fixed, found.drop) == (20, 3, 0, pytest.approx(0.075))
    assert found.interval == clustered_interval([0.5] * 3, 20, 0.9)
    # The spread with the two cases that the interval adds: one that broke altogether, and one mended.
    spread = ((3 * 0.25 + 2) / 22) ** 0.5
    assert found.power_for_ten_points == mean_power(0.1, spread, 20, 0.1)
    observed = (3 * 0.25 / 20) ** 0.5
    assert found.cases_needed == max(21, mean_cases_needed(0.075, observed, 0.1, 0.7))


def test_a_drop_within_the_margin_asks_for_the_cases_that_show_that_nothing_changed() -> None:
    single = paired_statistics(pairs(3, 2, 95), Excuses(), POLICY)
    assert single.cases_needed == max(101, non_inferiority_cases(0.05, 0.05, 0.9, 0.7))
    several = of_trials([4] * 40, [4] * 37 + [2] * 3)
    spread = (3 * 0.25 / 40) ** 0.5
    assert several.cases_needed == max(41, mean_non_inferiority_cases(0.05, spread, 0.9, 0.7))


def test_a_drop_of_exactly_the_margin_asks_for_the_cases_that_show_it() -> None:
    found = paired_statistics(pairs(5, 0, 95), Excuses(), POLICY)
    assert found.cases_needed == max(101, paired_cases_needed(0.05, 0.05, 0.1, 0.7))


def test_a_decision_never_asks_for_fewer_cases_than_it_had() -> None:
    found = paired_statistics(pairs(1, 0, 199), Excuses(), POLICY)
    assert found.cases_needed == 201


def test_nothing_that_changed_needs_no_number_of_cases_and_nothing_compared_shows_no_power() -> None:
    unchanged = paired_statistics(pairs(0, 0, 5), Excuses(), POLICY)
    assert (unchanged.cases_needed, unchanged.drop) == (None, 0.0)
    everything = paired_statistics(pairs(1, 0, 0), Excuses(quarantine=frozenset({"c0000"})), POLICY)
    assert (everything.total, everything.drop, everything.power_for_ten_points) == (0, 0.0, 0.0)
    held = of_trials([4], [0], Excuses(quarantine=frozenset({"c0"})))
    assert (held.total, held.drop, held.power_for_ten_points, held.cases_needed) == (0, 0.0, 0.0, None)


def test_cases_in_quarantine_are_left_out_and_those_after_them_are_not() -> None:
    held = Excuses(quarantine=frozenset({"c0", "c0000"}))
    several = of_trials([4, 4, 4, 4], [0, 0, 4, 4], held)
    assert (several.total, several.regressed) == (3, 1)
    single = paired_statistics(pairs(2, 0, 2), held, POLICY)
    assert (single.total, single.regressed) == (3, 1)


def test_a_waived_fall_counts_as_unchanged_and_a_rise_counts() -> None:
    waived = Excuses(
        waived=frozenset({"c0000"}),
        waived_rates=frozenset({"c0", "c1"}),
        judge_changes=frozenset({("c0", "policy"), ("c1", "policy"), ("c0000", "quality")}),
    )
    several = of_trials([4, 0, 4, 4], [2, 4, 2, 4], waived)
    assert (several.total, several.regressed, several.fixed) == (4, 1, 1)
    single = paired_statistics(pairs(2, 1, 1), waived, POLICY)
    assert (single.regressed, single.fixed) == (1, 1)
    assert discordant_pairs(pairs(2, 0, 1), waived)["quality"].regressed == {"c0001"}


def test_a_waiver_of_a_judge_does_not_waive_the_case_nor_that_of_the_case_the_judge() -> None:
    trials = comparison({"a": passing("a", 4, 4)}, {"a": passing("a", 0, 4)}).trials
    assert trials is not None
    assert set(moved_pairs(trials, Excuses(waived_rates=frozenset({"a"})))) == {CASES, "policy"}
    judge = Excuses(judge_changes=frozenset({("a", "policy")}))
    assert {name: list(found) for name, found in moved_pairs(trials, judge).items()} == {CASES: ["a"]}


def test_a_judge_called_like_the_cases_is_kept_apart_from_them() -> None:
    sides = [
        {f"c{n}": {"cases": outcome, "x": "failed"} for n in range(6)} for outcome in ("passed", "failed")
    ]
    found = paired_statistics(comparison(*sides), Excuses(), POLICY)
    assert [(judge.judge_id, judge.regressed) for judge in found.judges] == [("cases", 0), ("judge cases", 6)]


@pytest.mark.parametrize("skipped", ["before", "now"])
def test_a_judge_that_skipped_the_case_in_one_run_has_no_pair(skipped: str) -> None:
    before = {"a": {"policy": "passed", "regex": "skipped" if skipped == "before" else "passed"}}
    now = {"a": {"policy": "passed", "regex": "skipped" if skipped == "now" else "failed"}}
    assert "regex" not in discordant_pairs(comparison(before, now), Excuses())
    tries: list[dict[str, Any]] = [{"a": tried("a", *[run["a"]] * 2)} for run in (before, now)]
    trials = comparison(*tries).trials
    assert trials is not None
    assert "regex" not in moved_pairs(trials, Excuses())


def test_a_judge_that_alone_decides_the_cases_is_not_tested_twice() -> None:
    found = paired_statistics(pairs(3, 0, 5), Excuses(), POLICY)
    assert [judge.judge_id for judge in found.judges] == ["cases"]
    assert [judge.judge_id for judge in of_trials([4, 4], [0, 4]).judges] == ["cases"]


def test_a_judge_whose_rate_did_not_move_is_not_tested_however_many_trials_it_had() -> None:
    before = {"a": tried("a", {"x": "passed", "y": "passed"})}
    now = {"a": tried("a", *[{"x": "passed", "y": "passed"}] * 3, {"x": "passed", "y": "failed"})}
    trials = comparison(before, now).trials
    assert trials is not None
    found = trial_statistics(trials, 1, Excuses(), POLICY)
    assert [(judge.judge_id, judge.regressed, judge.fixed) for judge in found.judges] == [("cases", 1, 0)]
    assert found.method == "relabel-clustered"


def test_judges_come_after_the_cases_by_name_with_both_directions() -> None:
    before = {f"c{n}": {"b": "passed", "a": "failed", "z": "failed"} for n in range(8)}
    now = {f"c{n}": {"b": "failed", "a": "passed", "z": "failed"} for n in range(8)}
    found = paired_statistics(comparison(before, now), Excuses(), POLICY)
    rows = [(judge.judge_id, judge.regressed, judge.fixed, judge.significant) for judge in found.judges]
    assert rows == [("cases", 0, 0, False), ("a", 0, 8, False), ("b", 8, 0, True)]
    tries = [{name: tried(name, said, said) for name, said in run.items()} for run in (before, now)]
    trials = comparison(*tries).trials
    assert trials is not None
    several = trial_statistics(trials, 8, Excuses(), POLICY).judges
    assert [(judge.judge_id, judge.regressed, judge.fixed, judge.significant) for judge in several] == rows
