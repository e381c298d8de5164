"""The simulations of the gate: short runs of them, and what the committed results say."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from agent_eval.gate.looks import LOOKS
from benchmarks import gate_simulation, levels_simulation, merges_simulation, pooled_simulation
from benchmarks.gate_decisions import changed, comparison, confirm
from benchmarks.gate_simulation import (
    ONE_CASE,
    POLICY,
    SPREAD,
    UNCHANGED,
    Setting,
    by_looks,
    draw,
    lines_of,
)
from benchmarks.gate_tables import Found, Target, guide_table, markdown, read, targets, to_text
from benchmarks.merges_simulation import MERGES, fifty
from benchmarks.population import Kind, mean_rate, run, suite, worse
from tests.extent import FULL

EXPERIMENTS = 200 if FULL else 60
ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"
SHORT = (Setting(1), Setting(4), Setting(0), Setting(1, is_pooled=True), Setting(1, confirms="steady"))


@pytest.fixture(scope="module")
def committed() -> Found:
    return read((RESULTS / "gate_simulation.json").read_text(encoding="utf-8"))


def test_a_short_simulation_keeps_its_bounds_and_makes_a_table() -> None:
    lines = levels_simulation.measure(EXPERIMENTS)
    bounded = {line.question: line.found for line in lines if line.bound.startswith("≤")}
    assert len(bounded) == 18
    # Three standard errors around 5 %.
    assert all(found <= 0.05 + 3 * (0.05 * 0.95 / EXPERIMENTS) ** 0.5 for found in bounded.values())
    assert levels_simulation.table(lines, EXPERIMENTS).count("\n|") == len(lines) + 2
    assert levels_simulation.measure(10) == levels_simulation.measure(10)


@pytest.mark.parametrize("discordant", [0.05, 0.20, 0.40])
def test_suites_are_as_discordant_as_they_are_asked_to_be(discordant: float) -> None:
    source = Random(1)
    rates = suite(source, 20_000, discordant)
    first, second = run(source, rates, 1), run(source, rates, 1)
    differ = sum(one != other for one, other in zip(first, second, strict=True)) / len(rates)
    assert differ == pytest.approx(discordant, abs=0.012)
    assert fmean(rates) == pytest.approx(mean_rate(discordant), abs=0.012)


@pytest.mark.parametrize("kind", ["spread", "broken"])
def test_a_change_costs_the_drop_that_it_is_to_cost(kind: Kind) -> None:
    source = Random(2)
    rates = suite(source, 20_000, 0.2)
    after = worse(source, rates, 0.1 / mean_rate(0.2), kind)
    assert fmean(rates) - fmean(after) == pytest.approx(0.1, abs=0.01)


def test_one_broken_case_is_one_that_always_passed_and_a_broken_topic_is_the_first() -> None:
    source = Random(3)
    rates = suite(source, 40, 0.2)
    broken = [place for place, rate in enumerate(worse(source, rates, 1.0, "case")) if rate != rates[place]]
    assert [rates[place] for place in broken] == [1.0]
    assert worse(source, rates, 1.0, "topic") == [0.0] * 10 + rates[10:]


def test_a_case_of_several_trials_passes_by_its_policy() -> None:
    before, now = [(4, 4), (4, 4), (0, 4)], [(3, 4), (1, 4), (4, 4)]
    assert [row.case_id for row in changed(before, now)] == ["0000", "0001", "0002"]
    by_majority = changed(before, now, by_majority=True)
    assert [(row.case_id, row.regressed) for row in by_majority] == [("0001", True), ("0002", False)]


def test_suspects_are_the_cases_that_newly_fail_and_are_not_tracked() -> None:
    before, now = [(1, 1)] * 3, [(0, 1), (0, 1), (1, 1)]
    rates = [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]
    found = confirm(Random(4), comparison(before, now), rates, POLICY)
    assert (found.answer, found.trials) == ("failed", 2 * 12)
    one = confirm(Random(4), comparison(before, now), rates, POLICY, [0, 20, 20])
    assert (one.answer, one.trials) == ("failed", 12)
    none = confirm(Random(4), comparison(before, now), rates, POLICY, [17, 17, 20])
    assert (none.answer, none.trials) == ("passed", 0)


def test_looks_end_where_the_suite_is_decided() -> None:
    drawn = draw(Random(5), 200, 0.05, SPREAD[2])
    single, pooled = by_looks(drawn)
    assert (single.answer, single.spent) == (pooled.answer, pooled.spent) == ("failed", LOOKS[0])
    hard = draw(Random(6), 10, 0.40, UNCHANGED)
    assert by_looks(hard)[0].spent in LOOKS


def test_a_short_simulation_of_the_settings_counts_every_experiment_and_repeats_itself() -> None:
    lines = list(lines_of(30, 0.2, UNCHANGED, EXPERIMENTS // 3, SHORT))
    assert lines == list(lines_of(30, 0.2, UNCHANGED, EXPERIMENTS // 3, SHORT))
    for line in lines:
        assert line.blocked <= 0.05 + 3 * (0.05 * 0.95 / line.experiments) ** 0.5, line
        assert 0 <= line.passed <= 1
        assert line.blocked >= line.confirmed
    by_name = {line.setting: line for line in lines}
    assert by_name["1 trial"].trials == 1
    assert by_name["4 trials"].trials == 4
    assert 1 <= by_name["auto"].trials <= LOOKS[-1]
    assert by_name["1 trial, confirmed, flaky tracked"].trials > 1


def test_a_broken_case_is_what_confirmation_sees_and_the_suite_does_not() -> None:
    settings = Setting(1), Setting(1, confirms="steady")
    suite_alone, confirmed = lines_of(50, 0.05, ONE_CASE, 12, settings)
    assert suite_alone.blocked < 0.3 < 0.7 < confirmed.confirmed


def test_small_losses_add_up_until_the_anchor_stops_them() -> None:
    free, _ = fifty(Random(7), 30, 0.2, 1, is_anchored=False, each=0.01)
    anchored, offered = fifty(Random(7), 30, 0.2, 1, is_anchored=True, each=0.01)
    assert free > 2 * anchored
    assert 1 < offered < MERGES


def test_a_pooled_baseline_sees_more_of_a_drop_than_of_nothing() -> None:
    same, fallen = (pooled_simulation.Setting(1, 8, drop) for drop in (0.0, 0.10))
    few, many = (pooled_simulation.measure(setting, 25)["failed"] for setting in (same, fallen))
    assert few <= 5 < 10 < many


def test_results_are_read_as_they_were_written() -> None:
    lines = list(lines_of(10, 0.2, UNCHANGED, 2, (Setting(1),)))
    merges = [merges_simulation.measure(10, 0.2, 1, 1, is_anchored=True, each=0.1)]
    found = Found(experiments=2, seed=1, lines=lines, merges=merges)
    assert read(to_text(found)) == found


def test_the_committed_tables_follow_from_the_committed_figures(committed: Found) -> None:
    assert (RESULTS / "gate_simulation.json").read_text(encoding="utf-8") == to_text(committed)
    assert (RESULTS / "gate_simulation.md").read_text(encoding="utf-8") == markdown(committed)


def test_the_committed_figures_are_of_todays_simulation(committed: Found) -> None:
    line = committed.of(10, gate_simulation.BROKEN[2], Setting(1), discordant=0.05)
    again = lines_of(10, 0.05, gate_simulation.BROKEN[2], line.experiments, (Setting(1),))
    # Confirmation draws from the same source, so that a line alone is another sample.
    assert next(again).blocked == pytest.approx(line.blocked, abs=0.15)
    assert {line.setting for line in committed.lines} >= {
        setting.name for setting in gate_simulation.SETTINGS
    }


def test_the_committed_figures_are_what_was_asked_for(committed: Found) -> None:
    found = targets(committed)
    assert len(found) == 11
    assert [target.name for target in found if not target.is_met] == []
    guide = " ".join((ROOT / "docs" / "guides" / "gate.md").read_text(encoding="utf-8").split())
    both = max(target.found for target in found if "both agents fall" in target.name or "Holm" in target.name)
    assert f"in at most {both:.1%} of runs" in guide


@pytest.mark.parametrize(
    ("target", "is_met"),
    [
        (Target("", found=0.05, limit=0.05), True),
        (Target("", found=0.06, limit=0.05), False),
        (Target("", found=0.06, limit=0.05, error=0.004), True),
        (Target("", found=0.84, limit=0.85, is_least=True), False),
        (Target("", found=0.86, limit=0.85, is_least=True), True),
    ],
)
def test_a_target_is_met_within_its_limit_or_what_chance_explains(target: Target, is_met: bool) -> None:
    assert target.is_met is is_met


def test_the_table_of_the_guide_is_that_of_the_simulation(committed: Found) -> None:
    guide = (ROOT / "docs" / "guides" / "gate.md").read_text(encoding="utf-8")
    assert "\n".join(guide_table(committed)) in guide
    plain, majority = (
        committed.of(100, UNCHANGED, Setting(4, confirms=confirms)).inconclusive
        for confirms in ("all", "majority")
    )
    assert f"{plain:.0%} of unchanged runs instead of {majority:.0%}" in " ".join(guide.split())


def test_the_table_of_the_guide_to_histories_is_that_of_the_simulation(committed: Found) -> None:
    guide = (ROOT / "docs" / "guides" / "history.md").read_text(encoding="utf-8")
    for words, setting in (
        ("one run, one trial", Setting(1)),
        ("20 runs, one trial", Setting(1, is_pooled=True)),
        ("8 runs, four trials", Setting(4, is_pooled=True)),
    ):
        same, fallen = (committed.of(100, change, setting) for change in (UNCHANGED, SPREAD[1]))
        shares = f"{same.blocked:.1%} | {same.inconclusive:.0%} | {fallen.blocked:.0%}"
        assert f"| {words} | {shares} |" in guide


def test_confirmation_has_the_size_and_power_that_were_computed() -> None:
    text = (RESULTS / "confirmation_simulation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| ([\d.]+)% \| ([\d.]+)% \|$", text, re.MULTILINE)
    assert len(rows) >= 10
    assert all(abs(float(found) - float(computed)) <= 2 for _, found, computed in rows)


def test_every_test_of_the_gate_took_two_seconds_at_most_when_it_was_measured() -> None:
    text = (RESULTS / "gate_speed.md").read_text(encoding="utf-8")
    seconds = re.findall(r"^\| .+ \| ([\d.]+) \|$", text, re.MULTILINE)
    assert len(seconds) >= 20
    assert max(map(float, seconds)) <= 2
