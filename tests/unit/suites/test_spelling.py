"""Keys that look like ours and are not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import agent_eval
from agent_eval.contracts import Case
from agent_eval.contracts.suite import COMMON_METADATA_KEYS, METADATA_KEYS, RECORDED_METADATA
from agent_eval.suites.document import Place, RawCase, header_problems, misspelt_keys

CALL = {"idx": 0, "actor": "agent", "type": "tool_call", "tool": "pay"}


def found(**fields: Any) -> list[tuple[str, str]]:
    """Place and remedy of each misspelt key of a case."""
    raw = {"case_id": "a", **fields}
    problems = misspelt_keys(RawCase(Place(0), raw), Case.model_validate(raw))
    return [(problem.field, problem.remedy) for problem in problems]


@pytest.mark.parametrize(
    ("fields", "place", "meant"),
    [
        ({"expected_ouput": 1}, "expected_ouput", "expected_output"),
        ({"expectedOutput": 1}, "expectedOutput", "expected_output"),
        ({"expect": 1}, "expect", "expected_output"),
        ({"regexes": ["a"]}, "regexes", "regex_patterns"),
        ({"jsonschema": {}}, "jsonschema", "json_schema"),
        ({"policy": {"forbiden_tools": []}}, "policy.forbiden_tools", "forbidden_tools"),
        ({"tool_contracts": {"pay": {"required_arg": []}}}, "tool_contracts.pay.required_arg",
         "required_args"),
        ({"tool_contracts": {"pay": {"require": []}}}, "tool_contracts.pay.require", "required_args"),
        ({"trace": [CALL, {**CALL, "outputs": 1}]}, "trace[1].outputs", "output"),
        ({"trials": [{"trace": [], "meta_data": {}}]}, "trials[0].meta_data", "metadata"),
        ({"trials": [{"trace": [{**CALL, "callId": "1"}]}]}, "trials[0].trace[0].callId", "call_id"),
        ({"metadata": {"final_outputs": {}}}, "metadata.final_outputs", "final_output"),
        ({"metadata": {"allowedTools": []}}, "metadata.allowedTools", "allowed_tools"),
        ({"turns": [{"input": 1, "expected_ouput": 1}]}, "turns[0].expected_ouput", "expected_output"),
        ({"turns": [{"input": 1, "expected_tool_calls": [{"tool": "pay", "argument": {}}]}]},
         "turns[0].expected_tool_calls[0].argument", "arguments"),
        ({"conversation": {"guideline": "x"}}, "conversation.guideline", "guidelines"),
        ({"trials": [{"trace": [], "metadata": {"trajectory_matches": {}}}]},
         "trials[0].metadata.trajectory_matches", "trajectory_match"),
    ],
)  # fmt: skip
def test_a_misspelt_key_is_found_with_the_nearest_name(
    fields: dict[str, Any], place: str, meant: str
) -> None:
    assert found(**fields) == [(place, f"Did you mean {meant}? Otherwise give it a name of its own.")]


@pytest.mark.parametrize(
    ("fields", "place", "where"),
    [
        ({"final_output": {}}, "final_output", "metadata"),
        ({"forbidden_tools": ["pay"]}, "forbidden_tools", "policy"),
        ({"metadata": {"expected_output": 5}}, "metadata.expected_output", "the case itself"),
        ({"metadata": {"required_tools": []}}, "metadata.required_tools", "policy"),
        ({"metadata": {"turns": []}}, "metadata.turns", "the case itself"),
        ({"turns": [{"input": 1, "tool_calls": []}]}, "turns[0].tool_calls", "expected_tool_calls"),
    ],
)
def test_a_key_in_the_wrong_place_is_found_with_the_right_one(
    fields: dict[str, Any], place: str, where: str
) -> None:
    ((found_place, remedy),) = found(**fields)
    assert found_place == place
    assert remedy.startswith(f"Write it in {where}")


def test_every_unknown_rule_is_refused() -> None:
    ((place, remedy),) = found(policy={"max_calls": 3})
    assert place == "policy.max_calls"
    assert remedy == "Known keys there are forbidden_tools, required_tools. Keep others under metadata."


@pytest.mark.parametrize(
    "fields",
    [
        {"difficulty": 3, "tags": ["a"], "description": "x"},
        {"expected": 5, "regex": ["a"], "tool_contracts": {"pay": {"required": [], "forbidden": []}}},
        {"expected": 5, "expected_output": 5},
        {"trace": [{**CALL, "tools": ["pay"], "tokens": 7}]},
        {"metadata": {"topic": "x", "models": ["m"], "tool": "pay", "usages": 1, "author": "me"}},
        {"metadata": dict.fromkeys(METADATA_KEYS | COMMON_METADATA_KEYS | RECORDED_METADATA)},
    ],
)
def test_other_keys_are_the_authors_own(fields: dict[str, Any]) -> None:
    assert found(**fields) == []


def test_two_names_of_one_field_must_agree() -> None:
    assert found(expected=5, expected_output=6) == [("expected", "Keep expected_output alone.")]


def test_a_misspelt_key_of_the_header_is_found() -> None:
    header = {"dataset_id": "d", "shema_version": "1.1.0", "metadata": {"schema_versions": "1", "owner": "x"}}
    assert [problem.field for problem in header_problems(header, None)] == [
        "shema_version",
        "metadata.schema_versions",
    ]


def test_the_keys_of_metadata_that_the_program_reads_are_known() -> None:
    of_a_suite = {"schema_version", "format"}
    known = METADATA_KEYS | COMMON_METADATA_KEYS | RECORDED_METADATA | of_a_suite
    read = set()
    package = Path(agent_eval.__file__).parent
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "importers") or path.parent.name == "frameworks":
            continue  # The metadata that they read is that of other tools' files and objects.
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "get"
                and ast.unparse(node.func.value).endswith("metadata")
                and isinstance(node.args[0], ast.Constant)
            ):
                read.add(node.args[0].value)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "read_expectation",
                "listed_in_metadata",
            ):
                read.update(arg.value for arg in node.args if isinstance(arg, ast.Constant) and arg.value)
    assert {"attempt_history", "allowed_tools", "model"} <= read
    assert read <= known


def test_no_field_of_a_case_is_a_key_of_metadata() -> None:
    assert METADATA_KEYS.isdisjoint(Case.model_fields)
