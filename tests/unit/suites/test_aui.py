"""Suites of conversations: what is read from them, and every fault with its place."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from agent_eval.contracts.aui import STRICT_KINDS, own_fields
from agent_eval.contracts.conversation import TURN_SECONDS
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.suites.aui import AuiDocument, SuiteAgent
from agent_eval.suites.reader import open_document, open_suite
from agent_eval.suites.validate import LISTED_PROBLEMS, validate_suite
from scripts.schemas import aui_schema

EXAMPLE = Path(__file__).parents[2] / "fixtures" / "aui" / "specification-example.json"
"""The example of the format's specification, as it is there."""

Change = Callable[[dict[str, Any]], object]


def needed_by(kind: str) -> list[str]:
    return sorted(own_fields(kind) - {"beforeTurn"})


LLM: dict[str, Any] = {"criterion": "It is polite."}
TOOL: dict[str, Any] = {"criterion": "It refunds.", "strict": "tool_used", "toolName": "REFUND"}
BEFORE: dict[str, Any] = {
    "criterion": "No.",
    "strict": "tool_not_used",
    "toolName": "REFUND",
    "beforeTurn": 3,
}
PARAM: dict[str, Any] = {"criterion": "P", "strict": "param_equals", "paramName": "p", "paramValue": "v"}


