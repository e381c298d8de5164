"""Strict evaluations of conversations, row by row: what passes, fails, cannot be told and is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case
from agent_eval.contracts.aui import STRICT_KINDS, own_fields
from agent_eval.errors import InvalidInput
from agent_eval.judges import load_judges, validate_case
from tests.unit.judges.traces import Events, answers, asks, calls, findings, judge, says, uses

CF = "CONVERSATION_FORWARDING"
Answer = dict[str, Any]


def w(*names: Any, **trace_info: Any) -> Answer:
    """An answer that executed these workflows."""
    return {"executed_workflows": list(names), "trace_info": {"response": {"type": "answer"}, **trace_info}}


def x(**params: Any) -> Answer:
    """An answer that extracted these parameters."""
    return w(understanding={"extracted_params": params})


def d(*decisions: dict[str, Any], **more: Any) -> Answer:
    """An answer with these decisions, and its context."""
    return w(decisions=list(decisions), context={}, **more)


def rule(code: Any = "X", kind: str = "rule_triggered") -> dict[str, Any]:
    return {"type": kind, "rule": {"code": code}}


def called(code: Any = "X", **fields: Any) -> dict[str, Any]:
    return {"type": "call_integration", "integration": {"code": code, **fields}}


def response(value: Any, **more: Any) -> Answer:
    return {"executed_workflows": [], "trace_info": {"response": value}, **more}


ERROR = response({"type": "error"})
NO_TRACE: Answer = {}
PLAIN = w()


def conversation(*turns: Answer) -> list[Events]:
    """A turn of the user and the agent for each of the agent's answers."""
    return [asks("?") + says("!", attributes={"aui": answer}) for answer in turns]


def outcome(spec: dict[str, Any], *events: Events, **metadata: Any) -> str:
    """`P`, `F`, `E`, `S`, or `V` where the case is refused."""
    try:
        verdict = judge("strict", *events, metadata={"strict": [spec], **metadata})
    except InvalidInput:
        return "V"
    return {"passed": "P", "failed": "F", "error": "E", "skipped": "S"}[verdict.outcome.value]


NEGATED: dict[str, tuple[str, dict[str, str]]] = {
    "escalated": ("not_escalated", {}),
    "tool_used": ("tool_not_used", {"toolName": "REFUND"}),
    "param_exists": ("param_not_exists", {"paramName": "p"}),
    "escalated_due_to_error": ("not_escalated_due_to_error", {}),
    "rule_triggered": ("rule_not_triggered", {"ruleCode": "X"}),
}
"""Kinds with their negation, and what both look for."""

