from __future__ import annotations

from benchmarks import gate_simulation


def test_a_short_simulation_keeps_its_bounds_and_makes_a_table() -> None:
    lines = gate_simulation.measure(300)
    bounded = {line.question: line.found for line in lines if line.bound.startswith("≤")}
    assert len(bounded) == 4
    # Three standard errors of 300 experiments around 5 %.
    assert all(found <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5 for found in bounded.values())
    assert gate_simulation.table(lines, 300).count("\n|") == len(lines) + 2
    assert gate_simulation.measure(50) == gate_simulation.measure(50)