def suite(*evaluations: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Build a suite of one test."""
    test = {
        "name": "Refund",
        "guidelines": "You want a refund.",
        "turns": [{"user": "Hello"}],
        "evaluations": [dict(evaluation) for evaluation in evaluations or (TOOL, LLM)],
    }
    return {"name": "Support", "agentId": "support", "apiKey": "${AUI_API_KEY}", "tests": [test], **changes}


def written(tmp_path: Path, payload: Any) -> Path:
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(payload))
    return path


def places(tmp_path: Path, payload: Any) -> list[str]:
    return [problem.place for problem in validate_suite(written(tmp_path, payload)).errors]


def without(key: str, value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != key}


def in_test(**changes: Any) -> dict[str, Any]:
    payload = suite()
    payload["tests"][0].update(changes)
    return payload


def test_the_example_of_the_specification_is_valid_and_read_whole() -> None:
    assert validate_suite(EXAMPLE).to_json()["errors"] == []
    [(raw, case)] = open_suite(EXAMPLE).cases()
    assert case.case_id == "Basic support request — should resolve without escalation"
    assert [(turn.input, turn.auto) for turn in case.turns] == [
        ("Hi, I have a question about my last charge.", False),
        *[(None, True)] * 6,
    ]
    assert case.conversation is not None
    assert case.conversation.user_info["plan_name"] == "Pro Monthly"
    assert case.conversation.guidelines.startswith("You are a user with a billing question.")
    stated = json.loads(EXAMPLE.read_text())["tests"][0]["evaluations"]
    assert raw["metadata"]["strict"] == [item for item in stated if "strict" in item]
    assert raw["metadata"]["llm"] == [item for item in stated if "strict" not in item]
    assert raw["metadata"]["tags"] == ["billing", "no-escalation"]


def test_header_and_agent_are_those_of_the_suite(tmp_path: Path) -> None:
    path = written(tmp_path, suite(model="small", judgeModel="large"))
    source = open_suite(path)
    assert source.header.dataset_id == "Support"
    assert source.header.metadata["agent_id"] == "support"
    assert isinstance(source.document, AuiDocument)
    assert source.document.agent == SuiteAgent("support", "${AUI_API_KEY}", "small")
    assert source.document.judge_model == "large"
    assert source.document.default_judges == ("strict", "llm")


@pytest.mark.parametrize(("fixed", "padding"), [(1, 6), (6, 1), (7, 0), (9, 0)])
def test_fewer_than_seven_turns_are_filled_up(tmp_path: Path, fixed: int, padding: int) -> None:
    path = written(tmp_path, in_test(turns=[{"user": f"Message {number}"} for number in range(fixed)]))
    [(_, case)] = open_suite(path).cases()
    assert [turn.auto for turn in case.turns] == [False] * fixed + [True] * padding
    assert case.conversation is not None
    assert case.conversation.max_turns == fixed + padding


def test_turns_keep_timeout_and_expectation_and_the_conversation_its_system_prompt(tmp_path: Path) -> None:
    turns = [{"user": "Hello", "timeout": 5, "expectation": "It greets."}, {"user": "auto"}]
    [(_, case)] = open_suite(written(tmp_path, in_test(turns=turns, systemPrompt="Be brief."))).cases()
    stated = [(turn.timeout, turn.expectation) for turn in case.turns[:2]]
    assert stated == [(5, "It greets."), (TURN_SECONDS, None)]
    assert case.conversation is not None
    assert case.conversation.system_prompt == "Be brief."


def test_the_key_is_in_no_case_header_or_repr(tmp_path: Path) -> None:
    document = open_document(written(tmp_path, suite(apiKey="API_KEY_canary_7d2f")))
    assert "canary" not in json.dumps([raw.raw for raw in document.read_all()] + [document.raw_header])
    assert isinstance(document, AuiDocument)
    assert "canary" not in repr(document.agent)


def test_a_key_is_taken_from_the_variable_that_the_suite_names() -> None:
    assert SuiteAgent("a", "literal").resolved_key({}) == "literal"
    assert SuiteAgent("a", "${AUI_API_KEY}").resolved_key({"AUI_API_KEY": "k1"}) == "k1"
    with pytest.raises(UsageError, match="AUI_API_KEY is not set"):
        SuiteAgent("a", "${AUI_API_KEY}").resolved_key({"AUI_API_KEY": " "})


FAULTS: list[tuple[str, Any, list[str]]] = [
    *[(f"no {key}", without(key, suite()), [f"$.{key}"]) for key in ("name", "agentId", "apiKey")],
    ("no tests", {"name": "S", "agentId": "a", "apiKey": "k"}, ["$.tests"]),
    ("empty tests", suite(tests=[]), ["$.tests"]),
    ("tests no list", suite(tests={}), ["$.tests"]),
    ("name a number", suite(name=5), ["$.name"]),
    ("blank name", suite(name=" "), ["$.name"]),
    ("agentId null", suite(agentId=None), ["$.agentId"]),
    ("apiKey empty", suite(apiKey=""), ["$.apiKey"]),
    ("model null", suite(model=None), ["$.model"]),
    ("judgeModel a list", suite(judgeModel=[]), ["$.judgeModel"]),
    ("name with a line end", suite(name="a\nb"), ["$.name"]),
    ("name of a directory", suite(name=".."), ["$.name"]),
    ("name too long", suite(name="a" * 201), ["$.name"]),
    ("test name with NUL", in_test(name="a\0b"), ["$.tests[0].name"]),
    ("test no object", suite(tests=["x"]), ["$.tests[0]"]),
    ("guidelines a list", in_test(guidelines=[]), ["$.tests[0].guidelines"]),
    ("userInfo a list", in_test(userInfo=[]), ["$.tests[0].userInfo"]),
    ("systemPrompt a number", in_test(systemPrompt=1), ["$.tests[0].systemPrompt"]),
    ("tags a text", in_test(tags="billing"), ["$.tests[0].tags"]),
    ("tag a number", in_test(tags=["a", 1]), ["$.tests[0].tags[1]"]),
    ("empty turns", in_test(turns=[]), ["$.tests[0].turns"]),
    ("turn a text", in_test(turns=["Hello"]), ["$.tests[0].turns[0]"]),
    ("no user", in_test(turns=[{}]), ["$.tests[0].turns[0].user"]),
    ("user a number", in_test(turns=[{"user": 1}]), ["$.tests[0].turns[0].user"]),
    ("user blank", in_test(turns=[{"user": ""}]), ["$.tests[0].turns[0].user"]),
    ("stop token", in_test(turns=[{"user": "Bye ###STOP###"}]), ["$.tests[0].turns[0].user"]),
    ("timeout true", in_test(turns=[{"user": "a", "timeout": True}]), ["$.tests[0].turns[0].timeout"]),
    ("timeout 0", in_test(turns=[{"user": "a", "timeout": 0}]), ["$.tests[0].turns[0].timeout"]),
    ("timeout text", in_test(turns=[{"user": "a", "timeout": "5"}]), ["$.tests[0].turns[0].timeout"]),
    ("expectation", in_test(turns=[{"user": "a", "expectation": 1}]), ["$.tests[0].turns[0].expectation"]),
    ("empty evaluations", in_test(evaluations=[]), ["$.tests[0].evaluations"]),
    ("evaluation a text", in_test(evaluations=["polite"]), ["$.tests[0].evaluations[0]"]),
    ("no criterion", suite(without("criterion", TOOL)), ["$.tests[0].evaluations[0].criterion"]),
    ("criterion blank", suite({"criterion": " "}), ["$.tests[0].evaluations[0].criterion"]),
    ("weight a text", suite({**LLM, "weight": "1"}), ["$.tests[0].evaluations[0].weight"]),
    ("weight true", suite({**LLM, "weight": True}), ["$.tests[0].evaluations[0].weight"]),
    ("90 weight below 0", suite({**LLM, "weight": -1}), ["$.tests[0].evaluations[0].weight"]),
    ("90 weights all 0", suite({**LLM, "weight": 0}, {**TOOL, "weight": 0}), ["$.tests[0].evaluations"]),
    ("category a list", suite({**LLM, "category": []}), ["$.tests[0].evaluations[0].category"]),
    ("aui_logic a text", suite({**LLM, "aui_logic": "R1"}), ["$.tests[0].evaluations[0].aui_logic"]),
    ("90 unknown kind", suite({**LLM, "strict": "tool_usd"}), ["$.tests[0].evaluations[0].strict"]),
    ("kind null", suite({**LLM, "strict": None}), ["$.tests[0].evaluations[0].strict"]),
    ("kind llm", suite({**LLM, "strict": "llm"}), ["$.tests[0].evaluations[0].strict"]),
    ("kind a list", suite({**LLM, "strict": ["escalated"]}), ["$.tests[0].evaluations[0].strict"]),
    *[(f"{kind} without {field}", suite({**LLM, "strict": kind, **without(field, given)}),
        [place]) for kind in STRICT_KINDS for given in [dict.fromkeys(needed_by(kind),
        "X")] for field in needed_by(kind) for place in [f"$.tests[0].evaluations[0].{field}"]],
    ("18 toolName empty", suite({**TOOL, "toolName": ""}), ["$.tests[0].evaluations[0].toolName"]),
    *[(f"24 beforeTurn {value!r}", suite({**BEFORE, "beforeTurn": value}), [place]) for value in (0, -1, 2.5,
        "3", True, None) for place in ["$.tests[0].evaluations[0].beforeTurn"]],
    ("30 beforeTurn of another", suite({**TOOL, "beforeTurn": 3}), ["$.tests[0].evaluations[0].beforeTurn"]),
    ("toolName without strict", suite({**LLM, "toolName": "R"}), ["$.tests[0].evaluations[0].toolName"]),
    *[(f"43 paramValue {value!r}", suite({**PARAM, "paramValue": value}), [place]) for value in ("", None,
        "undefined", [], {}) for place in ["$.tests[0].evaluations[0].paramValue"]],
    ("unknown field", suite({**TOOL, "toolname": "R"}), ["$.tests[0].evaluations[0].toolname"]),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_fault_is_found_at_its_place_and_by_the_schema(
    tmp_path: Path, payload: Any, expected: list[str]
) -> None:
    assert places(tmp_path, payload) == expected
    assert not Draft7Validator(aui_schema()).is_valid(payload)


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        (suite(judgemodel="large"), "$.judgemodel"),
        (in_test(guideline="x"), "$.tests[0].guideline"),
        (in_test(turns=[{"user": "a", "expectations": "b"}]), "$.tests[0].turns[0].expectations"),
        (suite(apiKey="${GITHUB_TOKEN}"), "$.apiKey"),
        (suite(apiKey="Bearer ${AUI_API_KEY}"), "$.apiKey"),
        (suite(tests=[*suite()["tests"], *suite()["tests"]]), "$.tests[1].name"),
    ],
)
def test_a_fault_that_no_schema_can_tell_is_found_at_its_place(
    tmp_path: Path, payload: Any, place: str
) -> None:
    assert places(tmp_path, payload) == [place]


@pytest.mark.parametrize(
    "payload",
    [
        suite(),
        suite(LLM, {**TOOL, "weight": 0}),
        suite({**BEFORE, "beforeTurn": 3.0}),
        suite({**PARAM, "paramValue": 0}, {**PARAM, "paramValue": False}, {**PARAM, "paramValue": ["a"]}),
        suite(name="a/b: what? *"),
        suite(name="退款 🙂"),
        in_test(userInfo={}, tags=[], description="of the author"),
        *[suite({**LLM, "strict": kind, **dict.fromkeys(needed_by(kind), "X")}) for kind in STRICT_KINDS],
    ],
)
def test_what_is_right_is_valid_by_the_schema_as_well(tmp_path: Path, payload: dict[str, Any]) -> None:
    assert places(tmp_path, payload) == []
    Draft7Validator(aui_schema()).validate(payload)
    open_suite(written(tmp_path, payload)).document.case_at(0)


def test_all_faults_are_listed_in_the_order_of_the_tests(tmp_path: Path) -> None:
    payload = suite(agentId=1)
    bad = {
        "name": "Other",
        "turns": [],
        "evaluations": [{"strict": "tool_used"}, {"strict": "x", "criterion": "c"}],
    }
    payload["tests"] += [bad, copy.deepcopy(payload["tests"][0])]
    assert places(tmp_path, payload) == [
        "$.agentId", "$.tests[1].guidelines", "$.tests[1].turns", "$.tests[1].evaluations[0].criterion",
        "$.tests[1].evaluations[0].toolName", "$.tests[1].evaluations[1].strict", "$.tests[2].name",
    ]  # fmt: skip


def test_a_fault_names_the_test_and_says_how_many_more_there_are(tmp_path: Path) -> None:
    path = written(tmp_path, in_test(guidelines=1, userInfo=[]))
    with pytest.raises(
        InvalidInput, match=r'case "Refund": tests\[0\]\.userInfo must be an object'
    ) as refused:
        open_suite(path)
    assert refused.value.remedy is not None
    assert "`agent-eval validate` lists 1 more problem." in refused.value.remedy


def test_a_thousand_tests_are_read_and_their_faults_counted(tmp_path: Path) -> None:
    test = suite()["tests"][0]
    many = suite(tests=[{**test, "name": f"Test {number}"} for number in range(1000)])
    assert len(list(open_suite(written(tmp_path, many)).cases())) == 1000
    many["tests"] = [{**each, "turns": []} for each in many["tests"]]
    report = validate_suite(written(tmp_path, many))
    assert (report.case_count, report.error_count, len(report.errors)) == (1000, 1000, LISTED_PROBLEMS)


@pytest.mark.parametrize(
    ("payload", "places"),
    [
        (suite(owner="team"), ["$.owner"]),
        (suite(model="gpt-4o"), ["$.model"]),
        (in_test(systemPrompt="Be brief."), ["$.tests[0].systemPrompt"]),
        (in_test(turns=[{"user": "AUTO"}]), ["$.tests[0].turns[0].user"]),
        (suite({**BEFORE, "beforeTurn": 1}), ["$.tests[0].evaluations[0].beforeTurn"]),
        (suite({**BEFORE, "beforeTurn": 10}), ["$.tests[0].evaluations[0].beforeTurn"]),
        (suite(LLM, BEFORE, {**LLM, "strict": "param_exists", "paramName": "order"}), []),
        (suite({**LLM, "strict": "integration_called", "integrationCode": "crm"}), []),
    ],
)
def test_what_is_odd_is_a_warning_in_yaml_as_well(
    tmp_path: Path, payload: dict[str, Any], places: list[str]
) -> None:
    path = written(tmp_path, payload)
    for each in (path, Path(shutil.copy(path, tmp_path / "suite.yaml"))):
        report = validate_suite(each)
        assert report.passed
        assert [problem.place for problem in report.warnings] == places
        assert open_suite(each).case_count == 1
