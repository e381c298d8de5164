"""Every row of promises holds for the installed program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.blackbox.installed import Program
from tests.blackbox.rows import PROMISES, BrokenPromise, Places, Row, attempt, load, row_of

NOT_ROWS = {"places.yaml", "names.yaml", "judges.yaml"}
FILES = sorted(path.name for path in PROMISES.glob("*.yaml") if path.name not in NOT_ROWS)
ROWS = {name: [row_of(raw) for raw in load(name)] for name in FILES}


def _parameters() -> list[object]:
    def marks(row: Row) -> list[pytest.MarkDecorator]:
        broken = pytest.mark.xfail(reason=row.xfail or "", strict=True, raises=BrokenPromise)
        return [broken] if row.xfail else []

    return [pytest.param(row, id=row.id, marks=marks(row)) for rows in ROWS.values() for row in rows]


@pytest.mark.parametrize("row", _parameters())
def test_a_promise_is_kept(row: Row, program: Program, places: Places, tmp_path: Path) -> None:
    attempt(row, program, places, tmp_path)


def test_each_row_has_a_name_of_its_own_and_the_promise_that_it_stands_for() -> None:
    rows = [row for rows in ROWS.values() for row in rows]
    assert len({row.id for row in rows}) == len(rows)
    assert [row.id for row in rows if not row.spec or not row.facts] == []
