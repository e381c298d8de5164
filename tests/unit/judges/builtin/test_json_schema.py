from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Trace
from agent_eval.errors import InvalidInput
from agent_eval.judges import load_judges
from tests.unit.judges.traces import calls, findings, judge, make_case, says, uses

ORDER = {
    "type": "object",
    "required": ["id", "items"],
    "properties": {
        "id": {"type": "string", "pattern": "^o-[0-9]+$"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"price": {"minimum": 0}}}},
    },
    "additionalProperties": False,
}


def test_without_a_schema_there_is_nothing_to_judge() -> None:
    assert findings(judge("json_schema", says())) == ("skipped", None)


def test_a_valid_output_passes_as_text_and_as_a_value() -> None:
    assert judge("json_schema", says('{"id": "o-1", "items": []}'), json_schema=ORDER).passed
    assert judge("json_schema", says({"id": "o-1", "items": []}), json_schema=ORDER).passed


def test_the_first_broken_place_stands_in_the_reason_and_all_in_the_evidence() -> None:
    output = {"id": "1", "items": [{"price": 1}, {"price": -1}], "extra": 1}
    verdict = judge("json_schema", uses("t"), says(output), json_schema=ORDER)
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.reason == (
        'the final output breaks its schema at $: property "extra" is not allowed here '
        "(and 2 more violations)"
    )
    assert [item["path"] for item in verdict.evidence["violations"]] == ["$", "$.id", "$.items[1].price"]
    assert verdict.evidence_refs == [2]


def test_text_that_is_not_json_is_a_parse_error() -> None:
    verdict = judge("json_schema", says("Sure! {}"), json_schema={})
    assert findings(verdict) == ("failed", "parse_error")
    assert verdict.reason.startswith("the final output is not JSON: ")


@pytest.mark.parametrize("text", ["", "{", '{"a":1,"a":2}', "NaN", "[1,]", "\ud800", "1" * 5000, "[" * 100])
def test_what_strict_json_refuses_is_a_parse_error(text: str) -> None:
    assert findings(judge("json_schema", says(text), json_schema={})) == ("failed", "parse_error")


def test_a_code_fence_is_not_json_and_the_reason_says_so() -> None:
    verdict = judge("json_schema", says('```json\n{"a": 1}\n```'), json_schema={})
    assert "it is in a code fence" in verdict.reason


def test_no_output_is_an_error_even_under_a_schema_that_allows_null() -> None:
    assert findings(judge("json_schema", uses("t"), json_schema=True)) == ("error", "missing_output")


def test_the_schema_false_allows_nothing() -> None:
    assert findings(judge("json_schema", says("1"), json_schema=False)) == ("failed", "contract_violation")


def test_a_huge_value_is_cut_in_reason_and_evidence() -> None:
    verdict = judge("json_schema", says({"id": "x" * 1_000_000, "items": 1}), json_schema=ORDER)
    assert len(str(verdict.evidence)) < 1000
    assert "pattern" in str(verdict.evidence) or "match" in str(verdict.evidence)


def test_many_violations_are_listed_up_to_twenty() -> None:
    verdict = judge("json_schema", says([*range(50)]), json_schema={"items": {"type": "string"}})
    assert len(verdict.evidence["violations"]) == 20


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$dynamicRef": "#"},
        {"unevaluatedProperties": False, "$ref": "#"},
    ],
)
def test_a_schema_that_refers_to_itself_without_end_is_an_error_verdict(schema: dict[str, Any]) -> None:
    verdict = judge("json_schema", says({"a": 1}), json_schema=schema)
    assert findings(verdict) == ("error", "judge_error")
    assert verdict.reason.startswith("the schema cannot be applied: the schema refers to itself without end")


