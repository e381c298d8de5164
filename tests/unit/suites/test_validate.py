"""`schema validate`: everything wrong with a suite, by place."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from agent_eval.cli.main import main
from agent_eval.suites.problems import Problem, json_path, problems_of, short_json
from agent_eval.suites.reader import load_suite
from agent_eval.suites.validate import LISTED_PROBLEMS, validate_suite

FIXTURES = Path(__file__).parents[2] / "fixtures"
EVENT = {"idx": 0, "ts": None, "actor": "agent", "type": "message", "output": "x"}


def suite(**changes: Any) -> dict[str, Any]:
    whole = {
        "dataset_id": "demo",
        "metadata": {"schema_version": "1.2.0"},
        "cases": [{"case_id": "a", "input": "hi", "trace": [EVENT]}],
    }
    return {**whole, **changes}


def write(path: Path, payload: Any) -> Path:
    if path.suffix == ".jsonl":
        header = {name: value for name, value in payload.items() if name != "cases"}
        path.write_text("\n".join(json.dumps(line) for line in [header, *payload["cases"]]))
    else:
        path.write_text(json.dumps(payload))
    return path


def errors(path: Path, **options: Any) -> list[tuple[str, str]]:
    return [(problem.place, problem.message) for problem in validate_suite(path, **options).errors]


def warned(path: Path) -> list[str]:
    report = validate_suite(path, strict=True)
    assert report.passed
    return [problem.message for problem in report.warnings]


@pytest.mark.parametrize("name", ["s.json", "s.jsonl", "s.yaml"])
@pytest.mark.parametrize("strict", [False, True])
def test_correct_suite_passes(tmp_path: Path, name: str, strict: bool) -> None:
    report = validate_suite(write(tmp_path / name, suite()), strict=strict, require_version="1.2.0")
    assert report.passed
    counts = {"case_count": 1, "error_count": 0, "warning_count": 0, "errors": [], "warnings": []}
    told = {"input": str(tmp_path / name), "passed": True, "format": "cases", "schema_version": "1.2.0"}
    assert report.to_json() == {**told, **counts}


def test_unknown_fields_are_listed_by_path_when_strict(tmp_path: Path) -> None:
    case = {"case_id": "a", "note": 1, "trace": [EVENT, {**EVENT, "tokens": 3}], "metadata": {"anything": 1}}
    path = write(tmp_path / "s.jsonl", suite(owner="x", cases=[case]))
    assert validate_suite(path).passed
    report = validate_suite(path, strict=True)
    places = ["$.owner", "$.cases[0].note", "$.cases[0].trace[1].tokens"]
    assert [problem.place for problem in report.errors] == places
    assert [(problem.case_id, problem.line) for problem in report.errors[:2]] == [(None, 1), ("a", 2)]
    assert all(problem.remedy for problem in report.errors)


@pytest.mark.parametrize("strict", [False, True])
def test_misspelt_keys_are_errors_once_each(tmp_path: Path, strict: bool) -> None:
    case = {"case_id": "a", "tool_contracts": {"t": {"require": []}}, "policy": {"forbiden_tools": []}}
    case["metadata"] = {"final_outputs": {}}
    report = validate_suite(write(tmp_path / "s.jsonl", suite(cases=[case])), strict=strict)
    keys = ("metadata.final_outputs", "policy.forbiden_tools", "tool_contracts.t.require")
    assert sorted(problem.place for problem in report.errors) == [f"$.cases[0].{key}" for key in keys]


def test_missing_version_is_an_error_only_when_strict(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", suite(metadata={}))
    lax, strict = validate_suite(path), validate_suite(path, strict=True)
    missing = ("$.metadata.schema_version", "metadata.schema_version is missing")
    assert lax.passed
    assert [(problem.place, problem.message) for problem in lax.warnings] == [missing]
    assert [(problem.place, problem.message) for problem in strict.errors] == [missing]


def test_required_version_must_be_stated_at_the_top_or_in_metadata(tmp_path: Path) -> None:
    for metadata in ({}, {"schema_version": "1.0.0"}):
        path = write(tmp_path / "s.json", suite(metadata=metadata))
        ((place, message),) = errors(path, require_version="1.2.0", strict=True)
        assert place == "$.metadata.schema_version"
        assert 'must be "1.2.0"' in message
    path = write(tmp_path / "s.json", suite(metadata={}, schema_version="1.2.0"))
    assert validate_suite(path, strict=True, require_version="1.2.0").passed


def test_a_migrated_suite_is_said_how_to_get_the_version_that_is_required(tmp_path: Path) -> None:
    cases = [{"case_id": "a", "input": "x", "regex_patterns": ["x"]}]
    path = write(tmp_path / "s.json", suite(metadata={"schema_version": "1.2.0"}, cases=cases))
    (error,) = validate_suite(path, strict=True, require_version="1.0.0").errors
    command = error.remedy.split("`")[1].replace("NEW.json", str(tmp_path / "new.json"))
    assert main(shlex.split(command)[1:]) == 0
    assert validate_suite(tmp_path / "new.json", strict=True, require_version="1.0.0").passed


def test_a_trace_of_0_1_needs_no_numbers_and_one_of_a_later_version_does(tmp_path: Path) -> None:
    of_0_1 = FIXTURES / "schema_backcompat" / "suite-0.1.0.json"
    assert validate_suite(of_0_1).passed
    assert [event.idx for case in load_suite(of_0_1).cases for event in case.trace] == [0, 1, 2, 3]
    later = json.loads(of_0_1.read_bytes()) | {"metadata": {"schema_version": "1.0.0"}}
    assert any("idx" in place for place, _ in errors(write(tmp_path / "s.json", later)))


def test_every_problem_of_every_case_is_listed(tmp_path: Path) -> None:
    cases = [{"case_id": ""}, 5, {"case_id": "b", "trace": [{}, EVENT]}, {"case_id": "c"}, {"case_id": "c"}]
    assert errors(write(tmp_path / "s.json", suite(dataset_id=7, cases=cases))) == [
        ("$.dataset_id", "dataset_id must be a string, not 7"),
        ("$.cases[0].case_id", 'case_id must be a non-empty string, not ""'),
        ("$.cases[1]", "it must be an object, not 5"),
        ("$.cases[2].trace[0].idx", "trace[0].idx is missing"),
        ("$.cases[2].trace[0].actor", "trace[0].actor is missing"),
        ("$.cases[2].trace[0].type", "trace[0].type is missing"),
        ("$.cases[4].case_id", 'case_id "c" occurs twice: cases[3] and cases[4]'),
    ]


@pytest.mark.parametrize("version", ["0.1.0", "1.0.0", "1.2.0"])
def test_old_names_are_warned_of_in_versions_that_have_others(tmp_path: Path, version: str) -> None:
    cases = [{"case_id": "a", "expected": 1, "regex": [], "tool_contracts": {"t": {"required": ["x"]}}}]
    payload = suite(cases=cases, metadata={"schema_version": version})
    assert warned(write(tmp_path / "s.json", payload)) == [
        "expected is the old name of expected_output",
        "regex is the old name of regex_patterns",
        "tool_contracts.t.required is the old name of required_args",
    ] * (version == "1.2.0")
    assert warned(write(tmp_path / "s.json", suite(cases=[]))) == ["the suite has no cases"]


def test_long_lists_of_problems_are_cut_but_counted(tmp_path: Path) -> None:
    cases = [{"case_id": f"c{n}", "x": 1, "regex": []} for n in range(LISTED_PROBLEMS + 5)]
    report = validate_suite(write(tmp_path / "s.json", suite(cases=cases)), strict=True)
    assert (report.error_count, len(report.errors)) == (LISTED_PROBLEMS + 5, LISTED_PROBLEMS)
    assert (report.warning_count, len(report.warnings)) == (LISTED_PROBLEMS + 5, LISTED_PROBLEMS)
    assert not report.passed


TURNS = [{"input": "one"}, {"input": "two", "expected_tool_calls": [{"tool": "pay"}]}]
NO_TOOL = [{"input": 1, "expected_tool_calls": [{"tool": ""}]}]


@pytest.mark.parametrize(
    ("fields", "place", "message"),
    [
        ({"turns": TURNS}, None, ""),
        ({"turns": TURNS, "input": "one"}, None, ""),
        ({"turns": TURNS, "input": "none"}, "turns", "a case with turns has no input beside theirs"),
        *(({"turns": [turn]}, "turns[0]", "a turn needs an input, or auto")
          for turn in ({}, {"auto": False}, {"expected_output": "1"})),
        ({"turns": [{"auto": True, "input": "Hello"}], "conversation": {"guidelines": "x"}}, "turns[0]",
         "a turn with auto has no input: the user is simulated"),
        ({"turns": [{"auto": True, "expectation": "x"}], "conversation": {"guidelines": "x"}}, None, ""),
        ({"turns": NO_TOOL}, "turns[0].expected_tool_calls[0].tool",
         'turns[0].expected_tool_calls[0].tool must be a non-empty string, not ""'),
        ({"trace": 3}, "trace", "trace must be an array, not 3"),
    ],
)  # fmt: skip
def test_a_case_has_an_input_or_turns_and_a_problem_says_where(
    tmp_path: Path, fields: dict[str, Any], place: str | None, message: str
) -> None:
    path = write(tmp_path / "s.jsonl", suite(cases=[{"case_id": "a", **fields}]))
    found = [problem.to_json() for problem in validate_suite(path).errors]
    assert all(problem.pop("remedy") for problem in found)
    told = {"place": f"$.cases[0].{place}", "message": message, "case_id": "a", "line": 2}
    assert found == ([told] if place is not None else [])


OWN = {"turn": "first", "parts": [{"text": "x"}], "usage": "much"}


@pytest.mark.parametrize(("version", "count"), [("1.0.0", 0), ("1.1.0", 0), ("1.2.0", 4)])
def test_names_of_new_fields_are_the_authors_own_in_a_suite_of_an_earlier_version(
    tmp_path: Path, version: str, count: int
) -> None:
    event = {"idx": 0, "actor": "agent", "type": "message", "output": "x", **OWN}
    cases = [{"case_id": "a", "trace": [event], "turns": "many"}]
    path = write(tmp_path / "s.json", suite(metadata={"schema_version": version}, cases=cases))
    assert len(errors(path)) == count
    if not count:
        case = load_suite(path).cases[0]
        assert (case.turns, case.recorded.final_output, case.trace[0].usage) == ([], "x", None)


# The words: also for rules and values that nobody has thought of yet.


class Limited(BaseModel):
    """A contract with a rule of which suites have none."""

    count: int = Field(gt=0)
    inner: dict[str, int] = Field(default_factory=dict)


def problems(value: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(ValidationError) as caught:
        Limited.model_validate(value)
    return problems_of(caught.value, value)


def test_a_rule_without_words_of_its_own_is_told_in_those_of_the_validation() -> None:
    assert problems({"count": -1}) == [
        ("count", "count: Input should be greater than 0, not -1", "Correct count.")
    ]


def test_every_field_has_its_path() -> None:
    found = problems({"inner": {"a key": []}})
    assert [field for field, _, _ in found] == ["count", 'inner["a key"]']
    assert found[0] == ("count", "count is missing", "Add count.")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ("x" * 500, '"' + "x" * 58 + "…"),
        (2**70, "int"),
        (object(), "object"),
    ],
)
def test_values_are_shown_short_whatever_they_are(value: Any, text: str) -> None:
    assert short_json(value)[: len(text)] == text
    assert len(short_json(value)) <= 100


@pytest.mark.parametrize(
    ("location", "path"),
    [([], ""), (["trace", 3, "idx"], "trace[3].idx"), ([0], "[0]"), (["a b", "c"], '["a b"].c')],
)
def test_paths_read_like_those_of_javascript(location: list[str | int], path: str) -> None:
    assert json_path(location) == path


def test_a_problem_says_where_it_stands() -> None:
    assert Problem("m", "r").place == "$"
    assert Problem("m", "r", field="dataset_id").place == "$.dataset_id"
    assert Problem("m", "r", field='["a b"]', position=2).place == '$.cases[2]["a b"]'