PAIRS: list[tuple[int | str, str, list[Answer], str]] = [
    (1, "escalated", [w(CF)], "P/F"),
    (2, "escalated", [w("CONVERSATION_FORWARDING_TIER2")], "P/F"),
    (3, "escalated", [w("PRE_CONVERSATION_FORWARDING"), w(CF.lower())], "F/P"),
    (4, "escalated", [w()], "F/P"),
    (5, "escalated", [response({}, executed_workflows=None)], "F/P"),
    ("5b", "escalated", [{"trace_info": {}}], "F/P"),
    (6, "escalated", [{"executed_workflows": CF}], "P/F"),
    (7, "escalated", [w({"name": CF})], "E/E"),
    (8, "escalated", [NO_TRACE], "E/E"),
    ("8b", "escalated", [{"executed_workflows": None}], "E/E"),
    (9, "escalated", [NO_TRACE, w(CF)], "P/F"),
    (10, "escalated", [{**ERROR, "executed_workflows": [CF]}], "P/F"),
    (11, "escalated", [PLAIN] * 7, "F/P"),
    (13, "tool_used", [PLAIN, PLAIN, w("REFUND")], "P/F"),
    (14, "tool_used", [w("refund", "REFUND ", "REFUND_V2")], "F/P"),
    (15, "tool_used", [d({"type": "activate_tool", "tool": "REFUND"})], "F/P"),
    (16, "tool_used", [w("REFUND"), ERROR], "P/F"),
    (48, "param_exists", [x(p="x")], "P/F"),
    (49, "param_exists", [x(q="x")], "F/P"),
    (50, "param_exists", [x(p="")], "F/P"),
    (51, "param_exists", [x(p="undefined")], "F/P"),
    (52, "param_exists", [x(p=None)], "F/P"),
    (53, "param_exists", [x(p="  "), x(p=" undefined ")], "F/P"),
    (54, "param_exists", [x(p=0)], "P/F"),
    ("54b", "param_exists", [x(p="0")], "P/F"),
    (55, "param_exists", [x(p=False)], "P/F"),
    ("55b", "param_exists", [x(p="false")], "P/F"),
    (56, "param_exists", [x(p=[]), x(p={})], "F/P"),
    (57, "param_exists", [x(p=[""]), x(p=["undefined"])], "F/P"),
    (58, "param_exists", [x(p=["a"])], "P/F"),
    (59, "param_exists", [x(p="Undefined")], "P/F"),
    ("59b", "param_exists", [x(p="null")], "P/F"),
    ("59c", "param_exists", [x(p="N/A")], "P/F"),
    (60, "param_exists", [x(p="x"), x(p="")], "P/F"),
    (61, "param_exists", [PLAIN], "F/P"),
    (62, "escalated_due_to_error", [PLAIN, ERROR], "P/F"),
    (63, "escalated_due_to_error", [response({"type": "ERROR"}), response({"type": "blocked"})], "F/P"),
    (64, "escalated_due_to_error", [response({"type": "answer", "error": "x"})], "F/P"),
    (65, "escalated_due_to_error", [response(None)], "E/E"),
    (67, "escalated_due_to_error", [ERROR, PLAIN], "P/F"),
    (68, "rule_triggered", [d(rule())], "P/F"),
    (69, "rule_triggered", [d(rule()), d(), d(), d(), d(rule())], "P/F"),
    (70, "rule_triggered", [d({"type": "rule_triggered", "rule": None}, {"rule": {}})], "F/P"),
    (71, "rule_triggered", [d(rule(kind="block"))], "P/F"),
    (72, "rule_triggered", [d(rules_evaluations=[{"code": "X", "triggered": True}])], "F/P"),
    (73, "rule_triggered", [d(rule("x"))], "F/P"),
    (75, "rule_triggered", [d(), d()], "F/P"),
    (76, "rule_triggered", [PLAIN], "F/P"),
    (77, "rule_triggered", [PLAIN, d(rule()), ERROR], "P/F"),
    (89, "escalated", [{"executed_workflows": [CF]}], "P/F"),
    ("89b", "tool_used", [{"executed_workflows": []}], "F/P"),
    ("89c", "param_exists", [{"executed_workflows": []}], "E/E"),
    ("89d", "rule_triggered", [{"executed_workflows": []}], "E/E"),
    ("89e", "escalated_due_to_error", [{"executed_workflows": []}], "E/E"),
    # Rows of our own.
    ("o1", "escalated", [w(CF), NO_TRACE], "P/F"),
    ("o2", "escalated", [w("A", {"name": "B"}, CF)], "P/F"),
    ("o3", "escalated", [w(f" {CF}")], "F/P"),
    ("o4", "escalated", [{"executed_workflows": 7, "trace_info": {}}], "E/E"),
    ("o5", "tool_used", [w("A"), NO_TRACE], "E/E"),
    ("o6", "tool_used", [NO_TRACE, w("REFUND")], "P/F"),
    ("o7", "tool_used", [w("REFUND", "REFUND")], "P/F"),
    ("o8", "tool_used", [{"executed_workflows": "REFUND"}], "P/F"),
    ("o9", "param_exists", [PLAIN, x(p="x")], "P/F"),
    ("o10", "param_exists", [x(q=1), PLAIN], "F/P"),
    ("o11", "param_exists", [w(understanding={"extracted_params": [1]})], "E/E"),
    ("o12", "param_exists", [x(P="x")], "F/P"),
    ("o13", "param_exists", [x(p={"a": ""})], "P/F"),
    ("o14", "param_exists", [x(p=[[], [""]])], "F/P"),
    ("o15", "rule_triggered", [d(rule()), PLAIN], "P/F"),
    ("o16", "rule_triggered", [d(), PLAIN], "F/P"),
    ("o17", "rule_triggered", [d("odd", None)], "F/P"),
    ("o18", "rule_triggered", [w(decisions={"code": "X"})], "E/E"),
    ("o19", "escalated_due_to_error", [PLAIN, response("error")], "E/E"),
    ("o21", "escalated", [{"api": "v3", "trace_info": {"response": {"type": "answer"}}}], "E/E"),
    ("o22", "tool_used", [{"api": "v3", "trace_info": {"decisions": []}}], "E/E"),
    ("o23", "param_exists", [{"api": "v3", "trace_info": {"understanding": {"intents": []}}}], "E/E"),
    ("o24", "rule_triggered", [{"api": "v3", "trace_info": {"decisions": [rule()]}}], "P/F"),
    ("o25", "escalated_due_to_error", [{"api": "v3", **ERROR}], "P/F"),
    ("o20", "escalated_due_to_error", [response(None), ERROR], "P/F"),
]


