"""The guides that begin with a question: their figures and their lines of configuration are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.contracts import Case
from agent_eval.gate.power import (
    critical_regressions,
    non_inferiority_cases,
    paired_cases_needed,
    paired_power,
    runs_to_see_flake,
)
from agent_eval.judges.catalog import known_judges, load_judges
from agent_eval.suites.validate import validate_suite

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
HOW_MANY = (GUIDES / "how-many-cases.md").read_text(encoding="utf-8")
WHICH_JUDGE = (GUIDES / "which-judge.md").read_text(encoding="utf-8")


def rows_after(mark: str) -> list[list[str]]:
    """The cells of a table's rows, without its header."""
    table = HOW_MANY.split(f"<!-- {mark} -->\n")[1].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_cases_to_see_a_drop_are_those_of_the_gate() -> None:
    _, _, *rows = rows_after("cases")
    for drop, *cells in rows:
        true_drop = int(drop.split()[0]) / 100
        needed = [paired_cases_needed(true_drop, true_drop + noise) for noise in (0, 0.1, 0.2)]
        assert cells == [f"{cases:,}" for cases in needed], drop


def test_the_share_of_drops_that_are_seen_is_that_of_the_gate() -> None:
    (_, *sizes), _, (_, *shares) = rows_after("seen")
    assert shares == [f"{paired_power(0.1, 0.2, int(size)):.0%}" for size in sizes]


def test_the_cases_to_rule_a_drop_out_are_those_of_the_gate() -> None:
    _, _, *rows = rows_after("margin")
    for flips, *cells in rows:
        share = int(flips.rstrip("%")) / 100
        assert cells == [f"{non_inferiority_cases(margin, share):,}" for margin in (0.05, 0.02)], flips


def test_the_runs_to_see_a_flake_are_those_of_the_gate() -> None:
    (_, *rates), _, (_, *runs) = rows_after("flakes")
    assert runs == [str(runs_to_see_flake(1 / int(rate.split()[-1]))) for rate in rates]


def test_five_cases_are_the_fewest_that_can_be_told_from_chance() -> None:
    assert [critical_regressions(pairs) for pairs in (4, 5)] == [None, 5]
    assert "Five cases that all get worse" in HOW_MANY


def configurations() -> dict[str, tuple[str, dict[str, Any]]]:
    """What the table of judges shows: by fear, the cell of judges, and the lines as YAML."""
    found = {}
    for line in WHICH_JUDGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 3 and "<br>" in cells[2]:
            lines = "\n".join(part.strip("`") for part in cells[2].split("<br>"))
            found[cells[0]] = (cells[1], yaml.safe_load(lines))
    return found


def test_the_table_of_judges_is_read() -> None:
    assert len(configurations()) == 13


@pytest.mark.parametrize("fear", configurations())
def test_the_lines_of_a_judge_work(fear: str, tmp_path: Path) -> None:
    judges, lines = configurations()[fear]
    names = re.findall(r"\[`(\w+)`\]", judges)
    assert set(names) <= set(known_judges())
    if not set(lines) <= Case.model_fields.keys():
        load_judges(list(lines), lines)
        return
    path = tmp_path / "suite.yaml"
    case = {"case_id": "a", "input": "x", **lines}
    path.write_text(
        yaml.safe_dump({"dataset_id": "a", "metadata": {"schema_version": "1.2.0"}, "cases": [case]})
    )
    report = validate_suite(path, strict=True)
    assert (report.passed, report.warnings) == (True, [])
