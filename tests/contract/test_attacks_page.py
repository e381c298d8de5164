"""The page of attacks names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "decisions" / "attacks.md"
TESTS = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text("utf-8"))


def test_every_row_has_a_test() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    heads = [line for line in rows if line.endswith("| test |")]
    assert len(heads) == 4
    assert [row for row in rows if row not in heads and "`tests/" not in row] == []
    assert len(rows) - len(heads) == len(TESTS) >= 45


def test_the_test_of_an_attack_exists() -> None:
    for file, name in TESTS:
        text = (REPOSITORY / file).read_text("utf-8")
        assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), (file, name)
