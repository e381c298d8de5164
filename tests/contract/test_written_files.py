"""Every file a run writes fits its JSON Schema, in both layouts; so does every suite of the project."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import agent_eval
from agent_eval.cli.main import main
from agent_eval.errors import ExitCode

ROOT = Path(__file__).parents[2]
SCHEMAS = Path(agent_eval.__file__).parent / "schemas"

SCHEMA_OF = {
    "manifest.json": "manifest", "derived.json": "derived_manifest", "run/config.json": "run_config",
    "run/summary.json": "run_summary", "run/index.jsonl": "case_index", "run/events.jsonl": "event",
    "judges/*.json": "verdict", "cases/*/trajectory.json": "case", "cases/*/verdicts.json": "case_result",
    "cases/trajectories-*.jsonl": "case", "cases/verdicts-*.jsonl": "case_result",
    "compare/baseline_delta.json": "comparison", "compare/gate_decision.json": "gate_decision",
    "compare/confirmation.json": "confirmation",
}  # fmt: skip
SUITES = [
    *(ROOT / "examples").glob("*.json"),
    *(ROOT / "agent_eval" / "demo").rglob("*suite*.json"),
    *(ROOT / "agent_eval" / "demo" / "suites").glob("*.json"),
]


def validator(name: str) -> Draft202012Validator:
    """Of a committed schema."""
    return Draft202012Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_bytes()))


def values(path: Path) -> Iterator[Any]:
    """The values of a file: its lines, the items of its list, or itself."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        yield from map(json.loads, text.splitlines())
    else:
        value = json.loads(text)
        yield from value if isinstance(value, list) else [value]


@pytest.fixture
def packs(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Baseline and candidate in one layout, compared and decided."""
    monkeypatch.chdir(tmp_path)
    for name, suite in (("baseline", "suite_good"), ("candidate", "suite_bad")):
        suite_path = str(ROOT / "examples" / f"{suite}.json")
        assert (
            main(["run", "--suite", suite_path, "--out", name, "--set", f"evidence.layout={request.param}"])
            == ExitCode.OK
        )
    delta = "candidate/compare/baseline_delta.json"
    assert (
        main(["compare", "--baseline", "baseline", "--candidate", "candidate", "--out", delta]) == ExitCode.OK
    )
    assert main(["gate", "--compare", delta, "--max-regressed-cases", "0"]) == ExitCode.NO
    return tmp_path


@pytest.mark.parametrize("packs", ["files", "compact"], indirect=True)
def test_every_file_of_a_run_fits_its_schema(packs):
    checked = set()
    for path in sorted(path for path in packs.rglob("*") if path.is_file()):
        place = path.relative_to(packs).as_posix().partition("/")[2]
        (pattern,) = (pattern for pattern in SCHEMA_OF if fnmatch(place, pattern))
        for value in values(path):
            validator(SCHEMA_OF[pattern]).validate(value)
            checked.add(SCHEMA_OF[pattern])
    assert {"manifest", "derived_manifest", "case", "case_result", "comparison", "gate_decision"} <= checked


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.name)
def test_every_suite_of_the_project_fits_the_schema_for_suites(path):
    assert list(validator("suite").iter_errors(json.loads(path.read_bytes()))) == []
