"""The committed JSON Schemas, the contracts and the bulk-reading rows say the same thing."""

import json
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from pydantic import BaseModel, TypeAdapter

import agent_eval
from agent_eval import contracts
from agent_eval.cli.main import main
from agent_eval.contracts.verdict import CaseIndexRow, CaseResultRow, TrialResultRow, VerdictRow
from agent_eval.errors import ExitCode, FailureKind
from agent_eval.evidence.writer import result_row
from scripts import schemas

DIRECTORY = Path(agent_eval.__file__).parent / "schemas"
FILES = schemas.schema_files()


def test_the_directory_holds_exactly_the_generated_schemas():
    if os.environ.get("UPDATE_GOLDEN") == "1":
        DIRECTORY.mkdir(exist_ok=True)
        for stale in DIRECTORY.glob("*.json"):
            stale.unlink()
        for name, data in FILES.items():
            (DIRECTORY / name).write_bytes(data)
    committed = {path.name: path.read_bytes() for path in DIRECTORY.glob("*.json")}
    assert sorted(committed) == sorted(FILES)
    differing = [name for name in FILES if committed[name] != FILES[name]]
    assert not differing, f"the contracts changed: `make schemas` writes {differing} anew"


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_schema_is_a_valid_schema_that_needs_no_other_file(name):
    schema = json.loads(FILES[name])
    validator_for(schema).check_schema(schema)
    references = [value for key, value in _pairs(schema) if key == "$ref"]
    assert all(str(reference).startswith(("#/$defs/", "#/definitions/")) for reference in references)
    assert contracts.SCHEMA_VERSION in schema["$id"]


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_schema_describes_its_fields_and_has_no_examples_in_python(name):
    described = [value for key, value in _pairs(json.loads(FILES[name])) if key == "description"]
    assert described
    texts = [text for text in described if isinstance(text, str)]
    assert not [text for text in texts if ">>>" in text or "Example:" in text or text != text.strip()]


def test_every_contract_that_is_a_file_has_a_schema():
    models = (getattr(contracts, name) for name in dir(contracts))
    files = {model for model in models if _carries_a_schema_version(model)}
    exported = {*schemas.READ.values(), *schemas.WRITTEN.values()}
    assert files <= exported


@pytest.mark.parametrize(
    ("row", "model"),
    [
        (VerdictRow, contracts.Verdict),
        (CaseResultRow, contracts.CaseResult),
        (TrialResultRow, contracts.TrialResult),
        (CaseIndexRow, contracts.CaseIndex),
    ],
)
def test_rows_for_bulk_reading_have_the_fields_of_their_model(row, model):
    assert set(get_type_hints(row)) == set(model.model_fields), (
        f"{row.__name__} has the fields of {model.__name__}, those that old packs do not have as NotRequired"
    )


_LOST = {"outcome": contracts.Outcome.ERROR, "passed": False, "failure": FailureKind.JUDGE_ERROR}


def test_what_a_model_writes_reads_as_its_row():
    verdict = contracts.Verdict(judge_id="regex", case_id="a", outcome="passed", passed=True, reason="")
    result = contracts.case_result("a", [verdict])
    index = contracts.CaseIndex(case_id="a", definition_digest="0" * 64, calls=[("search", "1f")])
    assert TypeAdapter(CaseResultRow).validate_python(result.to_json(), strict=True)
    assert set(result_row(result)) == set(contracts.CaseResult.model_fields) - {"fault"}, "it has a score"
    lost = contracts.case_result("a", [verdict.model_copy(update=_LOST)])
    assert TypeAdapter(CaseResultRow).validate_python(lost.to_json(), strict=True)["fault"] == "judge"
    assert result_row(lost)["fault"] == "judge"
    assert TypeAdapter(CaseIndexRow).validate_python(index.to_json(), strict=True)


def test_a_case_written_by_hand_fits_its_schema_and_a_broken_one_does_not():
    validator = Draft202012Validator(schemas.schema("case"))
    validator.validate({"case_id": "a", "trace": [{"idx": 0, "actor": "agent", "type": "message"}]})
    assert not validator.is_valid({"case_id": ""})
    assert not validator.is_valid({"case_id": "a", "trace": [{"idx": "0"}]})


def test_a_decision_without_its_status_does_not_fit_its_schema():
    validator = Draft202012Validator(schemas.schema("gate_decision"))
    decision = contracts.GateDecision(
        generated_at="2026-01-01T00:00:00Z", gate_status="passed", passed=True,
        thresholds=contracts.Thresholds(min_pass_rate=0.9), candidate_run_id="candidate",
    ).to_json()  # fmt: skip
    validator.validate(decision)
    del decision["gate_status"]
    assert not validator.is_valid(decision)


def _carries_a_schema_version(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseModel) and "schema_version" in thing.model_fields


def _pairs(value: object):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from _pairs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _pairs(inner)


# Every file a run writes fits its schema, in both layouts; so does every suite of the project

ROOT = Path(__file__).parents[2]

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
    return Draft202012Validator(json.loads((DIRECTORY / f"{name}.schema.json").read_bytes()))


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