@pytest.mark.parametrize(("row", "kind", "turns", "expected"), PAIRS, ids=[str(row[0]) for row in PAIRS])
def test_a_kind_and_its_negation_answer_the_same_question(
    row: int | str, kind: str, turns: list[Answer], expected: str
) -> None:
    negation, named = NEGATED[kind]
    both = [outcome({"strict": each, **named}, *conversation(*turns)) for each in (kind, negation)]
    assert "/".join(both) == expected


def before(turn: Any) -> dict[str, Any]:
    return {"strict": "tool_not_used", "toolName": "REFUND", "beforeTurn": turn}


def equals(value: Any, name: str = "p") -> dict[str, Any]:
    return {"strict": "param_equals", "paramName": name, "paramValue": value}


def used_in(*turns: int, of: int) -> list[Answer]:
    return [w("REFUND") if number in turns else PLAIN for number in range(1, of + 1)]


INTEGRATION = {"strict": "integration_called", "integrationCode": "X"}

SINGLE: list[tuple[int | str, dict[str, Any], list[Answer], str]] = [
    (18, {"strict": "tool_used"}, [PLAIN], "V"),
    ("18b", {"strict": "tool_used", "toolName": ""}, [PLAIN], "V"),
    (19, before(3), used_in(2, of=4), "F"),
    (20, before(3), used_in(3, of=4), "P"),
    (21, before(3), used_in(4, of=4), "P"),
    (22, before(3), used_in(2, 4, of=4), "F"),
    (23, before(1), used_in(1, of=1), "P"),
    *((f"24 {value!r}", before(value), [PLAIN], "V") for value in (0, -1, 2.5, "3", True)),
    (25, before(3.0), used_in(2, of=4), "F"),
    (26, before(10), used_in(7, of=7), "F"),
    (27, before(3), [PLAIN, PLAIN], "P"),
    (28, before(3), [PLAIN, NO_TRACE, PLAIN], "E"),
    (29, before(3), [PLAIN, PLAIN, PLAIN, NO_TRACE], "P"),
    (30, {"strict": "tool_used", "toolName": "REFUND", "beforeTurn": 3}, [PLAIN], "V"),
    (32, equals("a"), [x(p="a")], "P"),
    (33, equals("a"), [x(p="b"), x(), x(p="a")], "P"),
    (34, equals("a"), [x(p="a"), x(), x(p="b")], "F"),
    *(
        (f"35 {later!r}", equals("a"), [x(p="a"), x(), later], "P")
        for later in (x(p=""), x(p="undefined"), x())
    ),
    *((f"36 {value!r}", equals("a"), [x(p=value)], "F") for value in ("A", " a", "a ")),
    (37, equals(5), [x(p="5")], "P"),
    ("37b", equals("5"), [x(p=5)], "P"),
    ("37c", equals(5), [x(p=5.0)], "P"),
    (38, equals(True), [x(p="true")], "P"),
    (39, equals(True), [x(p=1)], "F"),
    ("39b", equals(True), [x(p="True")], "F"),
    (40, equals(["a", "b"]), [x(p=["b", "a"])], "F"),
    (41, equals({"a": 1, "b": 2}), [x(p={"b": 2, "a": 1})], "P"),
    (42, equals("a"), [x(p=["a"])], "F"),
    ("42b", equals("a"), [x(p={"value": "a"})], "F"),
    *((f"43 {value!r}", equals(value), [x(p="a")], "V") for value in ("", None, "undefined")),
    (44, equals("a"), [x(), x()], "F"),
    (45, equals("a"), [PLAIN], "F"),
    (46, equals("a", "refund-reason"), [x(refund_reason="a")], "F"),
    (47, {"strict": "param_equals", "paramName": "p"}, [x(p="a")], "V"),
    (74, {"strict": "rule_triggered", "ruleCode": "12"}, [d(rule(12))], "F"),
    ("74b", {"strict": "rule_not_triggered", "ruleCode": "12"}, [d(rule(12))], "P"),
    (78, INTEGRATION, [d(called(status_code=200))], "P"),
    ("78b", INTEGRATION, [d(called(status_code=200.0))], "P"),
    (79, INTEGRATION, [d(called(status_code="200"), called(status_code=True))], "F"),
    (80, INTEGRATION, [d(called(status_code=201), called(status_code=204))], "F"),
    (81, INTEGRATION, [d(called(status_code=500)), d(called(status_code=200))], "P"),
    ("81b", INTEGRATION, [d(called(status_code=200)), d(called(status_code=500))], "P"),
    (82, INTEGRATION, [d(called(status_code=500))], "F"),
    (83, INTEGRATION, [d(called(type="REST"))], "F"),
    (84, INTEGRATION, [d(called(type="RAG", response={"resources": []}))], "F"),
    (85, INTEGRATION, [d(called(type="MCP", tool_calls=[{"tool_name": "t"}]))], "F"),
    ("85c", INTEGRATION, [d(called(type="MCP", status_code=200, tool_calls=[]))], "P"),
    ("85d", INTEGRATION, [d(called(type="RAG", status_code=200))], "P"),
    ("85e", INTEGRATION, [d(called(type="RAG", status_code=500, response="x"))], "F"),
    ("85b", INTEGRATION, [d(called(type="MCP", tool_calls=[{}, {"is_error": True}]))], "F"),
    (86, INTEGRATION, [d({**called(), "status_code": 200})], "F"),
    (87, INTEGRATION, [d({**called(status_code=200), "type": "no_tool"})], "F"),
    ("87b", INTEGRATION, [d(called(None, status_code=200))], "F"),
    (88, INTEGRATION, [w(decisions=[])], "F"),
    ("88b", INTEGRATION, [PLAIN], "F"),
    ("89f", INTEGRATION, [{"executed_workflows": []}], "E"),
    (90, {"strict": "tool_uesd", "toolName": "A"}, [PLAIN], "V"),
    ("90b", {"strict": "escalated", "weight": -1}, [PLAIN], "V"),
    ("90c", {"strict": "escalated", "weight": 0}, [PLAIN], "V"),
    # Rows of our own.
    ("o21", {"strict": "escalated", "toolName": "A"}, [PLAIN], "V"),
    ("o22", equals("a"), [x(p="b"), PLAIN], "F"),
    ("o23", equals("1.10"), [x(p="1.1")], "F"),
    ("o24", equals(["a"]), [x(p='["a"]')], "P"),
    ("o25", equals("NaN"), [x(p="NaN")], "P"),
    ("o26", equals(5), [x(p=" 5")], "F"),
    ("o27", INTEGRATION, [w(decisions=[called(status_code=200)])], "P"),
    ("o28", INTEGRATION, [d(called(type="RAG"))], "F"),
    ("o29", INTEGRATION, [d(called(type="MCP", tool_calls="odd"))], "F"),
    ("o30", {"strict": "escalated", "criterion": "x", "aui_logic": ["R1"], "category": "c"}, [w(CF)], "P"),
    ("o31", {"strict": "escalated", "tool_name": "A"}, [PLAIN], "V"),
    ("o32", before(2), [NO_TRACE, w("REFUND")], "E"),
    ("o33", {"strict": "param_equals", "paramName": "p", "paramValue": False}, [x(p="false")], "P"),
]


