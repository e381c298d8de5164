"""The simulation of the procedure: short runs of it, and what the committed results say."""

from __future__ import annotations

import json
from random import Random

import pytest

from agent_eval.gate.rerun import BaseAgent
from benchmarks.procedure_simulation import POPULATIONS, TABLE, Setting, event, run_once, settings, simulate

JOBS = 12


@pytest.mark.parametrize(
    ("setting", "end"),
    [
        (Setting(population="deterministic", cases=20), "passed"),
        (Setting(population="flaky", cases=20, event="one breaks"), "blocked"),
        (Setting(population="deterministic", cases=20, event="ten break on both"), "not settled"),
        (Setting(population="deterministic", cases=20, event="one breaks", base=BaseAgent("none")),
         "blocked"),
        (Setting(population="deterministic", cases=20, event="one breaks", base=BaseAgent(problem="no")),
         "not settled"),
        (Setting(population="deterministic", cases=20, event="one breaks", most=3), "not settled"),
        (Setting(population="deterministic", cases=20, event="one breaks in a burst"), "blocked"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.event} {value.base.runs} {value.most}",
)  # fmt: skip
def test_what_no_chance_is_in_ends_alike_in_every_job(setting: Setting, end: str) -> None:
    assert simulate(setting, JOBS).share(end) == 100.0


def test_the_same_seed_gives_the_same_figures() -> None:
    setting = Setting(population="tau", cases=20, suites=2)
    assert simulate(setting, 3).to_json() == simulate(setting, 3).to_json()


def test_a_change_loses_what_the_event_says() -> None:
    source = Random(1)
    rates = POPULATIONS["flaky"](source, 2_000)
    change, base = event(source, rates, "all -10")
    assert sum(rates) / 2_000 - sum(change) / 2_000 == pytest.approx(0.1)
    assert base == rates
    change, base = event(source, rates, "both -10")
    assert change == base != rates


def test_cases_of_a_family_share_their_luck() -> None:
    source, rates = Random(2), [0.7] * 20_000
    apart, together = (run_once(source, rates, luck) for luck in (0.0, 0.4))

    def spread(passed: list[bool]) -> float:
        totals = [sum(passed[first : first + 10]) for first in range(0, len(passed), 10)]
        return sum((total - 7) ** 2 for total in totals) / len(totals)

    assert sum(together) / len(rates) == pytest.approx(0.7, abs=0.02)
    assert spread(together) > 2 * spread(apart)


COMMITTED: dict[str, dict[str, dict[str, float]]] = json.loads(TABLE.read_text(encoding="utf-8"))


def test_the_results_are_of_every_setting() -> None:
    stated = {(table, name) for table, rows in COMMITTED.items() for name in rows}
    assert stated == {(table, f"{row.population} {row.cases}, {row.event}") for table, row in settings()}


def figures(table: str, name: str, end: str) -> list[tuple[str, float, float]]:
    """Rows of a table whose event is this: its name, the share of an end, and three standard errors of it."""
    rows = [(key, row) for key, row in COMMITTED[table].items() if key.endswith(f", {name}")]
    return [(key, row[end], 300 * (0.02 * 0.98 / row["jobs"]) ** 0.5) for key, row in rows]


def test_an_unchanged_agent_is_hardly_ever_blocked_and_never_left_open() -> None:
    for key, blocked, error in figures("twenty runs of main", "unchanged", "blocked"):
        assert blocked <= 2 + error, key
    for key, left_open, error in figures("twenty runs of main", "unchanged", "not settled"):
        # An agent whose cases nearly all flake passes some of them four times in a row on main, by luck.
        assert left_open <= error + (1.5 if key.startswith("tau") else 0), key
    for key, left_open, error in figures("four runs of main", "unchanged", "not settled"):
        assert left_open <= 4.5 + error, key


def test_a_broken_steady_case_is_seen() -> None:
    for key, blocked, error in figures("twenty runs of main", "one breaks", "blocked"):
        assert blocked >= 97 - error, key


def test_where_both_sides_lose_as_much_the_change_is_hardly_blamed() -> None:
    for key, blocked, error in figures("twenty runs of main", "both -10", "blocked"):
        assert blocked <= 5 + error, key


def test_it_costs_less_than_two_runs_of_the_suite() -> None:
    for key, runs, _ in figures("twenty runs of main", "unchanged", "runs"):
        assert runs <= (2.5 if key.startswith("tau") else 1.9), key