def test_references_that_multiply_are_an_error_verdict() -> None:
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
    schema = {"$ref": "#/$defs/s0", "$defs": {**steps, "s40": True}}
    verdict = judge("json_schema", says("1"), json_schema=schema)
    assert findings(verdict) == ("error", "judge_error")
    assert "references" in verdict.reason


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "whole number"}, "at /type"),
        ({"properties": {"a": {"minimum": "0"}}}, "at /properties/a/minimum"),
        ({"pattern": "(?=a)"}, "lookahead"),
        ({"items": {"patternProperties": {"(": True}}}, "patternProperties"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "leads to nothing in the schema"),
        ({"$ref": "file:///etc/passwd"}, "leads to nothing in the schema"),
        ({"$ref": "#/$defs/missing"}, "leads to nothing in the schema"),
        ({"$ref": "#/x/0", "x": ["no schema"]}, "not a schema"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "is not a supported draft"),
        ({"$schema": "https://example.com/mine"}, "is not a supported draft"),
        ({"$schema": 7}, "is not a supported draft"),
        (
            {"$ref": "#/definitions/text", "definitions": {"text": {"$ref": "#/x"}}, "x": "no schema"},
            "not a schema",
        ),
    ],
)
def test_an_unusable_schema_is_refused_before_anything_runs(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        judge("json_schema", says("1"), json_schema=schema)
    assert caught.value.details["case_id"] == "case-1"
    assert caught.value.details["field"] == "json_schema"
    assert words in caught.value.message + caught.value.remedy
    assert caught.value.remedy


def test_references_within_the_schema_and_to_the_published_drafts_work() -> None:
    schema = {
        "$id": "https://example.com/tree",
        "$ref": "#node",
        "$defs": {
            "node": {"$anchor": "node", "properties": {"left": {"$ref": "#node"}, "n": {"type": "integer"}}},
            "meta": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        },
    }
    assert judge("json_schema", says({"left": {"left": {"n": 1}}}), json_schema=schema).passed
    verdict = judge("json_schema", says({"left": {"left": {"n": "1"}}}), json_schema=schema)
    assert "$.left.left.n" in verdict.reason


@pytest.mark.parametrize(
    ("draft", "schema", "valid", "invalid"),
    [
        ("http://json-schema.org/draft-04/schema#", {"maximum": 3, "exclusiveMaximum": True}, 2, 3),
        ("http://json-schema.org/draft-06/schema#", {"exclusiveMaximum": 3}, 2, 3),
        ("http://json-schema.org/draft-07/schema#", {"if": {"const": 1}, "then": False}, 2, 1),
        ("https://json-schema.org/draft/2019-09/schema", {"items": [{"const": 1}]}, [1, 2], [2]),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"const": 1}]}, [1, 2], [2]),
    ],
)
def test_each_draft_is_read_by_its_own_rules(draft: str, schema: Any, valid: Any, invalid: Any) -> None:
    for stated in (draft, draft.removesuffix("#")):
        assert judge("json_schema", says(valid), json_schema={"$schema": stated, **schema}).passed
        assert not judge("json_schema", says(invalid), json_schema={"$schema": stated, **schema}).passed


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^(a+)+$"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"},
        {"allOf": [{"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}]},
    ],
)
def test_patterns_that_explode_elsewhere_answer(schema: dict[str, Any]) -> None:
    assert not judge("json_schema", says(f'"{"a" * 50_000}!"'), json_schema=schema).passed


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^(a+)+$": True}, "additionalProperties": False},
        {"allOf": [{"patternProperties": {"^(a+)+$": True}}], "unevaluatedProperties": False},
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "allOf": [{"patternProperties": {"^(a+)+$": True}}],
            "unevaluatedProperties": False,
        },
    ],
)
def test_property_patterns_that_explode_elsewhere_answer(schema: dict[str, Any]) -> None:
    assert judge("json_schema", says({"a" * 50: 1}), json_schema=schema).passed
    assert not judge("json_schema", says({"a" * 50_000 + "!": 1}), json_schema=schema).passed


def test_a_format_is_an_annotation() -> None:
    assert judge("json_schema", says('"no address"'), json_schema={"format": "email"}).passed


def test_a_schema_is_compiled_once_whatever_the_order_of_its_keys() -> None:
    for schema in ({"type": "string", "minLength": 2}, {"minLength": 2, "type": "string"}):
        assert not judge("json_schema", says('"a"'), json_schema=schema).passed


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
@pytest.mark.parametrize(
    ("schema", "allowed", "refused"),
    [
        ({"properties": {"a": True}}, ["a"], ["b"]),
        ({"additionalProperties": True}, ["a", "b"], None),
        ({"properties": {"a": True}, "additionalProperties": {"type": "integer"}}, ["a", "b"], None),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": True}}}}, ["a"], ["b"]),
        ({"allOf": [{"properties": {"a": True}}, {"patternProperties": {"^b": True}}]}, ["a", "bb"], ["c"]),
        ({"anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": False}}]}, ["a"], ["c"]),
        ({"oneOf": [{"required": ["a"], "properties": {"a": True}}, False]}, ["a"], ["a", "c"]),
        ({"dependentSchemas": {"a": {"properties": {"a": True, "b": True}}}}, ["a", "b"], ["b"]),
        (
            {"if": {"properties": {"a": True}, "required": ["a"]}, "then": {"properties": {"b": True}}},
            ["a", "b"],
            ["b"],
        ),
        ({"if": {"required": ["a"]}, "else": {"properties": {"b": True}}}, ["b"], ["c"]),
        ({"allOf": [{"unevaluatedProperties": True}]}, ["a"], None),
        ({"not": {"not": {"properties": {"a": True}}}}, [], ["a"]),
    ],
)
def test_properties_that_no_part_of_the_schema_evaluates_are_refused(
    draft: str, schema: dict[str, Any], allowed: list[str], refused: list[str] | None
) -> None:
    closed = {
        "$schema": f"https://json-schema.org/draft/{draft}/schema",
        **schema,
        "unevaluatedProperties": False,
    }
    assert judge("json_schema", says(dict.fromkeys(allowed, 1)), json_schema=closed).passed
    if refused is not None:
        verdict = judge("json_schema", says(dict.fromkeys(refused, 1)), json_schema=closed)
        assert "not allowed here" in verdict.evidence["violations"][0]["message"]


