"""The figures of the guide to losses since a release are those of the simulation with the gate's own code."""

from __future__ import annotations

import random
import re
from pathlib import Path

from agent_eval.gate.drift import Counted
from benchmarks.drift_simulation import DROP, FIX, blamed, dropped, night, season

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "benchmarks/results/drift_simulation.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs/guides/drift.md").read_text(encoding="utf-8")


def cells(text: str, heading: str) -> list[list[str]]:
    """The rows of the table below a heading, or of the table with that in its head."""
    lines = text[text.index(heading) :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|--"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace(" %", "%") for cell in line.strip("|").split("|")])
    return rows


def figure(text: str) -> str:
    """The number at the beginning of a cell; of a release that is known, `exact`."""
    return "exact" if "exact" in text else re.findall(r"[\d.]+%?", text)[0]


def test_the_guide_says_what_the_simulation_found():
    seen = {tuple(row[:3]): row for row in cells(RESULTS, "## A planted drop")}
    quiet = {tuple(row[:2]): row for row in cells(RESULTS, "## Nothing changed")}
    rows = cells(GUIDE, "| trials a night | trials of the release |")
    assert len(rows) == 3
    for row in rows:
        trials, release, after, within, closed, false = (figure(cell) for cell in row)
        drop = seen["10 points", trials, release]
        assert (after, within, closed) == (drop[3], drop[4], figure(drop[7]))
        assert false == quiet[trials, release][3]


def test_the_guide_says_how_often_the_wrong_part_is_blamed_and_it_is_seldom():
    found = cells(RESULTS, "## What moved")
    assert cells(GUIDE, "| what moved, by |") == found
    assert len(found) == 15
    assert all(float(row[3].removesuffix("%")) <= 5 for row in found)


def test_what_moved_is_asked_as_a_job_does():
    asked = blamed(random.Random(3), 360, 144, released=0.94, branch=0.74)
    assert asked is not None
    assert asked.night_of("code") <= 4
    assert not asked.is_wrong("code")


def test_the_simulation_opens_and_closes_by_the_gates_own_decision():
    found = season(Counted(940, 1000), dropped(random.Random(1), 0.10, 100))
    assert len(found.opened) == len(found.closed) == 1
    assert DROP <= found.opened[0] < DROP + 3
    assert FIX < found.closed[0] <= FIX + 12


def test_one_bound_for_opening_and_closing_would_flap():
    """A steady loss of the size of the budget."""
    source = random.Random(1)
    nights = [night(source, 0.89, 144) for _ in range(100)]
    once, often = (season(Counted(541, 576), nights, hysteresis=on).opened for on in (True, False))
    assert len(once) == 1
    assert len(often) >= 4