@pytest.mark.parametrize(("row", "spec", "turns", "expected"), SINGLE, ids=[str(row[0]) for row in SINGLE])
def test_rows_of_one_kind(row: int | str, spec: dict[str, Any], turns: list[Answer], expected: str) -> None:
    assert outcome(spec, *conversation(*turns)) == expected


@pytest.mark.parametrize("failure", ["infrastructure", "timeout"])
@pytest.mark.parametrize("kind", ["escalated", "not_escalated", "not_escalated_due_to_error"])
def test_a_conversation_whose_agent_could_not_be_reached_is_not_evaluated(kind: str, failure: str) -> None:
    history = [{"attempt": 0, "failure": failure}]  # Rows 12 and 66.
    fields = {"attempt_history": history, "selected_attempt": 0}
    assert outcome({"strict": kind}, *conversation(PLAIN), **fields) == "S"


def test_imported_tool_calls_count_even_where_they_failed() -> None:
    events = asks("?") + calls("REFUND") + answers("REFUND", None, error="declined") + says()  # Row 17.
    assert outcome({"strict": "tool_used", "toolName": "REFUND"}, events) == "P"
    assert outcome({"strict": "tool_not_used", "toolName": "REFUND"}, events) == "F"


def test_a_welcome_is_no_turn_and_a_repeated_message_begins_none() -> None:
    welcome = says("Hi", attributes={"aui": w("REFUND")})  # Row 31.
    used = says("!", attributes={"aui": w("REFUND")}, turn=2)
    first = asks("?", turn=1) + says("!", attributes={"aui": PLAIN}, turn=1)
    assert outcome(before(2), [{**welcome[0], "turn": 0}], first, asks("?", turn=2), used) == "P"
    assert outcome(before(3), first, asks("?", turn=2), asks("?", turn=2), used) == "F"
    assert outcome(before(2), welcome, *conversation(PLAIN, w("REFUND"))) == "P"


