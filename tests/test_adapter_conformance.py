"""Every importer reads the fixtures of its format whole; the fixtures say themselves what they hold."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.importers.catalog import FORMATS
from agent_eval.operations.conformance import EXPECTED, check_adapters

FIXTURES = Path(__file__).parent / "fixtures" / "adapters"


def test_every_format_has_two_fixtures_and_each_is_imported_whole():
    conformance = check_adapters(FIXTURES, 2)
    assert [(str(check.path), check.problems) for check in conformance.checks if check.problems] == []
    assert conformance.missing == ()
    assert {entry.name for entry in FORMATS} == {check.kind for check in conformance.checks}


def copied(tmp_path: Path, name: str = "openai") -> Path:
    shutil.copytree(FIXTURES / name, tmp_path / name)
    return tmp_path


def test_a_fixture_that_holds_something_else_fails(tmp_path):
    fixtures = copied(tmp_path)
    expected = fixtures / "openai" / "batch.jsonl.expected.json"
    numbers = json.loads(expected.read_text())
    expected.write_text(json.dumps({**numbers, "errors": 7, "input_tokens": 0}))
    (failed,) = [check for check in check_adapters(fixtures, 1).checks if check.problems]
    assert failed.problems == ("has 1 errors, not 7", "has 12 input tokens, not 0")


def test_every_fixture_says_what_it_holds():
    for entry in FORMATS:
        exports = [path for path in (FIXTURES / entry.name).iterdir() if not path.name.endswith(EXPECTED)]
        assert [path.name for path in exports if not path.with_name(path.name + EXPECTED).exists()] == []


def test_a_fixture_of_another_format_or_with_a_loss_fails(tmp_path):
    fixtures = copied(tmp_path)
    shutil.copy(FIXTURES / "anthropic" / "batch.jsonl", fixtures / "openai" / "batch.jsonl")
    with (fixtures / "openai" / "responses-chain.json").open("a") as file:
        file.write("[")
    failed = [check for check in check_adapters(fixtures, 1).checks if check.problems]
    assert "is recognised as anthropic" in failed[0].problems
    assert "cannot be read" in failed[1].problems[0]


def test_a_format_without_enough_fixtures_is_missing(tmp_path):
    conformance = check_adapters(copied(tmp_path), 5)
    assert not conformance.passed
    assert "openai has 4 fixtures, of at least 5" in conformance.missing
    assert "anthropic has 0 fixtures, of at least 5" in conformance.missing


def test_a_directory_that_no_format_is_called_is_refused(tmp_path):
    (tmp_path / "opneai").mkdir()
    with pytest.raises(InvalidInput, match="no format is called opneai"):
        check_adapters(tmp_path, 2)


def test_no_fixture_is_no_pass(tmp_path):
    with pytest.raises(NothingMeasured):
        check_adapters(tmp_path, 0)


def test_the_script_checks_suites_and_exports():
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = FIXTURES.parents[2] / "scripts" / "check_contracts.sh"
    done = subprocess.run([script], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "imported as they should be." in done.stdout
    environ["MIN_FIXTURES_PER_PROVIDER"] = "99"
    assert subprocess.run([script], env=environ, capture_output=True).returncode == 1