def test_unevaluated_properties_may_have_a_schema() -> None:
    schema = {"properties": {"a": True}, "unevaluatedProperties": {"type": "integer"}}
    assert judge("json_schema", says({"a": "x", "b": 1}), json_schema=schema).passed
    verdict = judge("json_schema", says({"a": "x", "b": "1"}), json_schema=schema)
    assert verdict.evidence["violations"][0]["path"] == "$.b"


def test_additional_properties_may_have_a_schema() -> None:
    schema = {"properties": {"a": True}, "additionalProperties": {"type": "integer"}}
    assert judge("json_schema", says({"a": "x", "b": 1}), json_schema=schema).passed
    assert not judge("json_schema", says({"b": "1"}), json_schema=schema).passed


def test_object_keywords_say_nothing_of_other_values() -> None:
    schema = {
        "patternProperties": {"a": False},
        "additionalProperties": False,
        "unevaluatedProperties": False,
    }
    assert judge("json_schema", says("[1]"), json_schema=schema).passed


def test_draft_4_may_close_an_object_with_false() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://example.com/order",
        "properties": {"a": {"$ref": "#/definitions/a"}},
        "definitions": {"a": {"type": "object", "additionalProperties": False}},
        "additionalProperties": False,
    }
    assert judge("json_schema", says({"a": {}}), json_schema=schema).passed
    assert not judge("json_schema", says({"a": {"b": 1}}), json_schema=schema).passed


def test_a_schema_of_another_draft_may_stand_inside() -> None:
    inner = {"$id": "https://example.com/old", "dependentRequired": {"a": ["b"]}}
    old = {**inner, "$schema": "http://json-schema.org/draft-07/schema#"}
    assert not judge(
        "json_schema", says({"old": {"a": 1}}), json_schema={"properties": {"old": inner}}
    ).passed
    # Draft 7 does not know dependentRequired.
    assert judge("json_schema", says({"old": {"a": 1}}), json_schema={"properties": {"old": old}}).passed


def test_recursive_references_follow_the_outermost_anchor() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "properties": {"left": {"$recursiveRef": "#"}},
        "unevaluatedProperties": False,
    }
    assert judge("json_schema", says({"left": {"left": {}}}), json_schema=schema).passed
    assert not judge("json_schema", says({"left": {"right": {}}}), json_schema=schema).passed


@pytest.mark.parametrize(
    "schema", [{"$ref": "#/nowhere"}, {"type": 7}, {"pattern": "(?=x)"}, {"$ref": "http://127.0.0.1:9/"}]
)
def test_a_schema_that_nobody_checked_is_an_error_verdict_and_no_crash(schema: dict[str, Any]) -> None:
    case = make_case(says('"text"'), json_schema=schema)
    verdict = load_judges(["json_schema"])[0].evaluate(case, Trace(case.trace))
    assert findings(verdict) == ("error", "judge_error")
    assert verdict.reason.startswith("the schema cannot be applied: applying it raised")


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, True, "1", None, [1], [True], {"a": 1}, {"a": True}, 0, False], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([{}, []], True),
        ([[["x"]], [["x"]]], False),
        # Comparing each with each other one would take minutes.
        ([{"number": number} for number in range(50_000)], True),
    ],
)
def test_unique_items_are_told_by_value(items: list[Any], unique: bool) -> None:
    assert judge("json_schema", says(items), json_schema={"uniqueItems": True}).passed is unique


def test_an_answer_that_was_not_recorded_is_inconclusive_and_arguments_can_be_the_answer() -> None:
    schema = {"json_schema": {"required": ["total"]}}
    assert findings(judge("json_schema", says(None, content_recorded=False), **schema)) == (
        "inconclusive",
        None,
    )
    answer = calls("submit", {"total": 7})
    assert judge("json_schema", answer, final_output_tool="submit", **schema).passed
    assert findings(judge("json_schema", answer, **schema)) == ("error", "missing_output")