RULE = {"strict": "rule_triggered", "ruleCode": "X"}
GENERIC: list[tuple[str, dict[str, Any], Events, str]] = [
    ("handed to a human", {"strict": "escalated"}, says("human_support", type="handoff"), "P"),
    ("handed to an agent", {"strict": "escalated"}, says("orders", type="handoff"), "F"),
    ("a forwarding tool", {"strict": "escalated"}, uses(f"{CF}_2"), "P"),
    ("state", equals("a"), says({"params": {"p": "a"}}, type="state"), "P"),
    ("plain state", equals("a"), says({"p": "a"}, type="state"), "P"),
    ("no state", equals("a"), says(), "E"),
    ("rule", RULE, says({"code": "X"}, type="guardrail", block_reason="X"), "P"),
    ("passed rule", RULE, says({"code": "X"}, type="guardrail"), "F"),
    ("no rules", {"strict": "rule_not_triggered", "ruleCode": "X"}, says(), "E"),
    ("called", INTEGRATION, uses("X"), "P"),
    ("failed call", INTEGRATION, calls("X") + answers("X", None, error="down"), "F"),
    ("unanswered call", INTEGRATION, calls("X"), "F"),
    ("error", {"strict": "escalated_due_to_error"}, says(None, type="error", error="down"), "P"),
    ("error of a message", {"strict": "not_escalated_due_to_error"}, says(None, error="down"), "F"),
    ("no error", {"strict": "not_escalated_due_to_error"}, says(), "P"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spec", "events", "expected"), GENERIC, ids=[row[0] for row in GENERIC])
def test_traces_of_any_other_agent_are_read_by_their_events(
    name: str, spec: dict[str, Any], events: Events, expected: str
) -> None:
    assert outcome(spec, asks("?"), events, says()) == expected


def test_the_evidence_shows_every_turn_that_decided_and_what_came_near() -> None:
    specs = [
        {"strict": "rule_triggered", "ruleCode": "X", "weight": 3},
        {"strict": "tool_used", "toolName": "REFUND"},
    ]
    turns = [d(rule()), {**d(rule()), "executed_workflows": ["refund"]}]
    verdict = judge("strict", *conversation(*turns), metadata={"strict": specs})
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.score == 0.75
    assert verdict.reason == 'tool_used: "REFUND" was not used; similar: "refund" in turn 2'
    rules, tools = verdict.evidence["evaluations"]
    assert rules["reason"] == 'rule "X" was triggered in turns 1 and 2'
    turns_of_rules = [(turn["turn"], turn["event"], turn["counts"]) for turn in rules["turns"]]
    assert turns_of_rules == [(1, 1, True), (2, 3, True)]
    assert tools["turns"] == [{"turn": 2, "event": 3, "value": "refund", "counts": False}]


def test_values_of_any_size_and_depth_are_compared_and_shown_in_part() -> None:
    for value in ("x" * 100_000, "[" * 100_000, ["x" * 100_000], {"a": "b" * 1000}):
        verdict = judge("strict", *conversation(x(p=value)), metadata={"strict": [equals("a")]})
        assert findings(verdict) == ("failed", "contract_violation")
        assert len(str(verdict.evidence)) < 1000
    known = {"strict": "param_exists", "paramName": "p"}
    assert judge("strict", *conversation(x(p="x" * 100_000)), metadata={"strict": [known]}).passed


ODD = {"trace_info": {"decisions": 7, "response": [], "understanding": 1}}


@pytest.mark.parametrize("aui", ["odd", 7, None, [], {"trace_info": 7}, ODD])
@pytest.mark.parametrize("kind", sorted({*STRICT_KINDS} - {"param_equals"}))
def test_answers_of_any_shape_never_pass_and_raise_nothing(kind: str, aui: Any) -> None:
    spec = {"strict": kind, **dict.fromkeys(own_fields(kind) - {"beforeTurn"}, "X")}
    events = asks("?") + says("!", attributes={"aui": aui})
    verdict = judge("strict", events, metadata={"strict": [spec]})
    is_traced = isinstance(aui, dict) and isinstance(aui["trace_info"], dict)
    told = is_traced and kind in ("escalated", "not_escalated", "tool_used", "tool_not_used")
    assert (verdict.outcome.value == "error") is not told


def test_a_failed_evaluation_points_at_the_event_that_broke_it() -> None:
    verdict = judge("strict", *conversation(PLAIN, w(CF)), metadata={"strict": [{"strict": "not_escalated"}]})
    assert (verdict.evidence_refs, verdict.reason) == ([3], "not_escalated: the agent escalated in turn 2")


def test_what_cannot_be_told_is_an_error_and_what_failed_comes_first() -> None:
    unknown, failing = {"strict": "param_exists", "paramName": "p"}, {"strict": "not_escalated"}
    verdict = judge("strict", *conversation(NO_TRACE), metadata={"strict": [unknown]})
    assert findings(verdict) == ("error", "missing_output")
    assert 'whether "p" is known cannot be told: turn 1: extracted_params is not recorded' in verdict.reason
    both = judge("strict", *conversation(NO_TRACE, w(CF)), metadata={"strict": [unknown, failing]})
    assert findings(both)[0] == "failed"


@pytest.mark.parametrize("malformed", [{}, "escalated", ["escalated"], [{}]])
def test_malformed_evaluations_are_refused(malformed: Any) -> None:
    with pytest.raises(InvalidInput, match="strict"):
        judge("strict", says(), metadata={"strict": malformed})


def test_the_example_of_the_guide_is_valid() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "guides" / "judges.md").read_text("utf-8")
    section = guide.split("### strict\n")[1].split("\n### ")[0]
    example = json.loads(section.split("```json\n")[1].split("```")[0])
    validate_case(load_judges(["strict"]), Case.model_validate(example))
    assert len(example["metadata"]["strict"]) == 3
    for kind in STRICT_KINDS:
        assert f"`{kind}`" in section


@pytest.mark.parametrize("metadata", [{}, {"strict": []}])
def test_a_case_without_evaluations_is_skipped(metadata: dict[str, Any]) -> None:
    assert findings(judge("strict", says(), metadata=metadata)) == ("skipped", None)


def test_every_row_of_the_table_is_here() -> None:
    names = [str(row[0]) for row in [*PAIRS, *SINGLE]]
    numbers = {int(number[0]) for name in names if (number := re.match(r"\d+", name))}
    assert numbers == set(range(1, 91)) - {12, 17, 31, 66}  # These four have tests of their own.
    assert len([name for name in names if name.startswith("o")]) >= 30
