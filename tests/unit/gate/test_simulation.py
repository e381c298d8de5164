from __future__ import annotations

from benchmarks import gate_simulation
from tests.extent import FULL

EXPERIMENTS = 200 if FULL else 60


def test_a_short_simulation_keeps_its_bounds_and_makes_a_table() -> None:
    lines = gate_simulation.measure(EXPERIMENTS)
    bounded = {line.question: line.found for line in lines if line.bound.startswith("≤")}
    assert len(bounded) == 18
    # Three standard errors around 5 %.
    assert all(found <= 0.05 + 3 * (0.05 * 0.95 / EXPERIMENTS) ** 0.5 for found in bounded.values())
    assert gate_simulation.table(lines, EXPERIMENTS).count("\n|") == len(lines) + 2
    assert gate_simulation.measure(10) == gate_simulation.measure(10)
