"""`contracts-check`: suites of every version and exports of every format are read as before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent_eval.cli.main import main
from agent_eval.errors import InvalidInput
from agent_eval.operations.conformance import check_suites

FIXTURES = Path(__file__).parents[2] / "fixtures"
SUITES, ADAPTERS = FIXTURES / "schema_backcompat", FIXTURES / "adapters"


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    """One fixture, so that the check is quick; tests/test_adapter_conformance.py has them all."""
    target = tmp_path / "adapters" / "openai"
    target.mkdir(parents=True)
    shutil.copy(ADAPTERS / "openai" / "batch.jsonl", target)
    return target.parent


def test_suites_of_every_version_are_read_and_migrated():
    check = check_suites(SUITES)
    assert [suite for suite in check.checks if suite.problems] == []
    assert (check.missing, check.passed) == ((), True)


def test_a_version_without_a_suite_is_missing(tmp_path):
    shutil.copytree(SUITES, tmp_path / "suites")
    (tmp_path / "suites" / "suite-1.0.0.json").unlink()
    check = check_suites(tmp_path / "suites")
    assert (check.missing, check.passed) == (("no suite of schema version 1.0.0",), False)


def test_a_suite_that_is_not_valid_fails(tmp_path):
    shutil.copytree(SUITES, tmp_path / "suites")
    broken = tmp_path / "suites" / "suite-1.0.0.json"
    suite = json.loads(broken.read_text())
    suite["cases"][0]["case_id"] = 7
    broken.write_text(json.dumps(suite))
    (failed,) = [suite for suite in check_suites(tmp_path / "suites").checks if suite.problems]
    assert "case_id must be a string" in failed.problems[0]


def test_a_directory_that_is_missing_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no such directory"):
        check_suites(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("contracts-check", "--schema-fixtures-dir", str(SUITES), "--adapter-fixtures-dir"),
            "4 of 4 suites read",
        ),
        (("adapter-conformance", "--fixtures-dir"), "1 of 1 export imported as they should be."),
    ],
)
def test_the_commands_end_by_what_they_found(words, says, adapters, capsys):
    words = [*words, str(adapters), "--format", "text", "--min-fixtures-per-provider"]
    assert main([*words, "0"]) == 0
    assert says in capsys.readouterr().out
    assert main([*words, "1"]) == 1
    assert "vertex has 0 fixtures, of at least 1" in capsys.readouterr().out
