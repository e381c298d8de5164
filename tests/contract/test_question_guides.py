"""The guides that begin with a question: their figures and their lines of configuration are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.contracts import Case
from agent_eval.judges.catalog import known_judges, load_judges
from agent_eval.suites.validate import validate_suite

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
WHICH_JUDGE = (GUIDES / "which-judge.md").read_text(encoding="utf-8")


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
