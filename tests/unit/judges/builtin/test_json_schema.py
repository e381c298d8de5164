"""Every keyword of every draft is in the official suite: `tests/real/test_json_schema_suite.py`."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Trace
from agent_eval.judges import load_judges
from tests.unit.judges.traces import Row, calls, findings, judge, make_case, says, uses

ORDER = {
    "type": "object",
    "required": ["id", "items"],
    "properties": {
        "id": {"type": "string", "pattern": "^o-[0-9]+$"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"price": {"minimum": 0}}}},
    },
    "additionalProperties": False,
}
BROKEN, NO_OUTPUT, UNUSABLE = "failed contract_violation", "error missing_output", "error judge_error"
FENCE, FENCED = '```json\n{"id": "o-1", "items": []}\n```', {"final_output": {"code_fence": True}}
TOTAL, SUBMIT = {"required": ["total"]}, calls("submit", {"total": 7})
DOUBLED = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
TO_EACH_OTHER = {
    "allOf": [{"$ref": "#/$defs/a"}],
    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
}
WITHOUT_END = "the schema cannot be applied: the schema refers to itself without end"


def held(title: str, output: Any, schema: Any, gives: str, **more: Any) -> Row:
    return Row(title, gives, says(output), json_schema=schema, **more)


ROWS = [
    Row("without a schema there is nothing to judge", "skipped", says()),
    held("a valid output as text", '{"id": "o-1", "items": []}', ORDER, "passed"),
    held("a valid output as a value", {"id": "o-1", "items": []}, ORDER, "passed"),
    held("text that is not JSON", "Sure! {}", {}, "failed parse_error", has="the final output is not JSON: "),
    held("a code fence", "```json\n{}\n```", {}, "failed parse_error", has="it is in a code fence"),
    *(
        held(f"strict JSON refuses {text[:9]!r}", text, {}, "failed parse_error")
        for text in ("", "{", '{"a":1,"a":2}', "NaN", "[1,]", "\ud800", "1" * 5000, "[" * 100)
    ),
    Row("no output, where null is allowed", NO_OUTPUT, uses("t"), json_schema=True),
    held("the schema false allows nothing", "1", False, BROKEN),
    *(
        held(f"the definition of {under}", output, schema, gives, has=f"{words}{under}" if words else "")
        for under, schema in (
            ("parameters", {"name": "lookup", "description": "Look up.", "parameters": ORDER}),
            ("function/parameters", {"type": "function", "function": {"name": "a", "parameters": ORDER}}),
            ("schema", {"name": "answer", "strict": True, "schema": ORDER}),
            ("json_schema/schema", {"type": "json_schema", "json_schema": {"name": "a", "schema": ORDER}}),
        )
        for output, gives, words in (
            ({"id": "o-1", "items": []}, "passed", "satisfies its schema, which is what stands under "),
            ({"id": "1"}, BROKEN, ""),
        )
    ),
    *(
        held(f"a fence is read where the case says so: {text!r:.30}", text, ORDER, gives, has=has,
            metadata=FENCED)
        for text, gives, has in (
            (FENCE, "passed", "the final output, read from its code fence, satisfies its schema"),
            (f"Here it is:\n{FENCE}\nAnything else?", "passed", "read from its code fence"),
            ('{"id": "o-1", "items": []}', "passed", "the final output satisfies its schema"),
            (FENCE.replace("o-1", "1"), BROKEN, "read from its code fence"),
            (FENCE + FENCE, "failed parse_error", "not JSON"),
            ("```\n{\n```", "failed parse_error", "not JSON"),
        )
    ),
    held("a fence without the option", FENCE, ORDER, "failed parse_error",
        has="final_output.code_fence reads"),
    held("a format is an annotation", '"no address"', {"type": "string", "format": "email"}, "passed"),
    *(
        held(f"{price} is a multiple of a cent", str(price), {"multipleOf": 0.01}, "passed")
        for price in (19.99, 4.35, 1.1, 0.07, 100.01)
    ),
    held("tenths of a cent are no multiple", "2.675", {"multipleOf": 0.01}, BROKEN),
    *(
        held("a schema that refers to itself without end", {"a": 1}, schema, UNUSABLE, has=WITHOUT_END)
        for schema in ({"$ref": "#"}, {"$dynamicRef": "#"}, TO_EACH_OTHER)
    ),
    held("references that multiply", "1", {"$ref": "#/$defs/s0", "$defs": {**DOUBLED, "s40": True}}, UNUSABLE,
        has="references"),
    *(
        held(f"refused: {schema}"[:60], "1", schema, "refused json_schema", has=words)
        for schema, words in (
            ({"type": "whole number"}, "at /type"),
            ({"title": "Price", "format": "email"}, "it has no keyword of JSON Schema, and checks nothing"),
            ({"name": "a", "parameters": ORDER, "schema": ORDER}, "checks nothing"),
            ({"name": "a", "parameters": ORDER, "tools": []}, "Write what stands under parameters"),
            ({"name": "a", "parameters": {"title": "t"}}, "checks nothing"),
            ({"schema": {"type": "object", "requird": ["id"]}}, "at /schema"),
            ({"type": "object", "requird": ["id"]}, "requird"),
            ({"properties": {"a": {"minimun": 0, "type": "number"}}}, "at /properties/a"),
            ({"properties": {"a": {"minimum": "0"}}}, "at /properties/a/minimum"),
            ({"pattern": "(?=a)"}, "lookahead"),
            ({"allOf": [{"unevaluatedProperties": False}]}, "unevaluatedProperties is not supported"),
            ({"items": {"unevaluatedItems": False}}, "unevaluatedItems is not supported"),
            ({"items": {"patternProperties": {"(": True}}}, "patternProperties"),
            ({"$ref": "http://127.0.0.1:9/schema.json"}, "leads to nothing in the schema"),
            ({"$ref": "file:///etc/passwd"}, "leads to nothing in the schema"),
            ({"$ref": "#/$defs/missing"}, "leads to nothing in the schema"),
            ({"$ref": "#/x/0", "x": ["no schema"]}, "not a schema"),
            ({"$ref": "#/$defs/t", "$defs": {"t": {"$ref": "#/x"}}, "x": "no schema"}, "not a schema"),
            ({"$schema": "http://json-schema.org/draft-03/schema#"}, "is not a supported draft"),
            ({"$schema": "https://example.com/mine"}, "is not a supported draft"),
            ({"$schema": 7}, "is not a supported draft"),
        )
    ),
    held("what was not recorded is not known", None, TOTAL, NO_OUTPUT),
    Row("no recorded answer", "inconclusive", says(None, content_recorded=False), json_schema=TOTAL),
    Row("arguments can be the answer", "passed", SUBMIT, json_schema=TOTAL, final_output_tool="submit"),
    Row("arguments are none otherwise", NO_OUTPUT, SUBMIT, json_schema=TOTAL),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("json_schema")


def test_the_first_broken_place_stands_in_the_reason_and_all_in_the_evidence() -> None:
    output = {"id": "1", "items": [{"price": 1}, {"price": -1}], "extra": 1}
    verdict = judge("json_schema", uses("t"), says(output), json_schema=ORDER)
    assert verdict.reason == (
        'the final output breaks its schema at $: property "extra" is not allowed here '
        "(and 2 more violations)"
    )
    assert [item["path"] for item in verdict.evidence["violations"]] == ["$", "$.id", "$.items[1].price"]
    assert verdict.evidence_refs == [2]


def test_huge_values_and_many_violations_are_cut() -> None:
    verdict = judge("json_schema", says({"id": "x" * 1_000_000, "items": 1}), json_schema=ORDER)
    assert len(str(verdict.evidence)) < 1000
    verdict = judge("json_schema", says([*range(50)]), json_schema={"items": {"type": "string"}})
    assert len(verdict.evidence["violations"]) == 20


OLD = "http://json-schema.org/draft-07/schema#"
NESTED = {"$id": "https://example.com/old", "dependentRequired": {"a": ["b"]}}
KEYWORDS: list[tuple[Any, Any, Any]] = [
    # Schema, valid and invalid value, for what this project replaces in the library.
    ({"properties": {"a": True}, "additionalProperties": {"type": "integer"}}, {"a": "x", "b": 1},
        {"b": "1"}),
    ({"patternProperties": {"a": False}, "additionalProperties": False}, [1], {"a": 1}),
    ({"properties": {"old": NESTED}}, {"old": {"b": 1}}, {"old": {"a": 1}}),
    ({"properties": {"old": {**NESTED, "$schema": OLD}}}, {"old": {"a": 1}}, None),
    ({"uniqueItems": True}, [1, True, "1", None, [1], [True], {"a": 1}, {"a": True}, 0, False, {}, []],
        [1, 1.0]),
    ({"uniqueItems": True}, [[["x"]], ["x"]], [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]),
    # Comparing each with each other one would take minutes.
    ({"uniqueItems": True}, [{"number": number} for number in range(50_000)], [[["x"]], [["x"]]]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "valid", "invalid"), KEYWORDS)
def test_replaced_keywords_mean_what_the_drafts_say(schema: Any, valid: Any, invalid: Any) -> None:
    assert judge("json_schema", says(valid), json_schema=schema).passed
    assert invalid is None or not judge("json_schema", says(invalid), json_schema=schema).passed


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"])
def test_patterns_that_explode_elsewhere_answer(draft: str) -> None:
    stated = {"$schema": f"http{'s' * ('/' in draft)}://json-schema.org/{draft}/schema"}
    many, exploding = "a" * 50_000, "^(a+)+$"
    for schema in ({"pattern": exploding}, {"allOf": [{"$schema": OLD, "pattern": exploding}]}):
        assert not judge("json_schema", says(f'"{many}!"'), json_schema={**stated, **schema}).passed
    names = {**stated, "patternProperties": {exploding: {}}, "additionalProperties": False}
    assert judge("json_schema", says({"a" * 50: 1}), json_schema=names).passed
    assert not judge("json_schema", says({f"{many}!": 1}), json_schema=names).passed


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
    "schema",
    [
        *({"$ref": "#/nowhere"}, {"type": 7}, {"pattern": "(?=x)"}, {"$ref": "http://127.0.0.1:9/"}),
        {"unevaluatedProperties": False},
    ],
)
def test_a_schema_that_nobody_checked_is_an_error_verdict_and_no_crash(schema: dict[str, Any]) -> None:
    case = make_case(says('"text"'), json_schema=schema)
    verdict = load_judges(["json_schema"])[0].evaluate(case, Trace(case.trace))
    assert findings(verdict) == ("error", "judge_error")
    assert verdict.reason.startswith("the schema cannot be applied: applying it raised")
